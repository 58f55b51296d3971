//! The client decision: what an attempt's end means for its operation, and whether it goes again.
//!
//! Decides in this order (requirements R1 to R11): a refused identity; what the server may have
//! done, as the worst over the attempts; whether the operation may be repeated at all
//! ([`crate::repeat`]); whether it is worth it; attempts; the deadline against back-off and
//! `Retry-After`; the breaker; the budget, last, since taking from it is the only act
//! ([`crate::upstream::Upstream::pay`], when the attempt is sent). Every driver calls
//! [`on_end`]: gateway, client layer, `call` and `explain` cannot disagree. Refuses to know clocks,
//! sockets and how an answer is rendered.

mod policy;
mod reason;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use policy::{ErrorSet, RetryPolicy, StatusSet};
pub use reason::Reason;

use crate::attempt::{Answered, AttemptEnd, Failure};
use crate::deadline::attempt_share;
use crate::effect::{self, Earlier, Effect, Verdict};
use crate::policy::{Meaning, Statuses};
use crate::repeat::{self, Did, Grounds, KeyUse, Obstacle, Operation};
use crate::retry_after::Advice;
use crate::time::Draw;
use crate::upstream::{Refused, Sends};

/// What is known when an attempt has ended.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The operation.
    pub operation: Operation<'a>,
    /// The rules of its attempts.
    pub policy: &'a RetryPolicy,
    /// Which statuses are final, released, unknown, where they differ from the table.
    pub statuses: &'a Statuses,
    /// The attempts so far.
    pub course: Course,
    /// What is left of the deadline now.
    pub remaining: Duration,
    /// The limit of one attempt.
    pub attempt_limit: Duration,
    /// An attempt with less than this left is not started.
    pub min_attempt: Duration,
    /// A byte of the answer was passed on to the caller.
    pub passed_on: bool,
    /// What does not fit the deadline may be deferred.
    pub may_defer: bool,
}

/// An operation's attempts so far, the one that has just ended included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// How many there were.
    pub attempts: u32,
    /// What those before the last one left behind.
    pub earlier: Earlier,
    /// The wait before the last one; zero where there was none.
    pub waited: Duration,
    /// A layer before this one repeats already (R8): only what was never sent goes again.
    pub only_unsent: bool,
}

impl Course {
    /// The first attempt, with nothing before it.
    pub const FIRST: Course = Course {
        attempts: 1,
        earlier: Earlier {
            ambiguous: false,
            key_honoured: false,
        },
        waited: Duration::ZERO,
        only_unsent: false,
    };

    /// The course with one more attempt, sent after `wait` because of `decision`.
    pub fn again(self, decision: &Decision, wait: Duration) -> Course {
        Course {
            attempts: self.attempts.saturating_add(1),
            earlier: Earlier {
                ambiguous: self.earlier.ambiguous || decision.effect == Effect::Unknown,
                ..self.earlier
            },
            waited: wait,
            ..self
        }
    }
}

/// What else an end shows, beyond what the server may have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// What the answer's `Retry-After` says.
    pub retry_after: Advice,
    /// It is marked `Idempotent-Replayed: true`.
    pub replayed: bool,
    /// It says `Steadfast-Effect: none`.
    pub says_none: bool,
    /// It says that the first request under our key is still running: the problem `in-progress`, or
    /// a 409 with `Retry-After` from an endpoint that honours keys.
    pub in_progress: bool,
    /// The attempt failed on a connection that had been used before, with nothing written.
    pub stale: bool,
}

impl Signs {
    /// Nothing of the kind.
    pub const NONE: Signs = Signs {
        retry_after: Advice::Absent,
        replayed: false,
        says_none: false,
        in_progress: false,
        stale: false,
    };
}

/// What to do, always with what this operation may have done, and a reason (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub next: Next,
    /// What the operation may have done so far, over all its attempts.
    pub effect: Effect,
    /// Why.
    pub reason: Reason,
}

