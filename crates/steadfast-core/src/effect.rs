//! What the server may have done: none, unknown, applied.
//!
//! Decides the effect of one attempt from its end (the table of keyed.md, "What an attempt's end
//! means") and the effect of an operation as the worst over its attempts. It refuses to know keys,
//! records and policies beyond three sets of statuses. Requirements R3, I7, U1.

use std::fmt;

/// What the server may have done with an operation. `Unknown` is a result of its own, never a
/// failure (U1). The order is from best known to worst for the question "may it run again".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing happened.
    None,
    /// It may or may not have happened.
    Unknown,
    /// It happened.
    Applied,
}

impl Effect {
    /// The word in headers, records and problems.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::None => "none",
            Effect::Unknown => "unknown",
            Effect::Applied => "applied",
        }
    }

    /// The effect that a word names.
    pub fn parse(word: &str) -> Option<Effect> {
        [Effect::None, Effect::Unknown, Effect::Applied]
            .into_iter()
            .find(|e| e.as_str() == word)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
