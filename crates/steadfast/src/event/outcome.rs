//! What came of a request, in a word: one of few, so that it can be a label.

use http::StatusCode;
use steadfast_core::effect::Effect;
use steadfast_core::policy::Meaning;
use steadfast_core::problem::Slug;
use steadfast_core::record::Standing;

/// What came of a keyed request that was answered, by the answer it got (docs/operations.md,
/// "Metrics").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyedOutcome {
    /// Its own attempt brought a final answer.
    Executed,
    /// It was given the answer of an operation that had finished, or that it is not kept.
    Replayed,
    /// It waited for the operation at work and was given its answer.
    Joined,
    /// The operation is at work, and it did not wait to its end.
    Conflict,
    /// Its key belongs to another request.
    Mismatch,
    /// Whether it was executed is not known.
    Unknown,
    /// Its own attempt was not executed; the key is free again.
    Released,
    /// It was refused before anything was sent.
    Refused,
    /// It waits in the queue.
    Deferred,
}

impl KeyedOutcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [KeyedOutcome; 9] = [
        KeyedOutcome::Executed,
        KeyedOutcome::Replayed,
        KeyedOutcome::Joined,
        KeyedOutcome::Conflict,
        KeyedOutcome::Mismatch,
        KeyedOutcome::Unknown,
        KeyedOutcome::Released,
        KeyedOutcome::Refused,
        KeyedOutcome::Deferred,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyedOutcome::Executed => "executed",
            KeyedOutcome::Replayed => "replayed",
            KeyedOutcome::Joined => "joined",
            KeyedOutcome::Conflict => "conflict",
            KeyedOutcome::Mismatch => "mismatch",
            KeyedOutcome::Unknown => "unknown",
            KeyedOutcome::Released => "released",
            KeyedOutcome::Refused => "refused",
            KeyedOutcome::Deferred => "deferred",
        }
    }

    /// Of a request that was given this problem.
    pub fn of_problem(slug: Slug) -> KeyedOutcome {
        match slug {
            Slug::InProgress => KeyedOutcome::Conflict,
            Slug::KeyReused => KeyedOutcome::Mismatch,
            Slug::OutcomeUnknown | Slug::UpstreamFailed => KeyedOutcome::Unknown,
            Slug::ResponseNotStored => KeyedOutcome::Replayed,
            Slug::UpstreamUnreachable => KeyedOutcome::Released,
            Slug::BadRequest
            | Slug::BodyTooLarge
            | Slug::CircuitOpen
            | Slug::DeadlineExceeded
            | Slug::KeyInvalid
            | Slug::KeyMissing
            | Slug::KeyWeak
            | Slug::NoRoute
            | Slug::OperationNotFound
            | Slug::Overloaded
            | Slug::PrincipalUnknown
            | Slug::QuotaExceeded
            | Slug::StoreUnavailable => KeyedOutcome::Refused,
        }
    }

    /// Of a request whose own attempt means this for its record.
    pub fn of_attempt(meaning: Meaning) -> KeyedOutcome {
        match meaning {
            Meaning::Final => KeyedOutcome::Executed,
            Meaning::Released => KeyedOutcome::Released,
            Meaning::Unknown => KeyedOutcome::Unknown,
        }
    }

    /// Of a request that was given what stands, having waited for it or not. That an outcome is
    /// unknown goes before how it was come by (U1).
    pub fn of_standing(standing: &Standing, waited: bool) -> KeyedOutcome {
        match (standing.effect, waited) {
            (Effect::Unknown, _) => KeyedOutcome::Unknown,
            (_, true) => KeyedOutcome::Joined,
            (_, false) => KeyedOutcome::Replayed,
        }
    }
}

/// What the caller of a request was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// The upstream's own answer, below 400.
    Success,
    /// The upstream's own answer, 400 to 499.
    ClientError,
    /// The upstream's own answer, 500 and above.
    ServerError,
    /// The answer of an operation that another request executed.
    Replayed,
    /// That whether it was executed is not known.
    Unknown,
    /// That no answer could be had, and nothing is in doubt.
    Failed,
    /// A refusal, with nothing sent.
    Refused,
    /// That another request holds the key: 202, 409 or 422.
    Conflict,
    /// Nothing: the caller left before there was an answer.
    CallerLeft,
}