impl Decision {
    /// The end, for `reason`, of an operation that was to go again and does not.
    pub fn stopped(self, reason: Reason) -> Decision {
        let next = match self.effect {
            Effect::Unknown => Next::Unknown,
            Effect::None | Effect::Applied => Next::GiveUp,
        };
        Decision {
            next,
            reason,
            ..self
        }
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An answer came, and stands.
    Finish,
    /// Send again after `wait`, with `limit` for the attempt.
    Retry {
        /// The time to wait first.
        wait: Duration,
        /// The attempt's limit.
        limit: Duration,
        /// What the upstream's breaker and budget are asked.
        sends: Sends,
    },
    /// Send later, from the queue, after `not_before` from now.
    Defer {
        /// The time to wait at least.
        not_before: Duration,
    },
    /// It may have been executed, and is not repeated (U1). An answer that came is passed on.
    Unknown,
    /// It could be repeated, and is not. An answer that came is passed on.
    GiveUp,
}

impl Next {
    /// The word that `explain` prints.
    pub fn as_str(self) -> &'static str {
        match self {
            Next::Finish => "finish",
            Next::Retry { .. } => "retry",
            Next::Defer { .. } => "defer",
            Next::Unknown => "unknown",
            Next::GiveUp => "give_up",
        }
    }
}

/// The decision at the end of an attempt. `draw` is asked for chance where there is a wait to
/// spread. `may_go` is asked last, with the wait: whether the
/// upstream's breaker and budget would let a retry out then
/// ([`crate::upstream::Upstream::may_retry`]).
///
/// ```
/// use std::time::Duration;
/// use http::{Method, StatusCode};
/// use steadfast_core::attempt::{Answered, AttemptEnd};
/// use steadfast_core::policy::Statuses;
/// use steadfast_core::repeat::{BodyKind, KeyUse, Operation};
/// use steadfast_core::retry::{on_end, Course, RetryPolicy, Signs, Situation};
/// use steadfast_core::time::Draw;
///
/// let decided = |method: Method, key, status| {
///     let policy = RetryPolicy::default();
///     let situation = Situation {
///         operation: Operation {
///             method: &method,
///             key,
///             body: BodyKind::Whole,
///             conditional: false,
///         },
///         policy: &policy,
///         statuses: &Statuses::default(),
///         course: Course::FIRST,
///         remaining: Duration::from_secs(30),
///         attempt_limit: Duration::from_secs(20),
///         min_attempt: Duration::ZERO,
///         passed_on: false,
///         may_defer: false,
///     };
///     let end = AttemptEnd::Answered(Answered {
///         status: StatusCode::from_u16(status).unwrap(),
///         request_written: true,
///         through_intermediary: false,
///         says_unknown: false,
///     });
///     let draw = || Draw::from_bits(0);
///     on_end(&situation, &end, &Signs::NONE, draw, |_| Ok(())).next.as_str()
/// };
/// assert_eq!(decided(Method::GET, KeyUse::None, 503), "retry");
/// assert_eq!(decided(Method::POST, KeyUse::None, 504), "unknown");
/// assert_eq!(decided(Method::POST, KeyUse::Honoured, 504), "retry");
/// assert_eq!(decided(Method::POST, KeyUse::Honoured, 400), "finish");
/// ```
pub fn on_end(
    situation: &Situation<'_>,
    end: &AttemptEnd,
    signs: &Signs,
    draw: impl FnOnce() -> Draw,
    may_go: impl FnOnce(Duration) -> Result<(), Refused>,
) -> Decision {
    let verdict = effect::verdict(end, situation.statuses, situation.earlier());
    let judged = Judged {
        situation,
        signs,
        did: Did::by(end, verdict.effect, situation.course.earlier.ambiguous),
        effect: situation.effect(end, &verdict),
    };
    if *end == AttemptEnd::Failed(Failure::TlsIdentity) {
        return judged.stop(Reason::IdentityRefused);
    }
    let again = match end {
        AttemptEnd::Answered(answered) => judged.after_answer(answered, &verdict),
        AttemptEnd::Failed(failure) => judged.after_failure(*failure),
    };
    match again {
        Ok(reason) => judged.within_limits(reason, draw, may_go),
        Err(decision) => decision,
    }
}

/// The decision at the end of an operation's only attempt, with `remaining` left.
pub fn on_only_end(end: &AttemptEnd, operation: Operation<'_>, remaining: Duration) -> Decision {
    let (policy, statuses) = (RetryPolicy::once(), Statuses::default());
    let situation = Situation {
        operation,
        policy: &policy,
        statuses: &statuses,
        course: Course::FIRST,
        remaining,
        attempt_limit: Duration::MAX,
        min_attempt: Duration::ZERO,
        passed_on: false,
        may_defer: false,
    };
    on_end(
        &situation,
        end,
        &Signs::NONE,
        || Draw::from_bits(0),
        |_| Ok(()),
    )
}

