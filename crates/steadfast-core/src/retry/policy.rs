//! What is repeated, how often and after which waits, as values that cannot be wrong.

use std::num::NonZeroU32;
use std::time::Duration;

use http::{Method, StatusCode};

use crate::attempt::Failure;
use crate::backoff::Backoff;
use crate::repeat::Contract;

/// The rules of one endpoint's attempts. Their limits are in [`crate::timeouts::Timeouts`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts, the first one included.
    pub max_attempts: NonZeroU32,
    /// The waits between them.
    pub backoff: Backoff,
    /// The statuses after which it goes again.
    pub on_status: StatusSet,
    /// The failures after which it goes again.
    pub on_error: ErrorSet,
    /// The methods that are repeated at all; `None` for all.
    pub methods: Option<Vec<Method>>,
    /// What the endpoint's contract says beyond its methods.
    pub contract: Contract,
    /// The longest wait that is accepted of a server; `None` for what fits the deadline.
    pub max_wait: Option<Duration>,
    /// `Retry-After` is obeyed.
    pub obey_retry_after: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            max_attempts: const { NonZeroU32::new(3).expect("not zero") },
            backoff: Backoff::default(),
            on_status: StatusSet::default(),
            on_error: ErrorSet::default(),
            methods: None,
            contract: Contract::default(),
            max_wait: None,
            obey_retry_after: true,
        }
    }
}

impl RetryPolicy {
    /// One attempt, and nothing after it.
    pub fn once() -> RetryPolicy {
        RetryPolicy {
            max_attempts: NonZeroU32::MIN,
            ..RetryPolicy::default()
        }
    }
}

/// A set of statuses from 100 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSet([u64; 8]);

impl Default for StatusSet {
    fn default() -> Self {
        [408, 425, 429, 500, 502, 503, 504]
            .into_iter()
            .filter_map(|status| StatusCode::from_u16(status).ok())
            .collect()
    }
}

impl FromIterator<StatusCode> for StatusSet {
    fn from_iter<I: IntoIterator<Item = StatusCode>>(all: I) -> Self {
        let mut set = StatusSet([0; 8]);
        for status in all {
            if let Some((word, bit)) = StatusSet::place(status) {
                set.0[word] |= bit;
            }
        }
        set
    }
}

impl StatusSet {
    /// Whether `status` is in it.
    pub fn contains(&self, status: StatusCode) -> bool {
        StatusSet::place(status).is_some_and(|(word, bit)| self.0[word] & bit != 0)
    }

    /// Its statuses, in their order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (100..600).filter(|code| StatusCode::from_u16(*code).is_ok_and(|s| self.contains(s)))
    }

    fn place(status: StatusCode) -> Option<(usize, u64)> {
        let at = usize::from(status.as_u16()).checked_sub(100)?;
        (at < 500).then(|| (at / 64, 1 << (at % 64)))
    }
}

/// A set of failures, by the words of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorSet(u32);

impl Default for ErrorSet {
    /// All that can be repeated, but for our own full pool: who asks again waits as long again.
    fn default() -> Self {
        let usual = ErrorSet::WORDS.iter().filter(|(word, _)| *word != "pool");
        usual.fold(ErrorSet(0), |set, (_, failures)| set.with(failures))
    }
}

impl ErrorSet {
    /// The words of configuration and the failures that each means. A refused identity is not among
    /// them: it is never repeated (R2).
    pub const WORDS: [(&'static str, &'static [Failure]); 12] = [
        ("resolve", &[Failure::Resolve]),
        ("connect", &[Failure::Connect]),
        ("pool", &[Failure::Pool]),
        ("tls-handshake", &[Failure::TlsHandshake]),
        ("not-written", &[Failure::NotWritten]),
        ("write", &[Failure::Write]),
        ("read-timeout", &[Failure::ReadTimeout]),
        ("reset", &[Failure::Reset]),
        ("refused-stream", &[Failure::RefusedStream]),
        ("goaway", &[Failure::AboveGoaway, Failure::BelowGoaway]),
        ("idle", &[Failure::Idle]),
        ("truncated", &[Failure::Truncated]),
    ];

    /// An empty set.
    pub fn none() -> ErrorSet {
        ErrorSet(0)
    }

    /// The set and what `word` means; `None` for no such word.
    pub fn and(self, word: &str) -> Option<ErrorSet> {
        let mut words = ErrorSet::WORDS.iter();
        let (_, failures) = words.find(|(known, _)| *known == word)?;
        Some(self.with(failures))
    }

    /// Whether `failure` is in it.
    pub fn contains(&self, failure: Failure) -> bool {
        self.0 & (1 << failure as u32) != 0
    }

    /// Its words, in their order.
    pub fn words(&self) -> impl Iterator<Item = &'static str> + '_ {
        let held = |failures: &[Failure]| failures.iter().all(|f| self.contains(*f));
        let all = ErrorSet::WORDS.iter();
        all.filter(move |(_, failures)| held(failures))
            .map(|(word, _)| *word)
    }

    fn with(self, failures: &[Failure]) -> ErrorSet {
        let bits = failures
            .iter()
            .fold(self.0, |bits, f| bits | (1 << *f as u32));
        ErrorSet(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_statuses_holds_what_was_put_in_and_nothing_else() {
        let held: Vec<u16> = StatusSet::default().iter().collect();
        assert_eq!(held, [408, 425, 429, 500, 502, 503, 504]);
        let ends: StatusSet = [100, 599, 999]
            .into_iter()
            .filter_map(|code| StatusCode::from_u16(code).ok())
            .collect();
        assert_eq!(ends.iter().collect::<Vec<_>>(), [100, 599]);
    }

    #[test]
    fn a_set_of_errors_is_read_and_written_in_words() {
        let set = ErrorSet::none()
            .and("goaway")
            .and_then(|set| set.and("reset"));
        let set = set.expect("both are words");
        assert_eq!(set.words().collect::<Vec<_>>(), ["reset", "goaway"]);
        assert!(set.contains(Failure::AboveGoaway) && set.contains(Failure::BelowGoaway));
        assert!(!set.contains(Failure::Connect));
        assert_eq!(set.and("tls"), None);
        assert!(!ErrorSet::default().contains(Failure::Pool));
        assert!(!ErrorSet::default().contains(Failure::TlsIdentity));
        assert!(!ErrorSet::default().contains(Failure::Abandoned));
    }
}
