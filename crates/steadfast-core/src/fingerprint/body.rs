//! How a body is read for its fingerprint: by meaning, or by bytes.
//!
//! Decides which reading applies, from the content type, the content encoding and the route's
//! options. Rule: a body that cannot be read by meaning without doubt is read by bytes, and the
//! two readings never give the same input to the hash.

use std::borrow::Cow;

use http::{HeaderMap, header};

use super::{BodyMode, FingerprintOptions, form, json, multipart};

/// What goes into the hash for a body.
pub(super) struct Content<'a> {
    /// Names the reading: a body read in two ways is two bodies.
    pub(super) reading: u8,
    pub(super) bytes: Cow<'a, [u8]>,
}

/// The body as the route's options read it.
pub(super) fn content<'a>(
    headers: &HeaderMap,
    body: &'a [u8],
    options: &FingerprintOptions,
) -> Content<'a> {
    let by_meaning = match options.mode() {
        BodyMode::Bytes => None,
        BodyMode::Meaning => meaning(headers, body, options),
    };
    match by_meaning {
        Some((reading, bytes)) => Content {
            reading,
            bytes: Cow::Owned(bytes),
        },
        None => Content {
            reading: b'B',
            bytes: Cow::Borrowed(body),
        },
    }
}

fn meaning(
    headers: &HeaderMap,
    body: &[u8],
    options: &FingerprintOptions,
) -> Option<(u8, Vec<u8>)> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let (content_type, None) = (types.next()?.as_bytes(), types.next()) else {
        return None;
    };
    if is_encoded(headers) {
        return None;
    }
    let essence = essence(content_type).to_ascii_lowercase();
    match essence.as_slice() {
        b"application/json" => Some((b'J', json::canonical(body, options.ignored())?)),
        b"application/x-www-form-urlencoded" => Some((b'F', form::canonical(body)?)),
        _ if essence.starts_with(b"multipart/") => {
            let parameters = &content_type[content_type.iter().position(|&b| b == b';')?..];
            let is_form = essence == b"multipart/form-data";
            Some((b'M', multipart::canonical(body, parameters, is_form)?))
        }
        _ if essence.ends_with(b"+json") => Some((b'J', json::canonical(body, options.ignored())?)),
        _ => None,
    }
}

/// The media type of a content type, without parameters and space, in the caller's case.
pub(crate) fn essence(content_type: &[u8]) -> &[u8] {
    let end = content_type
        .iter()
        .position(|&b| b == b';')
        .unwrap_or(content_type.len());
    content_type[..end].trim_ascii()
}

/// Some coding other than `identity` is on the body (RFC 9110, 8.4).
fn is_encoded(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut codings = values.flat_map(|value| value.as_bytes().split(|&b| b == b','));
    codings.any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}
