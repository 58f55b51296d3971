//! The part of a row that nobody searches by, as one versioned JSON text: the answer's headers,
//! what stood before the present hold, and the history.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use steadfast_core::record::{EVENTS, Event};

use super::{
    Answer, DETAILS, Effect, Map, OnUnknown, Owner, Record, Standing, State, Unreadable, Value,
    WallTime, answer, answer_word, date, fingerprint, fingerprint_text, json, length, whole,
};

/// What [`read`] finds.
pub(super) struct Details {
    /// The standing answer's headers, where one is stored.
    pub(super) headers: Option<HeaderMap>,
    pub(super) before: Option<Box<Standing>>,
    pub(super) history: Vec<Event>,
}

/// The text for `record`.
pub(super) fn write(record: &Record) -> String {
    let mut out = Map::new();
    out.insert("v".to_owned(), json!(DETAILS));
    if let Answer::Stored(answer) = &record.standing.answer {
        out.insert("headers".to_owned(), write_headers(&answer.headers));
    }
    if let Some(before) = &record.before {
        out.insert("before".to_owned(), write_standing(before));
    }
    let history = record.history.iter().map(write_event).collect();
    out.insert("history".to_owned(), Value::Array(history));
    Value::Object(out).to_string()
}

/// Reads what [`write`] wrote; `body` is that of the answer that stood before.
pub(super) fn read(text: &str, body: Option<&[u8]>) -> Result<Details, Unreadable> {
    let value: Value = serde_json::from_str(text).map_err(|_| Unreadable::part("details"))?;
    let version = value.get("v").and_then(Value::as_u64);
    if version != Some(DETAILS) {
        return Err(Unreadable(format!(
            "details are of version {version:?}, which this version of steadfast does not know"
        )));
    }
    parts(&value, body).ok_or_else(|| Unreadable::part("details"))
}

fn parts(value: &Value, body: Option<&[u8]>) -> Option<Details> {
    let before = match value.get("before") {
        Some(before) => Some(Box::new(read_standing(before, body)?)),
        None if body.is_none() => None,
        None => return None,
    };
    let history = value.get("history")?.as_array()?;
    Some(Details {
        headers: stored_headers(value)?,
        before,
        history: history.iter().map(read_event).collect::<Option<_>>()?,
    })
}

/// `None` where the headers are not what was written; `Some(None)` where there are none.
fn stored_headers(value: &Value) -> Option<Option<HeaderMap>> {
    match value.get("headers") {
        None => Some(None),
        Some(headers) => read_headers(headers).map(Some),
    }
}

fn write_headers(headers: &HeaderMap) -> Value {
    let pair = |(name, value): (&HeaderName, &HeaderValue)| {
        let bytes = value.as_bytes();
        let plain = bytes.iter().all(|b| matches!(b, b' '..=b'~' | b'\t'));
        match std::str::from_utf8(bytes) {
            Ok(text) if plain => json!([name.as_str(), text]),
            _ => json!([name.as_str(), { "hex": hex(bytes) }]),
        }
    };
    Value::Array(headers.iter().map(pair).collect())
}

fn read_headers(value: &Value) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in value.as_array()? {
        let [name, value] = pair.as_array()?.as_slice() else {
            return None;
        };
        let name = HeaderName::from_bytes(name.as_str()?.as_bytes()).ok()?;
        let bytes = match value {
            Value::String(text) => text.as_bytes().to_vec(),
            other => unhex(other.get("hex")?.as_str()?)?,
        };
        let value = HeaderValue::from_bytes(&bytes).ok()?;
        headers.try_append(name, value).ok()?;
    }
    Some(headers)
}

fn write_standing(standing: &Standing) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    put("state", json!(standing.state.as_str()));
    put("effect", json!(standing.effect.as_str()));
    put("ambiguous", json!(standing.ambiguous));
    put("honours_key", json!(standing.honours_key));
    put("attempts", json!(standing.attempts));
    put("owner", json!(standing.owner.to_string()));
    put("fence", json!(whole(standing.fence)));
    put(
        "fingerprint",
        json!(fingerprint_text(&standing.fingerprint)),
    );
    put("answer", json!(answer_word(&standing.answer)));
    if let Some(status) = standing.answer.status() {
        put("status", json!(status.as_u16()));
    }
    if let Answer::Stored(answer) = &standing.answer {
        put("headers", write_headers(&answer.headers));
    }
    put("reason", json!(standing.reason));
    put("on_unknown", json!(standing.on_unknown.as_str()));
    put("lease_ms", json!(length(standing.lease)));
    put("retention_ms", json!(length(standing.retention)));
    for (name, at) in [
        ("locked_until", standing.locked_until),
        ("final_at", standing.final_at),
        ("expires_at", standing.expires_at),
    ] {
        if let Some(at) = at {
            put(name, json!(date(at)));
        }
    }
    Value::Object(out)
}

fn read_standing(value: &Value, body: Option<&[u8]>) -> Option<Standing> {
    let text = |name: &str| value.get(name)?.as_str();
    let number = |name: &str| value.get(name)?.as_u64();
    let flag = |name: &str| value.get(name)?.as_bool();
    // A date is absent or sound; anything else is wrong bytes.
    let moment = |name: &str| match value.get(name) {
        None => Some(None),
        Some(ms) => Some(Some(WallTime::from_unix_ms(ms.as_u64()?))),
    };
    let status = match value.get("status") {
        None => None,
        Some(code) => Some(code.as_i64()?),
    };
    let headers = stored_headers(value)?;
    Some(Standing {
        state: State::parse(text("state")?)?,
        effect: Effect::parse(text("effect")?)?,
        ambiguous: flag("ambiguous")?,
        honours_key: flag("honours_key")?,
        attempts: u32::try_from(number("attempts")?).ok()?,
        owner: Owner::parse(text("owner")?)?,
        fence: number("fence")?,
        fingerprint: fingerprint(text("fingerprint")?)?,
        answer: answer(text("answer")?, status, headers, body.map(Cow::Borrowed))?,
        reason: text("reason")?.to_owned(),
        on_unknown: OnUnknown::parse(text("on_unknown")?)?,
        lease: std::time::Duration::from_millis(number("lease_ms")?),
        retention: std::time::Duration::from_millis(number("retention_ms")?),
        locked_until: moment("locked_until")?,
        final_at: moment("final_at")?,
        expires_at: moment("expires_at")?,
    })
}

fn write_event(event: &Event) -> Value {
    let at = date(event.at);
    json!({ "at": at, "event": event.event, "by": event.by, "detail": event.detail })
}

fn read_event(value: &Value) -> Option<Event> {
    let word = value.get("event")?.as_str()?;
    Some(Event {
        at: WallTime::from_unix_ms(value.get("at")?.as_u64()?),
        event: EVENTS.into_iter().find(|known| *known == word)?,
        by: value.get("by")?.as_str()?.to_owned(),
        detail: value.get("detail")?.as_str()?.to_owned(),
    })
}

/// Lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}

/// Reads what [`hex`] wrote.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?))
        .collect()
}
