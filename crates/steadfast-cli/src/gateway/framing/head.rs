//! Is this head one that every recipient reads alike, and how does its body end?
//!
//! Knows nothing of routes, keys or what a field means beyond framing. Refuses whatever RFC 9112
//! section 6.3 leaves to a recipient's kindness, because the next recipient may be kind another
//! way. What passes is what `hyper` accepts: the same parsers look at method, target and names, so
//! that hyper never has to refuse (it would answer with an empty body). Requirement S3.

use http::{HeaderName, Method};

use super::target;
use super::{HTTP2_PREFACE, HeadLimits, Violation, lines};

/// How the body behind a head ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// After so many bytes; zero is no body.
    Length(u64),
    /// With the last chunk and its trailers.
    Chunked,
}

/// The largest body length: what a signed 64-bit counter still holds, so that no recipient
/// behind us overflows.
const MAX_LENGTH: u64 = i64::MAX as u64;

/// The fields that decide where a message ends or goes, as they stand on the wire.
#[derive(Default)]
struct Seen<'a> {
    lengths: Vec<&'a [u8]>,
    encodings: Vec<&'a [u8]>,
    hosts: Vec<&'a [u8]>,
}

/// Checks one whole head, from its request line to its empty line.
pub(super) fn check(head: &[u8], limits: HeadLimits) -> Result<BodyEnd, Violation> {
    if lines::of(head).skip(1).any(lines::folds) {
        return Err(Violation::ObsFold);
    }
    let mut fields = vec![httparse::EMPTY_HEADER; limits.fields];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(Violation::RequestLine),
        Err(error) => return Err(translate(error, head, limits)),
    }
    let method = request.method.unwrap_or_default();
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| Violation::RequestLine)?;
    let seen = fields_of(head)?;
    let host = host(&seen, request.version == Some(1))?;
    target::check(&method, request.path.unwrap_or_default(), host)?;
    body_end(&seen, request.version == Some(1))
}

/// The one door for the parser's errors.
fn translate(error: httparse::Error, head: &[u8], limits: HeadLimits) -> Violation {
    match error {
        httparse::Error::TooManyHeaders => Violation::TooManyFields(limits.fields),
        httparse::Error::HeaderName => Violation::FieldName,
        httparse::Error::HeaderValue => Violation::FieldValue,
        httparse::Error::Version if head == HTTP2_PREFACE => Violation::Http2Preface,
        httparse::Error::Version => Violation::Version,
        _ => Violation::RequestLine,
    }
}

/// The framing fields with their values as they came. Not the parser's values: it takes white
/// space away that must be seen.
fn fields_of(head: &[u8]) -> Result<Seen<'_>, Violation> {
    let mut seen = Seen::default();
    for line in lines::of(head).skip(1) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.ok_or(Violation::FieldName)?);
        let value = &value[1..];
        let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        if is("content-length") {
            seen.lengths.push(value);
        } else if is("transfer-encoding") {
            seen.encodings.push(value);
        } else if is("host") {
            seen.hosts.push(value);
        } else if !is_plain(name) {
            let name = HeaderName::from_bytes(name).map_err(|_| Violation::FieldName)?;
            if name.as_str().contains('_') && is_framing(&name.as_str().replace('_', "-")) {
                return Err(Violation::LookAlike);
            }
        }
    }
    Ok(seen)
}

/// A name of letters, digits and dashes, as nearly all are: a name to every parser, and no
/// look-alike.
fn is_plain(name: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    !name.is_empty() && name.iter().all(plain)
}

/// Fields that say where a message ends or goes.
pub(super) fn is_framing(name: &str) -> bool {
    matches!(name, "content-length" | "transfer-encoding" | "host")
}

/// The one Host. HTTP/1.0 may have none.
fn host<'a>(seen: &Seen<'a>, http_11: bool) -> Result<Option<&'a str>, Violation> {
    match seen.hosts.as_slice() {
        [] if http_11 => Err(Violation::HostMissing),
        [] => Ok(None),
        [value] => {
            let text = std::str::from_utf8(value).map_err(|_| Violation::HostInvalid)?;
            let text = text.trim_matches([' ', '\t']);
            target::is_authority(text)
                .then_some(Some(text))
                .ok_or(Violation::HostInvalid)
        }
        _ => Err(Violation::HostRepeated),
    }
}

fn body_end(seen: &Seen<'_>, http_11: bool) -> Result<BodyEnd, Violation> {
    match (seen.lengths.as_slice(), seen.encodings.as_slice()) {
        ([], []) => Ok(BodyEnd::Length(0)),
        ([_, ..], [_, ..]) => Err(Violation::TwoLengths),
        ([value], []) => length(value).map(BodyEnd::Length),
        ([_, _, ..], []) => Err(Violation::LengthRepeated),
        ([], _) if !http_11 => Err(Violation::EncodingVersion),
        ([], [value]) if bare(value).eq_ignore_ascii_case(b"chunked") => Ok(BodyEnd::Chunked),
        ([], _) => Err(Violation::Encoding),
    }
}

/// The number of bytes that a Content-Length says.
pub(super) fn length(value: &[u8]) -> Result<u64, Violation> {
    let digits = bare(value);
    if digits.contains(&b',') {
        return Err(Violation::LengthRepeated);
    }
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Violation::LengthInvalid);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Violation::LengthInvalid)?;
    match text.parse::<u64>() {
        Ok(length) if length <= MAX_LENGTH => Ok(length),
        _ => Err(Violation::LengthInvalid),
    }
}

/// A value without the spaces that may stand after its colon. White space behind the value, and
/// tabs, are legal elsewhere; around a framing field they have made recipients disagree.
fn bare(value: &[u8]) -> &[u8] {
    let from = value.iter().position(|byte| *byte != b' ');
    &value[from.unwrap_or(value.len())..]
}
