//! Texts with places: the path of a look-up, the path and the body of a compensation.
//!
//! Decides what a place may be and how a value stands in it. Values are the caller's, so each is
//! encoded for where it stands, and one that would lead elsewhere (to another path, to a list, to
//! another member) is refused. Sources: RFC 3986 sections 2.3, 3.3, 3.4, 5.2.4; RFC 8259 section 7.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::value::RawValue;
use sha2::Sha256;

use crate::fingerprint::JsonPointer;
use crate::key::ScopeHash;
use crate::record::Record;

/// Longest template, in bytes: longer ones are no path or body that a person wrote.
pub const LONGEST_TEMPLATE: usize = 4096;

/// Longest value that is taken from a body, in bytes. It stays in the record.
pub const LONGEST_VALUE: usize = 512;

/// A place of a route's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Its name.
    pub name: String,
    /// Its segment, from 0 on.
    pub at: usize,
    /// It takes all segments from there on.
    pub is_rest: bool,
}

/// What a place stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Key,
    ScopedKey,
    Fence,
    Capture(Capture),
    Body(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `in_text`: between the quotes of a JSON string.
    Place {
        what: What,
        in_text: bool,
    },
}

/// A text with places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    written: String,
    pieces: Vec<Piece>,
}

/// Why a text is no template. The configuration's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// It is empty, or longer than [`LONGEST_TEMPLATE`].
    Length,
    /// A path does not begin with a slash, or has a character or segment that paths do not have.
    NotAPath,
    /// A brace without its partner.
    Brace,
    /// No place has this name, and the route's path has none of it either.
    Unknown(String),
    /// This is no JSON pointer to a member.
    Pointer(String),
    /// The body is no JSON.
    NotJson,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::Length => {
                write!(
                    f,
                    "it is empty, or has more than {LONGEST_TEMPLATE} characters"
                )
            }
            TemplateError::NotAPath => f.write_str(
                "it is no path: it begins with `/`, has no `.` or `..` segment and no `#`, space \
                 or other character that paths do not have",
            ),
            TemplateError::Brace => f.write_str("it has a brace that is no part of a place"),
            TemplateError::Unknown(name) => write!(
                f,
                "`{{{name}}}` is no place, and the route's path has none of this name"
            ),
            TemplateError::Pointer(pointer) => {
                write!(
                    f,
                    "`{pointer}` is no JSON pointer to a member, such as /order_id"
                )
            }
            TemplateError::NotJson => f.write_str("it is no JSON once its places are filled"),
        }
    }
}

impl std::error::Error for TemplateError {}

/// Why a request cannot be made for a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// The request had no such value.
    Absent(String),
    /// The value cannot stand there: it is empty, or would lead elsewhere.
    Unfit(String),
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoValue::Absent(place) => write!(f, "the request had nothing for {{{place}}}"),
            NoValue::Unfit(place) => write!(f, "the value for {{{place}}} cannot stand in a path"),
        }
    }
}

impl Template {
    /// A path, with or without a query. `captures` are the places of the route's path.
    ///
    /// ```
    /// use steadfast_core::lookup::Template;
    /// assert!(Template::path("/v1/charges/by-reference/{key}", &[]).is_ok());
    /// assert!(Template::path("/v1/charges/{order}", &[]).is_err());
    /// ```
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn path(text: &str, captures: &[Capture]) -> Result<Template, TemplateError> {
        let template = Template::parse(text, captures, false)?;
        let literal = template.with(|_| "x".to_owned());
        let path = literal.split('?').next().unwrap_or_default();
        let sound = |b: u8| b.is_ascii_graphic() && !b"#\\\"<>^`|{}".contains(&b);
        if !text.starts_with('/') || !literal.bytes().all(sound) || path.split('/').any(walks) {
            return Err(TemplateError::NotAPath);
        }
        Ok(template)
    }

