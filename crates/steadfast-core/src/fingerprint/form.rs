//! What an `application/x-www-form-urlencoded` body means.
//!
//! Decides that the order of pairs counts within a name only, and that `+`, `%20` and the like are
//! the characters that they spell. Source: docs/keyed-requests.md, "Fingerprint"; URL
//! Standard, 5.1.
//! Unlike that parser, a `%` that begins no escape makes the body count by its bytes, and `a` is
//! not `a=`: servers differ there.

use super::frame::{put_length, put_optional, put_part};

/// Most pairs that are sorted; a body with more is read by bytes. Bounds the memory beside the
/// body.
const MAX_PAIRS: usize = 16_384;

struct Pair {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// The framed pairs, sorted by name; `None` where the bytes must count.
pub(super) fn canonical(body: &[u8]) -> Option<Vec<u8>> {
    let mut pairs = Vec::new();
    for text in body.split(|&b| b == b'&').filter(|text| !text.is_empty()) {
        if pairs.len() == MAX_PAIRS {
            return None;
        }
        let mut halves = text.splitn(2, |&b| b == b'=');
        let name = decode(halves.next()?)?;
        let value = match halves.next() {
            None => None,
            Some(value) => Some(decode(value)?),
        };
        pairs.push(Pair { name, value });
    }
    // Stable: the order within a name is meaning.
    pairs.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = Vec::with_capacity(body.len() + pairs.len() * 2);
    put_length(&mut out, pairs.len());
    for pair in &pairs {
        put_part(&mut out, &pair.name);
        put_optional(&mut out, pair.value.as_deref());
    }
    Some(out)
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => hex(*bytes.next()?)? << 4 | hex(*bytes.next()?)?,
            other => other,
        });
    }
    Some(out)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}
