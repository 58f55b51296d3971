//! One operation's attempts: which one is due, within which limits, and what its end means.
//!
//! The loop itself is its driver's (client layer, gateway, keyed work), since each has its own way
//! to send. What they share is here, so that they cannot disagree: the course so far, the share of
//! the deadline, the leave of the upstream, and the question to [`steadfast_core::retry`].

mod upstream;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use steadfast_core::attempt::AttemptEnd;
use steadfast_core::breaker::Shut;
use steadfast_core::deadline::{Deadline, attempt_share};
use steadfast_core::effect::Earlier;
use steadfast_core::policy::{RoutePolicy, Statuses};
use steadfast_core::repeat::{BodyKind, KeyUse, Operation};
use steadfast_core::retry::{self, Course, Decision, Next, RetryPolicy, Signs, Situation};
use steadfast_core::retry_after::Advice;
use steadfast_core::timeouts::Timeouts;
use steadfast_core::upstream::{Refused, Sends};

pub use upstream::{Leave, SharedUpstream};

use crate::clock;

/// The rules of an endpoint's attempts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What is repeated, how often and after which waits.
    pub retry: Arc<RetryPolicy>,
    /// Which statuses are final, released, unknown, where they differ from the table.
    pub statuses: Arc<Statuses>,
    /// The limits of one attempt.
    pub timeouts: Timeouts,
    /// What does not fit the deadline may be deferred.
    pub may_defer: bool,
}

impl Rules {
    /// The rules of a route's attempts.
    pub fn of(policy: &RoutePolicy) -> Rules {
        Rules {
            retry: Arc::clone(&policy.retry),
            statuses: Arc::clone(&policy.idempotency.statuses),
            timeouts: policy.timeouts,
            may_defer: false,
        }
    }
}

/// What is known of an operation before its first attempt, owned.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The method.
    pub method: Method,
    /// Its key.
    pub key: KeyUse,
    /// Its body.
    pub body: BodyKind,
    /// It carries a condition on the state that it changes.
    pub conditional: bool,
}

/// An operation's attempts.
#[derive(Clone, Debug)]
pub struct Attempts {
    rules: Arc<Rules>,
    asked: Asked,
    deadline: Deadline,
    upstream: SharedUpstream,
    course: Course,
    /// As it was when the last decision was made.
    decided: Course,
    sends: Sends,
    passed_on: bool,
}

impl Attempts {
    /// The first attempt is due. All of them end by `deadline`.
    pub fn new(
        rules: impl Into<Arc<Rules>>,
        asked: Asked,
        deadline: Deadline,
        upstream: SharedUpstream,
    ) -> Attempts {
        Attempts {
            rules: rules.into(),
            asked,
            deadline,
            upstream,
            course: Course::FIRST,
            decided: Course::FIRST,
            sends: Sends::First,
            passed_on: false,
        }
    }

    /// Attempts before these left `earlier` behind.
    #[must_use]
    pub fn after(mut self, earlier: Earlier) -> Attempts {
        self.course.earlier = earlier;
        self.decided = self.course;
        self
    }

    /// A layer before this one repeats already: only what was never sent goes again here (R8).
    #[must_use]
    pub fn only_unsent(mut self) -> Attempts {
        self.course.only_unsent = true;
        self.decided = self.course;
        self
    }

    /// The number of the attempt that is due, or was the last one: from 1 on.
    pub fn number(&self) -> u32 {
        self.course.attempts
    }

    /// An attempt before this one may have been executed.
    pub fn ambiguous(&self) -> bool {
        self.course.earlier.ambiguous
    }

    /// By when the whole operation ends.
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// The limit of the attempt that is due: its own, or what remains. `None` where it is not worth
    /// starting (T2).
    pub fn share(&self) -> Option<Duration> {
        let limits = self.rules.timeouts;
        let left = self.deadline.remaining(clock::mono_now());
        attempt_share(left, limits.attempt, limits.min_attempt)
    }

    /// The leave to begin the attempt that is due: the breaker's. The budget's is asked of it when
    /// a connection is in hand.
    ///
    /// # Errors
    /// [`Shut`], with the time to come back after.
    pub fn admit(&self) -> Result<Leave, Shut> {
        // What a permit of a probe is good for: the attempt, and its answer's body.
        let lease = self.deadline.remaining(clock::mono_now());
        self.upstream.admit(self.sends, lease)
    }

    /// All attempts end by `deadline` from now on.
    pub fn until(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }

    /// The body is read while it is sent from now on, so it cannot be sent again.
    pub fn body_streams(&mut self) {
        self.asked.body = BodyKind::Streamed;
    }

    /// A byte of an answer was passed on to the caller.
    pub fn passed_on(&mut self) {
        self.passed_on = true;
    }

    /// What the attempt's end means. Takes nothing and notes nothing.
    pub fn decide(&self, end: &AttemptEnd, signs: &Signs) -> Decision {
        let may_go = |wait| self.upstream.may_retry(wait);
        self.ask((self.course, self.left()), end, signs, may_go)
    }

    /// What `end`, after which another attempt was decided, means now that the upstream's breaker
    /// or budget has refused that attempt.
    pub fn refused(&self, end: &AttemptEnd, signs: &Signs, by: Refused) -> Decision {
        // The attempt that was refused is not part of the course.
        self.ask((self.decided, self.left()), end, signs, |_| Err(by))
    }

    /// What `end`, after which another attempt was decided, means now that no time is left for it.
    pub fn too_late(&self, end: &AttemptEnd, signs: &Signs) -> Decision {
        let signs = Signs {
            // It was waited for.
            retry_after: Advice::Absent,
            ..*signs
        };
        self.ask((self.decided, Duration::ZERO), end, &signs, |_| Ok(()))
    }

    /// Waits as `decision` says, if it says so; another attempt is due then. Dropping the future
    /// leaves nothing behind.
    ///
    /// Returns false where no other attempt follows.
    pub async fn wait(&mut self, decision: &Decision) -> bool {
        let Next::Retry { wait, sends, .. } = decision.next else {
            return false;
        };
        if !wait.is_zero() {
            clock::sleep(wait).await;
        }
        self.decided = self.course;
        self.course = self.course.again(decision, wait);
        self.sends = sends;
        true
    }

    fn left(&self) -> Duration {
        self.deadline.remaining(clock::mono_now())
    }

    fn ask(
        &self,
        (course, remaining): (Course, Duration),
        end: &AttemptEnd,
        signs: &Signs,
        may_go: impl FnOnce(Duration) -> Result<(), Refused>,
    ) -> Decision {
        let situation = Situation {
            operation: Operation {
                method: &self.asked.method,
                key: self.asked.key,
                body: self.asked.body,
                conditional: self.asked.conditional,
            },
            policy: &self.rules.retry,
            statuses: &self.rules.statuses,
            course,
            remaining,
            attempt_limit: self.rules.timeouts.attempt,
            min_attempt: self.rules.timeouts.min_attempt,
            passed_on: self.passed_on,
            may_defer: self.rules.may_defer,
        };
        retry::on_end(&situation, end, signs, clock::draw, may_go)
    }
}
