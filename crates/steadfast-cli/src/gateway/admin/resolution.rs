//! The answer that an operator gives to an operation, as JSON:
//! `{"status":201,"headers":{},"body":…}`.
//!
//! Decides what makes an answer; what it does to a record is [`steadfast_core::record`]'s.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::Value;
use steadfast_core::record::StoredAnswer;

/// Reads `{"status":201,"headers":{},"body":JSON}` or, for other bodies, `body_base64`.
pub fn read_answer(body: &[u8]) -> Result<StoredAnswer, String> {
    let shape = "Write {\"status\":201,\"headers\":{},\"body\":…} or \"body_base64\".";
    let value: Value =
        serde_json::from_slice(body).map_err(|e| format!("No JSON ({e}). {shape}"))?;
    let Value::Object(members) = value else {
        return Err(format!("Not an object. {shape}"));
    };
    let (mut status, mut headers, mut given) = (None, HeaderMap::new(), None);
    let mut is_json = false;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("status", value) => {
                let code = value.as_u64().and_then(|code| u16::try_from(code).ok());
                let code = code.filter(|code| (200..=599).contains(code));
                let code = code.and_then(|code| StatusCode::from_u16(code).ok());
                status = Some(code.ok_or("status is not a whole number from 200 to 599.")?);
            }
            ("headers", Value::Object(fields)) => headers = read_headers(&fields)?,
            ("body", value) if given.is_none() => {
                is_json = true;
                given = Some(Bytes::from(value.to_string()));
            }
            ("body_base64", Value::String(text)) if given.is_none() => {
                given =
                    Some(Bytes::from(BASE64.decode(&text).map_err(
                        |_| "body_base64 is not base64 (RFC 4648, padded).",
                    )?));
            }
            (name, _) => return Err(format!("{name} does not belong here. {shape}")),
        }
    }
    let status = status.ok_or_else(|| format!("There is no status. {shape}"))?;
    if is_json && !headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let body = given.unwrap_or_default();
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    if bodiless && !body.is_empty() {
        return Err(format!(
            "An answer of status {status} has no body. Leave the body out."
        ));
    }
    Ok(steadfast_core::replay::kept(status, &headers, body))
}

fn read_headers(fields: &serde_json::Map<String, Value>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let field = HeaderName::from_bytes(name.as_bytes());
        let field = field.map_err(|_| format!("{name} is no header field's name."))?;
        let values = match value {
            Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        for value in values {
            let value = value
                .as_str()
                .and_then(|text| HeaderValue::from_str(text).ok());
            headers.append(
                &field,
                value.ok_or_else(|| format!("The value of {name} is no field value."))?,
            );
        }
    }
    Ok(headers)
}
