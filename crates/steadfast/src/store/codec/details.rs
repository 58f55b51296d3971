//! The part of a row that nobody searches by, as one versioned JSON text: the answer's headers,
//! what stood before the present hold, and the history.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use steadfast_core::record::{EVENTS, Event};

use super::{
    Answer, DETAILS, Effect, OnUnknown, Owner, Record, Standing, State, Unreadable, Value,
    WallTime, answer, answer_word, date, fingerprint, fingerprint_text, length, whole,
};

/// The name of [`Standing::body_retention`], in milliseconds.
const BODY_RETENTION: &str = "body_retention_ms";

/// What [`read`] finds.
pub(super) struct Details {
    /// The standing answer's headers, where one is stored.
    pub(super) headers: Option<HeaderMap>,
    /// How long its body is kept, where that is not as long as its record.
    pub(super) body_retention: Option<Duration>,
    pub(super) before: Option<Box<Standing>>,
    pub(super) history: Vec<Event>,
}

/// The text for `record`. Written piece by piece: every keyed request comes through here twice, and
/// a tree of values would cost more than the rest of its row.
pub(super) fn write(record: &Record) -> String {
    let mut out = Json::new();
    out.number("v", DETAILS);
    if let Answer::Stored(answer) = &record.standing.answer {
        out.headers(&answer.headers);
    }
    write_body_retention(&mut out, &record.standing);
    if let Some(before) = &record.before {
        out.name("before");
        write_standing(&mut out, before);
    }
    out.name("history");
    out.list(&record.history, write_event);
    out.end()
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
        body_retention: read_body_retention(value)?,
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

/// Rows from before bodies had a retention of their own have none, and neither have most others.
fn write_body_retention(out: &mut Json, standing: &Standing) {
    if standing.body_retention != standing.retention {
        out.number(BODY_RETENTION, length(standing.body_retention));
    }
}

fn read_body_retention(value: &Value) -> Option<Option<Duration>> {
    match value.get(BODY_RETENTION) {
        None => Some(None),
        Some(ms) => Some(Some(Duration::from_millis(ms.as_u64()?))),
    }
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

fn write_standing(out: &mut Json, standing: &Standing) {
    out.open('{');
    out.text("state", standing.state.as_str());
    out.text("effect", standing.effect.as_str());
    out.flag("ambiguous", standing.ambiguous);
    out.flag("honours_key", standing.honours_key);
    out.number("attempts", u64::from(standing.attempts));
    out.text("owner", &standing.owner.to_string());
    out.number("fence", whole(standing.fence));
    out.text("fingerprint", &fingerprint_text(&standing.fingerprint));
    out.text("answer", answer_word(&standing.answer));
    if let Some(status) = standing.answer.status() {
        out.number("status", status.as_u16());
    }
    if let Answer::Stored(answer) = &standing.answer {
        out.headers(&answer.headers);
    }
    out.text("reason", &standing.reason);
    out.text("on_unknown", standing.on_unknown.as_str());
    out.number("lease_ms", length(standing.lease));
    out.number("retention_ms", length(standing.retention));
    write_body_retention(out, standing);
    for (name, at) in [
        ("locked_until", standing.locked_until),
        ("final_at", standing.final_at),
        ("expires_at", standing.expires_at),
    ] {
        if let Some(at) = at {
            out.number(name, date(at));
        }
    }
    out.close('}');
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
    let retention = Duration::from_millis(number("retention_ms")?);
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
        lease: Duration::from_millis(number("lease_ms")?),
        retention,
        body_retention: read_body_retention(value)?.unwrap_or(retention),
        locked_until: moment("locked_until")?,
        final_at: moment("final_at")?,
        expires_at: moment("expires_at")?,
    })
}

fn write_event(out: &mut Json, event: &Event) {
    out.open('{');
    out.number("at", date(event.at));
    out.text("event", event.event);
    out.text("by", &event.by);
    out.text("detail", &event.detail);
    out.close('}');
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

/// A JSON text in the making: an object, open until [`Json::end`].
struct Json {
    out: String,
}

impl Json {
    /// What most rows need: two events and a handful of headers.
    const ROOM: usize = 512;

    fn new() -> Json {
        let mut out = String::with_capacity(Json::ROOM);
        out.push('{');
        Json { out }
    }

    fn end(mut self) -> String {
        self.out.push('}');
        self.out
    }

    /// Sets what comes next apart from what stands.
    fn next(&mut self) {
        if !self.out.ends_with(['{', '[', ':']) {
            self.out.push(',');
        }
    }

    fn open(&mut self, bracket: char) {
        self.next();
        self.out.push(bracket);
    }

    fn close(&mut self, bracket: char) {
        self.out.push(bracket);
    }

    /// A member's name. Only names of this file come here: none needs an escape.
    fn name(&mut self, name: &str) {
        self.next();
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
    }

    fn string(&mut self, text: &str) {
        self.next();
        if text
            .bytes()
            .all(|b| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\'))
        {
            self.out.push('"');
            self.out.push_str(text);
            self.out.push('"');
        } else {
            // With its quotes and escapes.
            self.out.push_str(&Value::from(text).to_string());
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        self.string(text);
    }

    fn number(&mut self, name: &str, number: impl fmt::Display) {
        self.name(name);
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{number}");
    }

    fn flag(&mut self, name: &str, flag: bool) {
        self.name(name);
        self.out.push_str(if flag { "true" } else { "false" });
    }

    fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Json, &T)) {
        self.open('[');
        for item in items {
            one(self, item);
        }
        self.close(']');
    }

    fn headers(&mut self, headers: &HeaderMap) {
        self.name("headers");
        self.open('[');
        for (name, value) in headers {
            self.open('[');
            self.string(name.as_str());
            let bytes = value.as_bytes();
            let plain = bytes.iter().all(|b| matches!(b, b' '..=b'~' | b'\t'));
            match std::str::from_utf8(bytes) {
                Ok(text) if plain => self.string(text),
                _ => {
                    self.open('{');
                    self.text("hex", &hex(bytes));
                    self.close('}');
                }
            }
            self.close(']');
        }
        self.close(']');
    }
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
