//! The idempotency key: what the caller sent, and whether it may stand for one operation.
//!
//! Decides whether a header field holds a key, which text that key is, and whether it is long and
//! random enough to be told from everybody else's. It refuses to know routes, modes and records; a
//! key that is not honoured is never parsed. Rule: two spellings of one key are one key, and what
//! is not clearly a key is refused, never guessed. Sources: docs/keyed-requests.md, "Key" and
//! "Scope"; I2; the Idempotency-Key draft, section 2.1; RFC 9651 sections 3.1.2 and 3.3.3.

use std::fmt;
use std::ops::RangeInclusive;

use http::HeaderValue;

mod personal;
mod scope;
mod strength;
mod syntax;
#[cfg(test)]
mod tests;

pub use personal::PersonalData;
pub use scope::{Operation, ScopeHash, ScopeKind, ScopeSecret, Tenant, scope_hash};
pub use strength::strength_bits;

/// A key as the caller meant it: the text without quotes, escapes and parameters. Printable ASCII,
/// never empty. Its `Debug` form shows only the first characters and the length.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// How a key is spelt towards the upstream, whatever the caller's spelling was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardAs {
    /// Without quotes, as most deployed services expect. A key that cannot be written so (a space,
    /// a quote, a comma or a semicolon in it) is always sent quoted.
    #[default]
    Bare,
    /// As a structured-field string (RFC 9651, 3.3.3).
    Quoted,
}

/// What a route asks of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRules {
    /// Allowed length in characters, after unquoting. Default 16 to 255: shorter keys collide,
    /// longer ones are documents.
    pub length: RangeInclusive<usize>,
    /// Least strength in bits (see [`strength_bits`]); 0 switches the check off. Default 64: below
    /// it a caller meets another caller's key by chance or by guessing.
    pub min_entropy_bits: u32,
}

impl Default for KeyRules {
    fn default() -> Self {
        KeyRules {
            length: 16..=255,
            min_entropy_bits: 64,
        }
    }
}

/// Why a header field is not an acceptable key. The caller's fault, always; answered with 400 and
/// [`KeyError::slug`]. The sentences never repeat the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The field came more than once.
    Repeated,
    /// The field has no text, or an empty string.
    Empty,
    /// Neither a structured-field string nor a bare token.
    Malformed {
        /// What is wrong, as the end of a sentence.
        why: &'static str,
    },
    /// Too short or too long, in characters after unquoting.
    Length {
        /// The length of the key that came.
        length: usize,
        /// The lengths that the route allows.
        allowed: RangeInclusive<usize>,
    },
    /// Several values in one field.
    Listed,
    /// The key is data about a person, and keys are stored and shown.
    PersonalData(PersonalData),
    /// Guessable.
    Weak {
        /// The strength that the key has at most, in whole bits.
        bits: u32,
        /// The strength that the route asks for, in bits.
        needed: u32,
    },
}

impl KeyError {
    /// The problem slug of the answer (docs/reference.md, "Problems").
    pub fn slug(&self) -> &'static str {
        match self {
            KeyError::Weak { .. } => "key-weak",
            _ => "key-invalid",
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Repeated => f.write_str(
                "The key header was sent more than once; send it exactly once per request.",
            ),
            KeyError::Empty => {
                f.write_str("The key is empty; send a random key such as the output of `uuidgen`.")
            }
            KeyError::Malformed { why } => write!(
                f,
                "The key is malformed: {why}; send a bare token of visible ASCII characters, or a \
                 string in double quotes.",
            ),
            KeyError::Length { length, allowed } => write!(
                f,
                "The key has {length} characters, and {} to {} are allowed; send a random key such \
                 as the output of `uuidgen`, or change `key_length`.",
                allowed.start(),
                allowed.end(),
            ),
            KeyError::Listed => f.write_str(
                "The key header holds a list of values; send one key, and quote it if it contains \
                 a comma.",
            ),
            KeyError::PersonalData(kind) => write!(
                f,
                "The key looks like {kind}; keys are stored and shown to operators and must carry \
                 no user data, so send a random key such as the output of `uuidgen`.",
            ),
            KeyError::Weak { bits, needed } => write!(
                f,
                "The key is guessable: about {bits} bits of randomness, and {needed} are needed; \
                 make a key with `uuidgen` or `steadfast keys new`, once per operation, or set \
                 `min_entropy_bits = 0` to switch this check off.",
            ),
        }
    }
}

