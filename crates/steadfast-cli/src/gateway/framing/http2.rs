//! May this HTTP/2 message go on as HTTP/1.1, and what fields does it have there?
//!
//! Judges what the parser of HTTP/2 leaves open, by the rules that HTTP/1.1 is held to here, so
//! that a message is refused over both or over none; and gives a head the form that everybody
//! behind it reads: one Host, one Cookie, a target that is a path. It knows no frames: upper-case
//! names, fields of a connection, bytes that no field may have and a Content-Length that the data
//! disagree with are the parser's to refuse, and tests hold it to that.
//! Source: RFC 9113 sections 8.1.1, 8.2, 8.3 and 10.3; requirement S3.

use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderValue};
use http::request::Parts;
use http::uri::Authority;

use super::{HeadLimits, MAX_TRAILER_FIELDS, MAX_TRAILERS, Violation, head, target};

/// Checks the head of an HTTP/2 request, and gives it the fields that it has in HTTP/1.1.
///
/// # Errors
/// The rule that was broken, as HTTP/1.1 names it.
pub fn check_http2(parts: &mut Parts, limits: HeadLimits) -> Result<(), Violation> {
    let path = parts.uri.path_and_query();
    let path = path.map_or("", |path| path.as_str()).to_owned();
    if parts
        .uri
        .scheme_str()
        .is_some_and(|scheme| !matches!(scheme, "http" | "https"))
    {
        return Err(Violation::Target);
    }
    let host = host(parts.uri.authority(), &parts.headers)?;
    target::check(&parts.method, &path, host.to_str().ok())?;
    // Absolute form is HTTP/1.1's: here the authority has a field of its own.
    if !path.starts_with('/') && path != "*" {
        return Err(Violation::Target);
    }
    parts.headers.insert(HOST, host);
    join_cookies(&mut parts.headers)?;
    fields(&parts.headers)?;
    if parts.headers.len() > limits.fields {
        return Err(Violation::TooManyFields(limits.fields));
    }
    let line = parts.method.as_str().len() + path.len() + " HTTP/1.1\r\n".len() + 1;
    if line + bytes(&parts.headers) > limits.bytes {
        return Err(Violation::HeadTooLong(limits.bytes));
    }
    Ok(())
}

/// Checks the trailers of an HTTP/2 request, as those of HTTP/1.1 are.
///
/// # Errors
/// The rule that was broken.
pub fn check_http2_trailers(trailers: &HeaderMap) -> Result<(), Violation> {
    if trailers.len() > MAX_TRAILER_FIELDS {
        return Err(Violation::TooManyTrailers(MAX_TRAILER_FIELDS));
    }
    if bytes(trailers) > MAX_TRAILERS {
        return Err(Violation::TrailerTooLong(MAX_TRAILERS));
    }
    let frames = |name: &str| head::is_framing(&name.replace('_', "-"));
    if trailers.keys().any(|name| frames(name.as_str())) {
        return Err(Violation::TrailerField);
    }
    match trailers.values().all(is_trimmed) {
        true => Ok(()),
        false => Err(Violation::FieldValue),
    }
}

/// The one authority: `:authority`, a Host, or both with one value (RFC 9113, 8.3.1).
fn host(authority: Option<&Authority>, headers: &HeaderMap) -> Result<HeaderValue, Violation> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Violation::HostRepeated);
    }
    let named = authority.map(Authority::as_str);
    let value = match (named, host) {
        (None, None) => return Err(Violation::HostMissing),
        (Some(named), Some(host)) if !host.as_bytes().eq_ignore_ascii_case(named.as_bytes()) => {
            return Err(Violation::TargetAuthority);
        }
        (Some(named), _) => HeaderValue::from_str(named).map_err(|_| Violation::HostInvalid)?,
        (None, Some(host)) => host.clone(),
    };
    let is_right = value.to_str().is_ok_and(target::is_authority);
    is_right.then_some(value).ok_or(Violation::HostInvalid)
}

/// What HTTP/2 splits for its compression is one field again (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) -> Result<(), Violation> {
    let crumbs = headers.get_all(COOKIE).iter();
    let crumbs: Vec<&[u8]> = crumbs.map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1 {
        let whole = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]));
        headers.insert(COOKIE, whole.map_err(|_| Violation::FieldValue)?);
    }
    Ok(())
}

fn fields(headers: &HeaderMap) -> Result<(), Violation> {
    for (name, value) in headers {
        let name = name.as_str();
        if name.contains('_') && head::is_framing(&name.replace('_', "-")) {
            return Err(Violation::LookAlike);
        }
        if !is_trimmed(value) {
            return Err(Violation::FieldValue);
        }
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (Some(value), None) => head::length(value.as_bytes()).map(|_| ()),
        (Some(_), Some(_)) => Err(Violation::LengthRepeated),
        (None, _) => Ok(()),
    }
}

/// White space around a value is not part of it in HTTP/1.1, and malformed in HTTP/2 (RFC 9113,
/// 8.2.1): two recipients would disagree on it.
fn is_trimmed(value: &HeaderValue) -> bool {
    value.as_bytes().trim_ascii().len() == value.len()
}

/// How long these fields are in HTTP/1.1, with the empty line behind them.
fn bytes(headers: &HeaderMap) -> usize {
    let line = |(name, value): (&http::HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + ": \r\n".len()
    };
    headers.iter().map(line).sum::<usize>() + "\r\n".len()
}
