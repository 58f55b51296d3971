//! The client decision: what an attempt's end means for the caller, and whether it goes again.
//!
//! Decides the operation first, then the error (R1): what the server may have done, whether this
//! may be repeated at all, whether anything is left to repeat it with. Refuses to know clocks,
//! budgets of other callers and how an answer is rendered. In this version an operation has one
//! attempt, so [`Decision::Retry`] and [`Decision::Defer`] are part of the type and are never
//! decided.

use std::time::Duration;

use http::Method;

use crate::attempt::{AttemptEnd, Failure};
use crate::effect::Effect;

/// What is known of the operation before its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// The method.
    pub method: &'a Method,
    /// It carries a key that is honoured here.
    pub keyed: bool,
}

/// What to do, always with a reason (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An answer came, and stands.
    Finish(Reason),
    /// Send again after `wait`, with `limit` for the attempt.
    Retry {
        /// The time to wait first.
        wait: Duration,
        /// The attempt's limit.
        limit: Duration,
        /// Why.
        reason: Reason,
    },
    /// Send later, from the queue, after `not_before` from now.
    Defer {
        /// The time to wait at least.
        not_before: Duration,
        /// Why.
        reason: Reason,
    },
    /// It may have been executed, and is not repeated.
    Unknown(Reason),
    /// It could be repeated, and is not.
    GiveUp {
        /// What this request may have done.
        effect: Effect,
        /// Why.
        reason: Reason,
    },
}

impl Decision {
    /// Why it was decided so.
    pub fn reason(&self) -> Reason {
        match self {
            Decision::Finish(reason)
            | Decision::Unknown(reason)
            | Decision::Retry { reason, .. }
            | Decision::Defer { reason, .. }
            | Decision::GiveUp { reason, .. } => *reason,
        }
    }
}

/// Why. The slug is stable: it is the metric's label and what `explain` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A whole answer came.
    Answered,
    /// All attempts are used.
    AttemptsUsed,
    /// The deadline has passed.
    Deadline,
    /// A certificate, a hostname or trust was refused (R2): repeating cannot help.
    IdentityRefused,
    /// The request may have been executed, and repeating it is not safe.
    MaybeExecuted,
    /// The request never reached the upstream.
    NeverSent,
}

impl Reason {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Answered => "answered",
            Reason::AttemptsUsed => "attempts",
            Reason::Deadline => "deadline",
            Reason::IdentityRefused => "identity",
            Reason::MaybeExecuted => "maybe-executed",
            Reason::NeverSent => "never-sent",
        }
    }
}

