//! What an unknown outcome is asked by, and by what it is undone (U2).
//!
//! Decides which request is made for a record and what its answer means. Refuses to know when one
//! is due and who may ask, which is [`crate::record`]'s, and how it is sent. Only what a route says
//! means "there" or "not there" does; everything else leaves the outcome unknown, also a list in
//! which nothing was found: a list may lag, be paged or be filtered, and a released operation
//! executes again. Source: docs/keyed-requests.md, "Ways out of unknown"; RFC 6901.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::value::RawValue;

use crate::key::Key;
use crate::record::{Record, Seen, StoredAnswer};
use crate::replay;

mod template;
#[cfg(test)]
mod tests;

pub use template::{Capture, LONGEST_TEMPLATE, LONGEST_VALUE, NoValue, Template, TemplateError};

/// So long after the last byte of an attempt went out does absence count, and is an effect undone,
/// where a route does not say.
pub const SETTLE: Duration = Duration::from_secs(60);

/// The first pause between two look-ups; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between two look-ups.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How the outcome of an operation is asked for.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The method, a safe one.
    pub method: Method,
    /// Where.
    pub path: Template,
    /// Its own fields, a credential among them. `None`: it has none, so that only a caller's own
    /// credential may ask. Empty: it needs none.
    pub headers: Option<HeaderMap>,
    /// Statuses that say that the operation is there.
    pub found: Vec<StatusCode>,
    /// JSON pointer to what must be in such an answer, and not null, for it to say so.
    pub found_at: Option<String>,
    /// JSON pointer to the part of its body that is the operation's answer; all of it where none is
    /// named.
    pub answer_at: Option<String>,
    /// Statuses that say that it is not.
    pub absent: Vec<StatusCode>,
    /// So long after the last byte of an attempt went out does absence count.
    pub settle: Duration,
}

/// How an operation is undone.
#[derive(Clone, Debug)]
pub struct Compensate {
    /// The method.
    pub method: Method,
    /// Where.
    pub path: Template,
    /// A JSON body.
    pub body: Option<Template>,
    /// Its own fields, a credential among them.
    pub headers: HeaderMap,
    /// So long after the last byte of an attempt went out is it sent.
    pub settle: Duration,
}

/// A pause of so long comes after a look-up, or a compensation that is not done, that `earlier`
/// others came before: 1s, 2s, 4s and so on up to 60s.
pub fn pause_after(earlier: u32) -> Duration {
    let doubled = 1u32.checked_shl(earlier.min(16)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}

impl Lookup {
    /// What the answer of a look-up means, and in a few words what was seen: no body, key or
    /// credential.
    pub fn read(&self, status: StatusCode, headers: &HeaderMap, body: &Bytes) -> (Seen, String) {
        let seen = |what: &str| match what {
            "" => format!("status {}", status.as_u16()),
            what => format!("status {}, {what}", status.as_u16()),
        };
        if self.absent.contains(&status) {
            // A steadfast on the way that knows no such path knows nothing of the operation.
            return match replay::is_problem(headers) && names_our_problem(body) {
                true => (Seen::Unclear, seen("from a gateway on the way")),
                false => (Seen::Absent, seen("")),
            };
        }
        if !self.found.contains(&status) {
            return (Seen::Unclear, seen("which says neither"));
        }
        if let Some(pointer) = &self.found_at
            && part(body, pointer).is_none()
        {
            return (Seen::Unclear, seen("with nothing at found_at"));
        }
        let stored = replay::kept(status, headers, body.clone());
        match &self.answer_at {
            None => (Seen::Found(stored), seen("")),
            Some(pointer) => match part(body, pointer) {
                Some(part) => (Seen::Found(part_of(stored, part)), seen("")),
                None => (Seen::Unclear, seen("with nothing at answer_at")),
            },
        }
    }
}

impl Compensate {
    /// The key under which `row`'s compensation is sent, however often: 64 hexadecimal digits. One
    /// of another attempt is another.
    pub fn key(row: &Record) -> Option<Key> {
        let (id, fence) = (row.id.to_string(), row.standing.fence.to_be_bytes());
        let parts: [&[u8]; 3] = [b"steadfast compensation v1", id.as_bytes(), &fence];
        Key::from_stored(&template::derived(&row.scope, &parts))
    }
}

/// What of a request's body the look-up and the compensation will need: JSON pointer and text, in
/// the order of the templates, each once. Strings, numbers as they were written, true and false;
/// what is not there, or is longer than [`LONGEST_VALUE`], is left out.
pub fn values(
    lookup: Option<&Lookup>,
    compensate: Option<&Compensate>,
    body: &[u8],
) -> Vec<(String, String)> {
    let paths = lookup.map(|lookup| &lookup.path);
    let undo = compensate.map(|undo| &undo.path);
    let bodies = compensate.and_then(|undo| undo.body.as_ref());
    let templates = [paths, undo, bodies].into_iter().flatten();
    let mut taken: Vec<(String, String)> = Vec::new();
    for pointer in templates.flat_map(Template::pointers) {
        if taken.iter().any(|(known, _)| known == pointer) {
            continue;
        }
        let text = part(body, pointer).and_then(scalar);
        let text = text.filter(|text| text.len() <= LONGEST_VALUE);
        taken.extend(text.map(|text| (pointer.to_owned(), text)));
    }
    taken
}

/// A string's text, or a number, true or false as it was written.
fn scalar(raw: &RawValue) -> Option<String> {
    let text = raw.get();
    match text.as_bytes().first()? {
        b'"' => serde_json::from_str(text).ok(),
        b'{' | b'[' | b'n' => None,
        _ => Some(text.to_owned()),
    }
}

/// The part of a JSON body at `pointer` (RFC 6901), byte for byte; `None` where it is not there or
/// is null.
fn part<'a>(body: &'a [u8], pointer: &str) -> Option<&'a RawValue> {
    let mut part: &RawValue = serde_json::from_slice(body).ok()?;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        part = match part.get().as_bytes().first()? {
            b'{' => {
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(part.get()).ok()?;
                *members.get(&token)?
            }
            b'[' => {
                let elements: Vec<&RawValue> = serde_json::from_str(part.get()).ok()?;
                let plain = token == "0" || !token.starts_with(['0', '+']);
                let at: usize = token.parse().ok().filter(|_| plain)?;
                *elements.get(at)?
            }
            _ => return None,
        };
    }
    Some(part).filter(|part| part.get() != "null")
}

/// Fields that describe the whole body, and not the part of it.
const OF_THE_WHOLE: [HeaderName; 5] = [
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::ETAG,
    header::LAST_MODIFIED,
];

const DIGESTS: [&str; 4] = ["content-digest", "content-md5", "digest", "repr-digest"];

fn part_of(mut stored: StoredAnswer, part: &RawValue) -> StoredAnswer {
    for name in OF_THE_WHOLE {
        stored.headers.remove(name);
    }
    for name in DIGESTS {
        stored.headers.remove(name);
    }
    let json = HeaderValue::from_static("application/json");
    stored.headers.insert(header::CONTENT_TYPE, json);
    stored.body = Bytes::copy_from_slice(part.get().as_bytes());
    stored
}

fn names_our_problem(body: &[u8]) -> bool {
    let slug = part(body, "/type").and_then(scalar);
    slug.is_some_and(|slug| slug.starts_with("urn:steadfast:problem:"))
}