    /// A JSON body. Inside the quotes of a string a value is escaped; elsewhere it stands as a
    /// whole value of its own.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn json(text: &str, captures: &[Capture]) -> Result<Template, TemplateError> {
        let template = Template::parse(text, captures, true)?;
        let filled = template.with(|_| "1".to_owned());
        match serde_json::from_str::<&RawValue>(&filled) {
            Ok(_) => Ok(template),
            Err(_) => Err(TemplateError::NotJson),
        }
    }

    fn parse(text: &str, captures: &[Capture], is_json: bool) -> Result<Template, TemplateError> {
        if text.is_empty() || text.len() > LONGEST_TEMPLATE {
            return Err(TemplateError::Length);
        }
        let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
        let mut in_text = false;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            literal.push_str(before);
            in_text ^= is_json && odd_quotes(before);
            let place = after.strip_prefix('{').and_then(|inside| {
                let (inside, after) = inside.split_once('}')?;
                (is_name(inside) || inside.starts_with("body:")).then_some((inside, after))
            });
            let Some((inside, after)) = place else {
                if !is_json {
                    return Err(TemplateError::Brace);
                }
                literal.push_str(&after[..1]);
                rest = &after[1..];
                continue;
            };
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
            let what = what(inside, captures)?;
            pieces.push(Piece::Place { what, in_text });
            rest = after;
        }
        literal.push_str(rest);
        pieces.push(Piece::Text(literal));
        Ok(Template {
            written: text.to_owned(),
            pieces,
        })
    }

    fn with(&self, fill: impl Fn(&What) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Place { what, .. } => fill(what),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// It has a query.
    pub fn has_query(&self) -> bool {
        self.written.contains('?')
    }

    /// The key alone tells whose operation is meant.
    pub fn is_by_bare_key(&self) -> bool {
        let mut places = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Place { what, .. } => Some(what),
            Piece::Text(_) => None,
        });
        let has_key = self.pieces.iter().any(|piece| {
            matches!(
                piece,
                Piece::Place {
                    what: What::Key,
                    ..
                }
            )
        });
        has_key && places.all(|what| matches!(what, What::Key | What::Fence))
    }

    /// The JSON pointers of the places that are taken from the request's body.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Place {
                what: What::Body(pointer),
                ..
            } => Some(pointer.as_str()),
            _ => None,
        })
    }

    /// The path for `row`: each value is percent-encoded as one segment or one value of a query.
    ///
    /// # Errors
    /// [`NoValue`].
    pub fn path_of(&self, row: &Record) -> Result<String, NoValue> {
        let mut path = String::new();
        for piece in &self.pieces {
            let Piece::Place { what, .. } = piece else {
                let Piece::Text(text) = piece else { continue };
                path.push_str(text);
                continue;
            };
            let unfit = || NoValue::Unfit(what.name());
            let value = what.value(row)?;
            let in_query = path.contains('?');
            let parts: Vec<&str> = match what {
                What::Capture(capture) if capture.is_rest && !in_query => {
                    value.split('/').collect()
                }
                _ => vec![&value],
            };
            let mut encoded = Vec::new();
            for part in parts {
                let leads_elsewhere = !in_query && (part.contains(['/', '\\']) || walks(part));
                if part.is_empty() || leads_elsewhere || part.chars().any(char::is_control) {
                    return Err(unfit());
                }
                encoded.push(percent_encoded(part));
            }
            path.push_str(&encoded.join("/"));
        }
        let bare = path.split('?').next().unwrap_or_default();
        if bare.split('/').any(walks) {
            return Err(NoValue::Unfit("key".to_owned()));
        }
        Ok(path)
    }

    /// The JSON body for `row`.
    ///
    /// # Errors
    /// [`NoValue`].
    pub fn json_of(&self, row: &Record) -> Result<String, NoValue> {
        let mut body = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => body.push_str(text),
                Piece::Place { what, in_text } => {
                    let value = what.value(row)?;
                    let quoted = serde_json::Value::from(value.as_str()).to_string();
                    let inner = &quoted[1..quoted.len() - 1];
                    match in_text {
                        true => body.push_str(inner),
                        false if is_number_or_switch(&value) => body.push_str(&value),
                        false => body.push_str(&quoted),
                    }
                }
            }
        }
        Ok(body)
    }
}

