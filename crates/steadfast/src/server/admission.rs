//! The checks before a record is asked for: key, then body (docs/keyed-requests.md, "Order of
//! checks").

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use steadfast_core::key::{Key, KeyError};
use steadfast_core::policy::{Idempotency, KeyMode};
use steadfast_core::problem::{Problem, Slug};

use crate::body::BoxError;

/// The key of a request that is to be honoured; `None` where the request goes on without one.
/// `attempt` is the attempt count that the caller sent, one where it sent none.
///
/// # Errors
/// The problem to answer with: the key is missing, malformed or weak.
pub fn key_of(parts: &Parts, rules: &Idempotency, attempt: u32) -> Result<Option<Key>, Problem> {
    if rules.mode == KeyMode::Off || !rules.methods.contains(&parts.method) {
        return Ok(None);
    }
    let lines = parts
        .headers
        .get_all(&rules.header)
        .iter()
        .map(|value| value.as_bytes());
    let key = Key::parse(lines, &rules.key).map_err(|error| refused(&error))?;
    let required = match rules.mode {
        KeyMode::Required => true,
        KeyMode::RequiredOnRetry => attempt > 1,
        KeyMode::Optional | KeyMode::Off => false,
    };
    if key.is_none() && required {
        let detail = format!(
            "This operation needs the field {}. Send one unguessable key per operation, the same \
             for every retry of it, such as a random UUID.",
            rules.header
        );
        return Err(Problem::new(Slug::KeyMissing, detail));
    }
    Ok(key)
}

fn refused(error: &KeyError) -> Problem {
    let slug = match error {
        KeyError::Weak { .. } => Slug::KeyWeak,
        _ => Slug::KeyInvalid,
    };
    Problem::new(slug, error.to_string())
}

/// The attempt count that a trusted caller sent; one where it sent none, or none that is a number.
pub fn attempt_of(headers: &HeaderMap) -> u32 {
    let count = headers
        .get("steadfast-attempt")
        .and_then(|value| value.to_str().ok());
    count
        .and_then(|digits| digits.parse().ok())
        .filter(|count| *count > 0)
        .unwrap_or(1)
}

/// The whole body, of `limit` bytes at most.
///
/// # Errors
/// `body-too-large`, or `bad-request` where the body did not come to its end. Nothing was executed.
pub async fn collect<B>(body: B, limit: usize) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let mut body = std::pin::pin!(body);
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            let detail = "The request body did not come to its end, so nothing was sent. Send the \
                          same request with the same key again.";
            Problem::new(Slug::BadRequest, detail).with_retryable(true)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if collected.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected.freeze())
}

fn too_large(limit: usize) -> Problem {
    let detail = format!(
        "The body of a keyed request may have {limit} bytes here (body_limit); nothing was sent. \
         Send a smaller one, or send it to a route without keys."
    );
    Problem::new(Slug::BodyTooLarge, detail).with_status(StatusCode::PAYLOAD_TOO_LARGE)
}