impl Situation<'_> {
    fn earlier(&self) -> Earlier {
        Earlier {
            key_honoured: self.operation.key == KeyUse::Honoured,
            ..self.course.earlier
        }
    }

    /// What the operation may have done, with what only its method and history tell.
    fn effect(&self, end: &AttemptEnd, verdict: &Verdict) -> Effect {
        if self.operation.is_safe() && self.operation.key == KeyUse::None {
            return Effect::None;
        }
        let (method, earlier) = (self.operation.method, self.course.earlier);
        effect::of_repeat(method, end, earlier).unwrap_or(verdict.effect)
    }

    /// Its unknown outcome is nobody's to repeat without knowing more: keyed, or not idempotent.
    fn leaves_unknown(&self) -> bool {
        self.operation.key != KeyUse::None || !self.operation.is_repeatable(self.policy.contract)
    }

    fn lists_method(&self) -> bool {
        let methods = self.policy.methods.as_ref();
        methods.is_none_or(|listed| listed.contains(self.operation.method))
    }
}

struct Judged<'a> {
    situation: &'a Situation<'a>,
    signs: &'a Signs,
    did: Did,
    effect: Effect,
}

impl Judged<'_> {
    /// Why the answered operation goes again, limits allowing; else the decision.
    fn after_answer(&self, answered: &Answered, verdict: &Verdict) -> Result<Reason, Decision> {
        let (operation, policy) = (self.situation.operation, self.situation.policy);
        let keyed = operation.key != KeyUse::None;
        if self.signs.in_progress && keyed {
            return self.own_body_allows(Reason::InProgress);
        }
        if answered.says_unknown && !operation.is_safe() {
            return Err(self.of(Next::Unknown, Reason::SaysUnknown));
        }
        if self.signs.replayed && !self.signs.says_none {
            return Err(self.stands(verdict, Reason::Replayed));
        }
        if !policy.on_status.contains(answered.status) {
            return Err(self.stands(verdict, self.read(answered)));
        }
        let reason = match repeat::may_repeat(operation, policy.contract, self.did) {
            Ok(grounds) => reason(grounds),
            Err(Obstacle::MaybeExecuted) => {
                return Err(self.of(Next::Unknown, Reason::MaybeExecuted));
            }
            Err(Obstacle::Unkeyed | Obstacle::UnsentWrites) => {
                return Err(self.of(Next::Finish, Reason::UnkeyedWrite));
            }
            Err(Obstacle::BodyStreamed) => return Err(self.stands(verdict, Reason::BodyStreamed)),
        };
        self.allowed(reason)
            .map_err(|hindered| self.stands(verdict, hindered))
    }

    /// Why the failed operation goes again, limits allowing; else the decision.
    fn after_failure(&self, failure: Failure) -> Result<Reason, Decision> {
        let (operation, policy) = (self.situation.operation, self.situation.policy);
        let reason = match repeat::may_repeat(operation, policy.contract, self.did) {
            Ok(grounds) => reason(grounds),
            Err(Obstacle::MaybeExecuted | Obstacle::Unkeyed) => {
                return Err(self.of(Next::Unknown, Reason::MaybeExecuted));
            }
            Err(Obstacle::UnsentWrites) => return Err(self.stop(Reason::UnsentWrites)),
            Err(Obstacle::BodyStreamed) => return Err(self.stop(Reason::BodyStreamed)),
        };
        if !policy.on_error.contains(failure) {
            return Err(self.stop(Reason::ErrorNotListed));
        }
        self.allowed(reason).map_err(|hindered| self.stop(hindered))
    }

    /// What hinders a repetition that the operation itself allows.
    fn allowed(&self, reason: Reason) -> Result<Reason, Reason> {
        let never_sent = matches!(self.did, Did::NotSent { .. });
        if !self.situation.lists_method() {
            Err(Reason::MethodNotListed)
        } else if self.situation.course.only_unsent && !never_sent {
            Err(Reason::OuterLayer)
        } else if self.situation.passed_on {
            Err(Reason::PassedOn)
        } else {
            Ok(reason)
        }
    }

    /// Waiting for the first request under our key asks again with the same body.
    fn own_body_allows(&self, reason: Reason) -> Result<Reason, Decision> {
        match self.situation.operation.body {
            repeat::BodyKind::Streamed => Err(self.of(Next::Unknown, Reason::BodyStreamed)),
            repeat::BodyKind::Whole => Ok(reason),
        }
    }

    fn within_limits(
        &self,
        reason: Reason,
        draw: impl FnOnce() -> Draw,
        may_go: impl FnOnce(Duration) -> Result<(), Refused>,
    ) -> Decision {
        let Situation { policy, course, .. } = *self.situation;
        if course.attempts >= policy.max_attempts.get() {
            return self.stop(match self.situation.remaining.is_zero() {
                true => Reason::Deadline,
                false => Reason::AttemptsUsed,
            });
        }
        if self.signs.stale {
            // Nothing happened yet, so nothing is waited for or paid.
            return match self.share(Duration::ZERO) {
                Some(limit) => self.of(
                    Next::Retry {
                        wait: Duration::ZERO,
                        limit,
                        sends: Sends::Resend,
                    },
                    Reason::StaleConnection,
                ),
                None => self.stop(Reason::Deadline),
            };
        }
        let told = self.signs.retry_after.wait();
        let told = told.filter(|_| policy.obey_retry_after);
        if let Some(told) = told {
            if policy.max_wait.is_some_and(|most| told > most) {
                return self.later(told, Reason::MaxWait);
            }
            if self.share(told).is_none() {
                return self.later(told, Reason::RetryAfter);
            }
        }
        let own = policy.backoff.wait(course.attempts, course.waited, draw());
        let wait = own.max(told.unwrap_or_default());
        let Some(limit) = self.share(wait) else {
            return match self.did {
                Did::NotSent { .. } => self.later(wait, Reason::Deadline),
                Did::SaidNothing | Did::Maybe => self.stop(Reason::Deadline),
            };
        };
        match may_go(wait) {
            Ok(()) => {
                let sends = Sends::Again;
                self.of(Next::Retry { wait, limit, sends }, reason)
            }
            Err(Refused::Open(_)) => self.stop(Reason::CircuitOpen),
            Err(Refused::Budget) => self.stop(Reason::Budget),
        }
    }

    /// What an attempt would get after `wait`; `None` where it is not worth starting (T2).
    fn share(&self, wait: Duration) -> Option<Duration> {
        let Situation {
            remaining,
            attempt_limit,
            min_attempt,
            ..
        } = *self.situation;
        attempt_share(remaining.saturating_sub(wait), attempt_limit, min_attempt)
    }

    /// An answer that came and is not repeated. What it leaves unknown is not called finished,
    /// unless whoever asked may simply ask again.
    fn stands(&self, verdict: &Verdict, reason: Reason) -> Decision {
        let unknown = self.effect == Effect::Unknown && verdict.meaning == Meaning::Unknown;
        let reason = match reason {
            Reason::Answered if unknown => Reason::MaybeExecuted,
            other => other,
        };
        match unknown && self.situation.leaves_unknown() {
            true => self.of(Next::Unknown, reason),
            false => self.of(Next::Finish, reason),
        }
    }

    /// What an answer after an ambiguous attempt shows (R11).
    fn read(&self, answered: &Answered) -> Reason {
        let Situation {
            operation, course, ..
        } = self.situation;
        match answered.status.as_u16() {
            _ if !course.earlier.ambiguous => Reason::Answered,
            404 | 410 if *operation.method == http::Method::DELETE => Reason::RepeatedDelete,
            412 if operation.conditional => Reason::RepeatedCondition,
            _ => Reason::Answered,
        }
    }

    /// What could be repeated is not.
    fn stop(&self, reason: Reason) -> Decision {
        match self.effect == Effect::Unknown && self.situation.leaves_unknown() {
            true => self.of(Next::Unknown, reason),
            false => self.of(Next::GiveUp, reason),
        }
    }

    /// What does not fit the deadline is deferred where that is allowed.
    fn later(&self, not_before: Duration, reason: Reason) -> Decision {
        match self.situation.may_defer {
            true => self.of(Next::Defer { not_before }, reason),
            false => self.stop(reason),
        }
    }

    fn of(&self, next: Next, reason: Reason) -> Decision {
        Decision {
            next,
            effect: self.effect,
            reason,
        }
    }
}

fn reason(grounds: Grounds) -> Reason {
    match grounds {
        Grounds::NeverSent => Reason::NeverSent,
        Grounds::Safe => Reason::SafeMethod,
        Grounds::Idempotent => Reason::Idempotent,
        Grounds::KeyHonoured => Reason::KeyHonoured,
    }
}