impl RequestOutcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [RequestOutcome; 9] = [
        RequestOutcome::Success,
        RequestOutcome::ClientError,
        RequestOutcome::ServerError,
        RequestOutcome::Replayed,
        RequestOutcome::Unknown,
        RequestOutcome::Failed,
        RequestOutcome::Refused,
        RequestOutcome::Conflict,
        RequestOutcome::CallerLeft,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestOutcome::Success => "success",
            RequestOutcome::ClientError => "client-error",
            RequestOutcome::ServerError => "server-error",
            RequestOutcome::Replayed => "replayed",
            RequestOutcome::Unknown => "unknown",
            RequestOutcome::Failed => "failed",
            RequestOutcome::Refused => "refused",
            RequestOutcome::Conflict => "conflict",
            RequestOutcome::CallerLeft => "caller-left",
        }
    }

    /// Of a request that was given an answer of its upstream's, or of ours where all is well.
    pub fn of_status(status: StatusCode) -> RequestOutcome {
        match status.as_u16() {
            ..=399 => RequestOutcome::Success,
            400..=499 => RequestOutcome::ClientError,
            _ => RequestOutcome::ServerError,
        }
    }

    /// Of a request that was given this problem, with this effect.
    pub fn of_problem(slug: Slug, effect: Effect) -> RequestOutcome {
        match slug {
            Slug::InProgress | Slug::KeyReused => RequestOutcome::Conflict,
            Slug::ResponseNotStored => RequestOutcome::Replayed,
            Slug::OutcomeUnknown => RequestOutcome::Unknown,
            Slug::DeadlineExceeded | Slug::UpstreamFailed | Slug::UpstreamUnreachable => {
                match effect {
                    Effect::Unknown => RequestOutcome::Unknown,
                    _ => RequestOutcome::Failed,
                }
            }
            Slug::BadRequest
            | Slug::BodyTooLarge
            | Slug::CircuitOpen
            | Slug::KeyInvalid
            | Slug::KeyMissing
            | Slug::KeyWeak
            | Slug::NoRoute
            | Slug::OperationNotFound
            | Slug::Overloaded
            | Slug::PrincipalUnknown
            | Slug::QuotaExceeded
            | Slug::StoreUnavailable => RequestOutcome::Refused,
        }
    }

    /// Of a keyed request that was given an answer, not a problem.
    pub fn of_keyed(outcome: KeyedOutcome, status: StatusCode) -> RequestOutcome {
        match outcome {
            KeyedOutcome::Replayed | KeyedOutcome::Joined => RequestOutcome::Replayed,
            KeyedOutcome::Unknown => RequestOutcome::Unknown,
            KeyedOutcome::Refused => RequestOutcome::Refused,
            KeyedOutcome::Conflict | KeyedOutcome::Mismatch | KeyedOutcome::Deferred => {
                RequestOutcome::Conflict
            }
            KeyedOutcome::Executed | KeyedOutcome::Released => RequestOutcome::of_status(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StoreOperation;

    #[test]
    fn an_outcome_in_doubt_is_unknown_under_every_name() {
        for slug in [Slug::OutcomeUnknown, Slug::UpstreamFailed] {
            let keyed = KeyedOutcome::of_problem(slug);
            let request = RequestOutcome::of_problem(slug, Effect::Unknown);
            assert_eq!(
                (keyed, request),
                (KeyedOutcome::Unknown, RequestOutcome::Unknown)
            );
        }
        let late = RequestOutcome::of_problem(Slug::DeadlineExceeded, Effect::Unknown);
        assert_eq!(late, RequestOutcome::Unknown);
        let own = KeyedOutcome::of_attempt(Meaning::Unknown);
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        assert_eq!(
            RequestOutcome::of_keyed(own, status),
            RequestOutcome::Unknown
        );
    }

    #[test]
    fn each_outcome_has_a_word_of_its_own() {
        let keyed: Vec<_> = KeyedOutcome::ALL.iter().map(|o| o.as_str()).collect();
        let requests: Vec<_> = RequestOutcome::ALL.iter().map(|o| o.as_str()).collect();
        for words in [keyed, requests] {
            let distinct: std::collections::HashSet<_> = words.iter().collect();
            assert_eq!(distinct.len(), words.len());
        }
    }

    #[test]
    fn counters_that_are_found_by_number_are_those_of_the_word() {
        let keyed = KeyedOutcome::ALL.map(|outcome| outcome as usize);
        let requests = RequestOutcome::ALL.map(|outcome| outcome as usize);
        let store = StoreOperation::ALL.map(|operation| operation as usize);
        for numbers in [&keyed[..], &requests, &store] {
            assert!(numbers.iter().copied().eq(0..numbers.len()), "{numbers:?}");
        }
    }
}