impl std::error::Error for KeyError {}

impl Key {
    /// Reads the key from all lines of the key header.
    ///
    /// In: the raw value of each line, in order (`headers.get_all(name).iter().map(|v|
    /// v.as_bytes())`). Out: `None` where no line came. Checked in this order: repetition, syntax,
    /// length, personal data, strength.
    ///
    /// ```
    /// use steadfast_core::key::{Key, KeyRules};
    /// let rules = KeyRules::default();
    /// let bare = Key::parse([&b"0b9e29b0-6f3c-4f0c-9c6e-2a9e4f1d7c55"[..]], &rules).unwrap();
    /// let quoted = b"\"0b9e29b0-6f3c-4f0c-9c6e-2a9e4f1d7c55\";v=1";
    /// assert_eq!(bare, Key::parse([&quoted[..]], &rules).unwrap());
    /// ```
    pub fn parse<'a>(
        values: impl IntoIterator<Item = &'a [u8]>,
        rules: &KeyRules,
    ) -> Result<Option<Key>, KeyError> {
        let mut values = values.into_iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err(KeyError::Repeated);
        }
        let text = syntax::unquote(value)?;
        if !rules.length.contains(&text.len()) {
            let allowed = rules.length.clone();
            return Err(KeyError::Length {
                length: text.len(),
                allowed,
            });
        }
        if let Some(kind) = PersonalData::find(&text) {
            return Err(KeyError::PersonalData(kind));
        }
        if rules.min_entropy_bits > 0 {
            let bits = strength_bits(&text);
            if bits < f64::from(rules.min_entropy_bits) {
                // The cast rounds down and saturates; only the message uses it.
                return Err(KeyError::Weak {
                    bits: bits as u32,
                    needed: rules.min_entropy_bits,
                });
            }
        }
        Ok(Some(Key(text)))
    }

    /// A new key out of 128 random bits, as the text of a UUID version 4 (RFC 9562, 5.4): 122 bits
    /// that nobody guesses, and no data of anybody's. One for an operation, kept for all its
    /// attempts (I1).
    ///
    /// ```
    /// use steadfast_core::key::Key;
    /// let key = Key::random(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    /// assert_eq!(key.as_str(), "01234567-89ab-4def-8123-456789abcdef");
    /// ```
    pub fn random(bits: u128) -> Key {
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        Key(parts.join("-"))
    }

    /// The key of a stored record. `None` if the text could never have been one; the route's rules
    /// do not count, they may have changed since.
    pub fn from_stored(text: &str) -> Option<Key> {
        let printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
        (printable && !text.is_empty()).then(|| Key(text.to_owned()))
    }

    /// The text, without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The one spelling that goes upstream.
    pub fn forward(&self, spelling: ForwardAs) -> HeaderValue {
        let bare = spelling == ForwardAs::Bare && self.0.bytes().all(syntax::is_bare);
        let value = if bare {
            HeaderValue::from_str(&self.0)
        } else {
            let mut quoted = String::with_capacity(self.0.len() + 2);
            quoted.push('"');
            for c in self.0.chars() {
                if matches!(c, '"' | '\\') {
                    quoted.push('\\');
                }
                quoted.push(c);
            }
            quoted.push('"');
            HeaderValue::from_str(&quoted)
        };
        value.expect("a key is printable ASCII, which every field value may hold")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A quarter at most, so that a short stored key does not show in full either.
        let shown = (self.0.len() / 4).min(4);
        write!(f, "Key({}…, {} characters)", &self.0[..shown], self.0.len())
    }
}