/// The decision at the end of the only attempt. `remaining` is what is left of the caller's
/// deadline.
pub fn on_end(end: &AttemptEnd, facts: Facts<'_>, remaining: Duration) -> Decision {
    let failure = match end {
        AttemptEnd::Answered(_) => return Decision::Finish(Reason::Answered),
        AttemptEnd::Failed(failure) => *failure,
    };
    if failure == Failure::TlsIdentity {
        return Decision::GiveUp {
            effect: Effect::None,
            reason: Reason::IdentityRefused,
        };
    }
    if failure.never_sent() {
        let reason = if remaining.is_zero() {
            Reason::Deadline
        } else {
            Reason::NeverSent
        };
        return Decision::GiveUp {
            effect: Effect::None,
            reason,
        };
    }
    if facts.keyed || !facts.method.is_idempotent() {
        return Decision::Unknown(Reason::MaybeExecuted);
    }
    let effect = if facts.method.is_safe() {
        Effect::None
    } else {
        Effect::Unknown
    };
    let reason = if remaining.is_zero() {
        Reason::Deadline
    } else {
        Reason::AttemptsUsed
    };
    Decision::GiveUp { effect, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Duration = Duration::from_secs(1);

    fn failed(failure: Failure, method: &Method, keyed: bool, left: Duration) -> Decision {
        on_end(&AttemptEnd::Failed(failure), Facts { method, keyed }, left)
    }

    // rule: maybe-executed-is-unknown
    #[test]
    fn post_without_key_is_unknown_after_read_timeout_or_reset() {
        for failure in [
            Failure::ReadTimeout,
            Failure::Reset,
            Failure::Write,
            Failure::Truncated,
        ] {
            for method in [Method::POST, Method::PATCH] {
                let got = failed(failure, &method, false, LEFT);
                assert_eq!(got, Decision::Unknown(Reason::MaybeExecuted));
            }
        }
    }

    #[test]
    fn keyed_work_is_unknown_whatever_its_method() {
        let got = failed(Failure::Reset, &Method::PUT, true, LEFT);
        assert_eq!(got, Decision::Unknown(Reason::MaybeExecuted));
    }

    #[test]
    fn what_was_never_sent_has_no_effect_on_any_method() {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let got = failed(Failure::Connect, &method, false, LEFT);
            let never = Decision::GiveUp {
                effect: Effect::None,
                reason: Reason::NeverSent,
            };
            assert_eq!(got, never);
        }
    }

    #[test]
    fn idempotent_and_keyless_gives_up_with_the_effect_of_its_method() {
        let cases = [
            (Method::GET, LEFT, Effect::None, Reason::AttemptsUsed),
            (Method::PUT, LEFT, Effect::Unknown, Reason::AttemptsUsed),
            (
                Method::DELETE,
                Duration::ZERO,
                Effect::Unknown,
                Reason::Deadline,
            ),
        ];
        for (method, left, effect, reason) in cases {
            let got = failed(Failure::ReadTimeout, &method, false, left);
            assert_eq!(got, Decision::GiveUp { effect, reason });
        }
    }

    #[test]
    fn an_identity_failure_is_never_repeated() {
        let got = failed(Failure::TlsIdentity, &Method::GET, false, LEFT);
        let never = Decision::GiveUp {
            effect: Effect::None,
            reason: Reason::IdentityRefused,
        };
        assert_eq!(got, never);
    }

    const FAILURES: [Failure; 15] = [
        Failure::Resolve,
        Failure::Connect,
        Failure::Pool,
        Failure::TlsIdentity,
        Failure::TlsHandshake,
        Failure::NotWritten,
        Failure::Write,
        Failure::ReadTimeout,
        Failure::Reset,
        Failure::RefusedStream,
        Failure::AboveGoaway,
        Failure::BelowGoaway,
        Failure::Idle,
        Failure::Truncated,
        Failure::Abandoned,
    ];

    // rule: an-effect-of-none-needs-evidence
    #[test]
    fn an_effect_of_none_is_told_only_of_what_was_never_sent_or_changes_nothing() {
        let methods = [
            Method::GET,
            Method::PUT,
            Method::DELETE,
            Method::POST,
            Method::PATCH,
        ];
        for failure in FAILURES {
            for method in &methods {
                for (keyed, left) in [(false, LEFT), (true, LEFT), (false, Duration::ZERO)] {
                    let none = match failed(failure, method, keyed, left) {
                        Decision::GiveUp { effect, .. } => effect == Effect::None,
                        Decision::Unknown(_) => false,
                        other => panic!("one attempt only, got {other:?}"),
                    };
                    let harmless = failure.never_sent() || (method.is_safe() && !keyed);
                    assert_eq!(none, harmless, "{failure:?} {method} {keyed}");
                }
            }
        }
    }

    #[test]
    fn what_was_not_sent_in_time_says_that_the_deadline_passed() {
        let got = failed(Failure::Connect, &Method::POST, true, Duration::ZERO);
        let late = Decision::GiveUp {
            effect: Effect::None,
            reason: Reason::Deadline,
        };
        assert_eq!(got, late);
    }

    #[test]
    fn an_answer_stands_whatever_its_status_and_the_time_left() {
        for status in [200, 302, 404, 429, 500, 503] {
            let end = AttemptEnd::Answered(crate::attempt::Answered {
                status: http::StatusCode::from_u16(status).unwrap(),
                request_written: false,
                through_intermediary: true,
                says_unknown: true,
            });
            let facts = Facts {
                method: &Method::POST,
                keyed: true,
            };
            let got = on_end(&end, facts, Duration::ZERO);
            assert_eq!(got, Decision::Finish(Reason::Answered), "{status}");
        }
    }
}
