//! The words for why: stable slugs, and a sentence each.

/// Why it was decided so. The slug is stable: it is the metric's label and what `explain` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A whole answer came, and stands.
    Answered,
    /// The answer is marked as a replay of an earlier one.
    Replayed,
    /// A repeated DELETE found nothing: an earlier attempt may have deleted it (R11).
    RepeatedDelete,
    /// A repeated conditional write found its condition false: an earlier attempt may have changed
    /// the state (R11).
    RepeatedCondition,
    /// Nothing reached the server.
    NeverSent,
    /// The method is safe.
    SafeMethod,
    /// The method is idempotent, or its contract says that repeating is safe.
    Idempotent,
    /// The endpoint honours the key.
    KeyHonoured,
    /// The first request under the same key is still running.
    InProgress,
    /// A connection was closed before anything was written on it.
    StaleConnection,
    /// A certificate, a hostname or trust was refused (R2).
    IdentityRefused,
    /// It may have been executed, and repeating it is not safe.
    MaybeExecuted,
    /// The upstream itself says that it does not know.
    SaysUnknown,
    /// A write without an honoured key, which a status says was not executed.
    UnkeyedWrite,
    /// Never sent, and writes without a key are kept from going again.
    UnsentWrites,
    /// The body was read while it was sent, and is gone (R10).
    BodyStreamed,
    /// Part of the answer was passed on already.
    PassedOn,
    /// The policy does not repeat this method.
    MethodNotListed,
    /// The policy does not repeat after this error.
    ErrorNotListed,
    /// An outer layer owns the retries (R8).
    OuterLayer,
    /// All attempts are used.
    AttemptsUsed,
    /// What remains of the deadline is not enough for another attempt.
    Deadline,
    /// The server asked for a wait that does not fit into what remains.
    RetryAfter,
    /// The server asked for a longer wait than the policy accepts.
    MaxWait,
    /// The upstream's circuit breaker is open.
    CircuitOpen,
    /// Retries have used up their share of the traffic.
    Budget,
    /// The caller left.
    CallerLeft,
    /// The process ends, or is not certain any more that the operation is its own.
    Stopped,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 28] = [
        Reason::Answered,
        Reason::Replayed,
        Reason::RepeatedDelete,
        Reason::RepeatedCondition,
        Reason::NeverSent,
        Reason::SafeMethod,
        Reason::Idempotent,
        Reason::KeyHonoured,
        Reason::InProgress,
        Reason::StaleConnection,
        Reason::IdentityRefused,
        Reason::MaybeExecuted,
        Reason::SaysUnknown,
        Reason::UnkeyedWrite,
        Reason::UnsentWrites,
        Reason::BodyStreamed,
        Reason::PassedOn,
        Reason::MethodNotListed,
        Reason::ErrorNotListed,
        Reason::OuterLayer,
        Reason::AttemptsUsed,
        Reason::Deadline,
        Reason::RetryAfter,
        Reason::MaxWait,
        Reason::CircuitOpen,
        Reason::Budget,
        Reason::CallerLeft,
        Reason::Stopped,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Answered => "answered",
            Reason::Replayed => "replayed",
            Reason::RepeatedDelete => "repeated-delete",
            Reason::RepeatedCondition => "repeated-condition",
            Reason::NeverSent => "never-sent",
            Reason::SafeMethod => "safe-method",
            Reason::Idempotent => "idempotent",
            Reason::KeyHonoured => "key-honoured",
            Reason::InProgress => "in-progress",
            Reason::StaleConnection => "stale-connection",
            Reason::IdentityRefused => "identity",
            Reason::MaybeExecuted => "maybe-executed",
            Reason::SaysUnknown => "says-unknown",
            Reason::UnkeyedWrite => "unkeyed-write",
            Reason::UnsentWrites => "unsent-writes",
            Reason::BodyStreamed => "body-streamed",
            Reason::PassedOn => "passed-on",
            Reason::MethodNotListed => "method-not-listed",
            Reason::ErrorNotListed => "error-not-listed",
            Reason::OuterLayer => "outer-layer",
            Reason::AttemptsUsed => "attempts",
            Reason::Deadline => "deadline",
            Reason::RetryAfter => "retry-after",
            Reason::MaxWait => "max-wait",
            Reason::CircuitOpen => "circuit-open",
            Reason::Budget => "budget",
            Reason::CallerLeft => "caller-left",
            Reason::Stopped => "stopped",
        }
    }

    /// The sentence for people.
    // tidy: table, because each reason has its sentence
    pub fn why(self) -> &'static str {
        match self {
            Reason::Answered => "A whole answer came that does not ask to be repeated.",
            Reason::Replayed => {
                "The answer is marked as a replay of the first one: asking again brings the same."
            }
            Reason::RepeatedDelete => {
                "An earlier attempt may have worked, and now there is nothing left to delete: the \
                 deletion is taken as done."
            }
            Reason::RepeatedCondition => {
                "An earlier attempt may have worked and changed the state that the condition \
                 names, so this refusal does not say that nothing happened. Read the state."
            }
            Reason::NeverSent => "Nothing reached the server, so sending it is no repetition.",
            Reason::SafeMethod => "The method is safe: sending it again changes nothing.",
            Reason::Idempotent => {
                "The method is idempotent: sending it twice does what sending it once does."
            }
            Reason::KeyHonoured => {
                "The endpoint honours the key: a repeat is answered with the first answer."
            }
            Reason::InProgress => {
                "The first request under this key is still running: this is a wait, not a failure."
            }
            Reason::StaleConnection => {
                "A kept connection had been closed before anything was written on it."
            }
            Reason::IdentityRefused => {
                "The peer's certificate, hostname or trust was refused; repeating cannot help."
            }
            Reason::MaybeExecuted => {
                "It may have been executed, and without an honoured key sending it again could \
                 execute it twice. Look up whether it happened."
            }
            Reason::SaysUnknown => {
                "The upstream itself says that it does not know whether it was executed."
            }
            Reason::UnkeyedWrite => {
                "The status says that nothing was executed, but a write goes again on such a \
                 promise only with a key that the endpoint honours."
            }
            Reason::UnsentWrites => {
                "Nothing was sent, but the policy keeps writes without a key from going again \
                 (retry.unsent_writes = false)."
            }
            Reason::BodyStreamed => {
                "The body was read while it was sent and cannot be sent again byte for byte."
            }
            Reason::PassedOn => "Part of the answer was passed on already.",
            Reason::MethodNotListed => "The policy does not repeat this method (retry.methods).",
            Reason::ErrorNotListed => {
                "The policy does not repeat after this error (retry.on_error)."
            }
            Reason::OuterLayer => {
                "A layer before this one repeats already; only what was never sent goes again here."
            }
            Reason::AttemptsUsed => "All attempts are used.",
            Reason::Deadline => "What remains of the deadline is not enough for another attempt.",
            Reason::RetryAfter => {
                "The server asked for a wait that does not fit into what remains of the deadline, \
                 and coming back early is not obeying it."
            }
            Reason::MaxWait => {
                "The server asked for a longer wait than the policy accepts (retry.max_wait)."
            }
            Reason::CircuitOpen => {
                "The circuit breaker of this upstream is open: too many of its last answers failed."
            }
            Reason::Budget => {
                "We stopped here, not the server: retries have used up their share of the traffic."
            }
            Reason::CallerLeft => "The caller left.",
            Reason::Stopped => {
                "The process ends, or is not certain any more that the operation is its own."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_has_a_word_of_its_own_and_a_plain_sentence() {
        let words: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(words.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            let plain = |c: char| (' '..='~').contains(&c) && c != '"' && c != '\\';
            let why = reason.why();
            assert!(why.chars().all(plain) && why.ends_with('.'), "{why}");
        }
    }
}