impl What {
    fn name(&self) -> String {
        match self {
            What::Key => "key".to_owned(),
            What::ScopedKey => "scoped_key".to_owned(),
            What::Fence => "fence".to_owned(),
            What::Capture(capture) => capture.name.clone(),
            What::Body(pointer) => format!("body:{pointer}"),
        }
    }

    fn value(&self, row: &Record) -> Result<String, NoValue> {
        let absent = || NoValue::Absent(self.name());
        match self {
            What::Key => Ok(row.key.as_str().to_owned()),
            What::ScopedKey => Ok(derived(&row.scope, &[b"steadfast scoped key v1"])),
            What::Fence => Ok(row.standing.fence.to_string()),
            What::Capture(capture) => {
                let path = row.operation.path().trim_start_matches('/');
                let mut segments = path.split('/').skip(capture.at);
                let taken = match capture.is_rest {
                    true => segments.collect::<Vec<_>>().join("/"),
                    false => segments.next().ok_or_else(absent)?.to_owned(),
                };
                let parts = taken.split('/').map(percent_decoded);
                let parts: Option<Vec<String>> = parts.collect();
                let parts = parts.ok_or_else(|| NoValue::Unfit(self.name()))?;
                // An encoded slash is none between segments.
                match capture.is_rest && parts.iter().any(|part| part.contains('/')) {
                    true => Err(NoValue::Unfit(self.name())),
                    false => Ok(parts.join("/")),
                }
            }
            What::Body(pointer) => {
                let kept = row.kept.as_ref().map(|kept| kept.values.as_slice());
                let mut values = kept.unwrap_or_default().iter();
                let found = values.find(|(at, _)| at == pointer);
                found.map(|(_, text)| text.clone()).ok_or_else(absent)
            }
        }
    }
}

/// A name of `scope`'s operation in lower-case hexadecimal: HMAC-SHA256 under the scope hash, so
/// that nobody learns the scope hash from it.
pub(super) fn derived(scope: &ScopeHash, parts: &[&[u8]]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(scope.as_bytes());
    let mut mac = mac.expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn what(inside: &str, captures: &[Capture]) -> Result<What, TemplateError> {
    if let Some(pointer) = inside.strip_prefix("body:") {
        let sound = JsonPointer::parse(pointer);
        let parsed = sound.map_err(|_| TemplateError::Pointer(pointer.to_owned()))?;
        return Ok(What::Body(parsed.as_str().to_owned()));
    }
    // A place of the route's own comes first, so that no route loses one to ours.
    if let Some(capture) = captures.iter().find(|capture| capture.name == inside) {
        return Ok(What::Capture(capture.clone()));
    }
    match inside {
        "key" => Ok(What::Key),
        "scoped_key" => Ok(What::ScopedKey),
        "fence" => Ok(What::Fence),
        other => Err(TemplateError::Unknown(other.to_owned())),
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// The text ends inside a JSON string where it began outside of one, or the other way round.
fn odd_quotes(text: &str) -> bool {
    let (mut odd, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => odd = !odd,
            _ => {}
        }
    }
    odd
}

fn is_number_or_switch(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let number = begins && serde_json::from_str::<&RawValue>(text).is_ok_and(|v| v.get() == text);
    number || text == "true" || text == "false"
}

/// A segment that leads to itself or upwards.
fn walks(segment: &str) -> bool {
    let plain = segment.replace("%2e", ".").replace("%2E", ".");
    let bare = plain.split(';').next().unwrap_or_default();
    matches!(bare.trim(), "." | "..")
}

/// All but the unreserved characters of RFC 3986, 2.3.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// `None` where an escape is broken, or what it says is no UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut pieces = text.split('%');
    bytes.extend_from_slice(pieces.next()?.as_bytes());
    for piece in pieces {
        let (escape, rest) = piece.split_at_checked(2)?;
        let digits = escape.bytes().all(|b| b.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(escape, 16).ok().filter(|_| digits)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
