//! Headers and a body as one run of bytes, and back.
//!
//! Every name and value stands behind its length; the body is what is left. What is read equals
//! what was written, repeated and non-UTF-8 header values included.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Bytes of a length.
const LENGTH: usize = 4;

/// One run of bytes for `headers` and `body`.
///
/// # Panics
/// Where a header is longer than 4 GiB, which no HTTP message is.
pub(super) fn write(headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let framed =
        |(name, value): (&HeaderName, &HeaderValue)| 2 * LENGTH + name.as_str().len() + value.len();
    let room: usize = headers.iter().map(framed).sum();
    let mut out = Vec::with_capacity(LENGTH + room + body.len());
    let length = |out: &mut Vec<u8>, n: usize| {
        let n = u32::try_from(n).expect("no header is longer than 4 GiB");
        out.extend_from_slice(&n.to_be_bytes());
    };
    length(&mut out, headers.len());
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), value.as_bytes()] {
            length(&mut out, part.len());
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(body);
    out
}

/// What [`write`] wrote; `None` for anything else.
pub(super) fn read(plain: Vec<u8>) -> Option<(HeaderMap, Bytes)> {
    let whole = Bytes::from(plain);
    let mut rest = &whole[..];
    let mut headers = HeaderMap::new();
    for _ in 0..length(&mut rest)? {
        let name = HeaderName::from_bytes(part(&mut rest)?).ok()?;
        let value = HeaderValue::from_bytes(part(&mut rest)?).ok()?;
        headers.try_append(name, value).ok()?;
    }
    let body = whole.slice_ref(rest);
    Some((headers, body))
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let (length, after) = rest.split_first_chunk::<LENGTH>()?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*length)).ok()
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = length(rest)?;
    let (part, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(part)
}
