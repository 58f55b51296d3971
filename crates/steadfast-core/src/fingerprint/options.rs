//! How a route reads bodies for fingerprints: by meaning or by bytes, and what it leaves out.
//!
//! Decides which options are possible. Source: docs/keyed-requests.md, "Fingerprint"; RFC 6901.

use std::fmt;

/// Most pointers in `fingerprint_ignore`: they are followed as the bits of one word, and a route
/// that ignores more should compare something else.
pub const MAX_IGNORED: usize = 32;

/// What of a body counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyMode {
    /// What it means, where its type is known and it is well formed; else its bytes.
    #[default]
    Meaning,
    /// Its bytes.
    Bytes,
}

/// A checked JSON Pointer to a part of a body.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JsonPointer {
    text: String,
    tokens: Vec<Token>,
}

/// One reference token, unescaped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Token {
    name: String,
    /// The same as an array index: digits without leading zero (RFC 6901, section 4).
    index: Option<usize>,
}

impl JsonPointer {
    /// Reads a pointer such as `/meta/sent_at` or `/items/0/id`.
    pub fn parse(text: &str) -> Result<JsonPointer, OptionsError> {
        let refuse = |why| OptionsError::Pointer {
            pointer: text.to_owned(),
            why,
        };
        if text.is_empty() {
            return Err(refuse("it would ignore the whole body; name a part of it"));
        }
        let Some(path) = text.strip_prefix('/') else {
            return Err(refuse("a pointer begins with `/`, as in `/sent_at`"));
        };
        let tokens: Option<Vec<Token>> = path.split('/').map(Token::parse).collect();
        match tokens {
            Some(tokens) => Ok(JsonPointer {
                text: text.to_owned(),
                tokens,
            }),
            None => Err(refuse(
                "`~` is written `~0` and `/` inside a name is written `~1`",
            )),
        }
    }

    /// The pointer as configured.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How many steps lead from the root to what it points at.
    pub(super) fn depth(&self) -> usize {
        self.tokens.len()
    }

    /// The step from `depth` containers deep is the member `name`.
    pub(super) fn goes_to_member(&self, depth: usize, name: &[u8]) -> bool {
        self.tokens
            .get(depth)
            .is_some_and(|token| token.name.as_bytes() == name)
    }

    /// The step from `depth` containers deep is the element `index`.
    pub(super) fn goes_to_element(&self, depth: usize, index: usize) -> bool {
        self.tokens
            .get(depth)
            .is_some_and(|token| token.index == Some(index))
    }
}

impl Token {
    fn parse(escaped: &str) -> Option<Token> {
        let mut name = String::with_capacity(escaped.len());
        let mut pieces = escaped.split('~');
        name.push_str(pieces.next()?);
        for piece in pieces {
            let (escape, rest) = piece.split_at_checked(1)?;
            name.push(match escape {
                "0" => '~',
                "1" => '/',
                _ => return None,
            });
            name.push_str(rest);
        }
        let plain = name == "0" || !name.starts_with('0');
        let index = if plain && name.bytes().all(|b| b.is_ascii_digit()) {
            name.parse().ok()
        } else {
            None
        };
        Some(Token { name, index })
    }
}

/// How a fingerprint reads bodies. Stored with every fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FingerprintOptions {
    mode: BodyMode,
    /// Sorted, each once.
    ignored: Vec<JsonPointer>,
}

impl FingerprintOptions {
    /// Options from a route's `fingerprint` and `fingerprint_ignore`. What is ignored is left out
    /// of JSON bodies that are read by meaning, whether it is there or not.
    ///
    /// ```
    /// use steadfast_core::fingerprint::{BodyMode, FingerprintOptions};
    /// assert!(FingerprintOptions::new(BodyMode::Meaning, ["/sent_at", "/trace/id"]).is_ok());
    /// assert!(FingerprintOptions::new(BodyMode::Meaning, ["sent_at"]).is_err());
    /// ```
    pub fn new<'a>(
        mode: BodyMode,
        ignore: impl IntoIterator<Item = &'a str>,
    ) -> Result<FingerprintOptions, OptionsError> {
        let mut ignored = Vec::new();
        for text in ignore {
            if ignored.len() == MAX_IGNORED {
                return Err(OptionsError::TooMany);
            }
            ignored.push(JsonPointer::parse(text)?);
        }
        if mode == BodyMode::Bytes && !ignored.is_empty() {
            return Err(OptionsError::IgnoredInBytes);
        }
        ignored.sort_unstable();
        ignored.dedup();
        Ok(FingerprintOptions { mode, ignored })
    }

    /// What of a body counts.
    pub fn mode(&self) -> BodyMode {
        self.mode
    }

    /// The parts of JSON bodies that do not count, sorted.
    pub fn ignored(&self) -> &[JsonPointer] {
        &self.ignored
    }
}

/// Why options are refused. The configuration's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsError {
    /// Not a pointer that can be ignored.
    Pointer {
        /// The text that came.
        pointer: String,
        /// What is wrong, as the end of a sentence, with the next step.
        why: &'static str,
    },
    /// More than [`MAX_IGNORED`] pointers.
    TooMany,
    /// Something is to be ignored where all bytes count.
    IgnoredInBytes,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionsError::Pointer { pointer, why } => {
                write!(f, "`{pointer}` cannot be ignored: {why}.")
            }
            OptionsError::TooMany => write!(
                f,
                "`fingerprint_ignore` has more than {MAX_IGNORED} pointers; point at a common \
                 parent.",
            ),
            OptionsError::IgnoredInBytes => f.write_str(
                "`fingerprint_ignore` needs bodies that are read by meaning; remove it, or remove \
                 `fingerprint = \"bytes\"`.",
            ),
        }
    }
}

impl std::error::Error for OptionsError {}
