//! Length framing: the one way in which parts are put together before they are hashed.
//!
//! Rule: from the framed bytes the parts can be told apart in exactly one way. A length is written
//! seven bits a byte, lowest first, the top bit set on all bytes but the last (LEB128): short
//! parts cost one byte, which keeps a digest within few blocks of the hash.

/// Appends a length, or a count.
pub(crate) fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Appends a part, framed.
pub(crate) fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    put_length(out, part.len());
    out.extend_from_slice(part);
}

/// Appends a part that may be absent; absent is not empty.
pub(crate) fn put_optional(out: &mut Vec<u8>, part: Option<&[u8]>) {
    match part {
        None => out.push(0),
        Some(part) => {
            out.push(1);
            put_part(out, part);
        }
    }
}
