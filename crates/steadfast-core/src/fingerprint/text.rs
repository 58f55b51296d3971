//! The stored form of a fingerprint: one short line of ASCII for a database column.
//!
//! `VERSION:SECRET:MODE:DIGEST`, and where pointers are ignored `:POINTER,POINTER…`, as in
//! `1:7:meaning:9f86…:/sent_at,/trace/id`. A byte of a pointer outside letters, digits and `/~-._`
//! is written `%XX`. Rule: one fingerprint has one text, and every other text is refused.

use std::fmt;

use super::{BodyMode, Fingerprint, FingerprintOptions};

/// A text that is not a stored fingerprint: the record was changed by something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextError;

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "The stored fingerprint is not one that any version of this program writes; restore \
             the store from a copy, or settle the record by hand.",
        )
    }
}

impl std::error::Error for TextError {}

impl Fingerprint {
    /// The stored form.
    pub fn to_text(&self) -> String {
        let mode = mode_word(self.options.mode());
        let mut text = format!("{}:{}:{mode}:", self.version, self.secret_id);
        for byte in self.digest {
            push_hex(&mut text, byte);
        }
        for (place, pointer) in self.options.ignored().iter().enumerate() {
            text.push(if place == 0 { ':' } else { ',' });
            for byte in pointer.as_str().bytes() {
                if byte.is_ascii_alphanumeric() || b"/~-._".contains(&byte) {
                    text.push(char::from(byte));
                } else {
                    text.push('%');
                    push_hex(&mut text, byte);
                }
            }
        }
        text
    }

    /// The fingerprint of a stored form. One of an unknown version or secret is read; it is
    /// refused where it would have to be compared ([`Fingerprint::matches`]).
    pub fn from_text(text: &str) -> Result<Fingerprint, TextError> {
        let fingerprint = read(text).ok_or(TextError)?;
        if fingerprint.to_text() == text {
            Ok(fingerprint)
        } else {
            Err(TextError)
        }
    }
}

fn mode_word(mode: BodyMode) -> &'static str {
    match mode {
        BodyMode::Meaning => "meaning",
        BodyMode::Bytes => "bytes",
    }
}

fn push_hex(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for digit in [byte >> 4, byte & 15] {
        text.push(char::from(DIGITS[usize::from(digit)]));
    }
}

/// Reads leniently; the caller holds the result against the text.
fn read(text: &str) -> Option<Fingerprint> {
    let mut fields = text.splitn(5, ':');
    let version = fields.next()?.parse().ok()?;
    let secret_id = fields.next()?.parse().ok()?;
    let word = fields.next()?;
    let modes = [BodyMode::Meaning, BodyMode::Bytes];
    let mode = modes.into_iter().find(|mode| mode_word(*mode) == word)?;
    let digest = unhex(fields.next()?)?.try_into().ok()?;
    let pointers: Option<Vec<String>> = match fields.next() {
        None => Some(Vec::new()),
        Some(list) => list.split(',').map(unescape).collect(),
    };
    let options = FingerprintOptions::new(mode, pointers?.iter().map(String::as_str)).ok()?;
    Some(Fingerprint {
        version,
        secret_id,
        options,
        digest,
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect()
}

fn unescape(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (escape, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(escape, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
