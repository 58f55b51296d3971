//! How an operation ended, for whoever asked for it.
//!
//! Done, failed, unknown and deferred are the only results (requirements U1, U3): what may have
//! been executed is never told as a failure, and what is only to be sent later is none. Each says
//! what the server may have done, why nothing more was tried, and what to do next.

use std::fmt;
use std::time::Duration;

use http::Response;
use steadfast_core::attempt::AttemptEnd;
use steadfast_core::effect::Effect;
use steadfast_core::key::Key;
use steadfast_core::retry::{Decision, Next, Reason};

use super::story::Story;

/// The end of an operation. There are no others.
#[derive(Debug)]
pub enum Ended<B> {
    /// An answer came and stands, whatever its status.
    Done {
        /// The answer.
        answer: Response<B>,
        /// How it came to that.
        account: Box<Account>,
    },
    /// Nothing was executed, and it does not fit its deadline: the service asked for a longer wait,
    /// or was not reached in time. It is to be sent later under the same key, by a queue
    /// ([`crate::server::hand_over`]) or by whoever called. Only of keyed operations whose policy
    /// defers ([`RoutePolicy::defer`](steadfast_core::policy::RoutePolicy::defer)).
    Deferred {
        /// The last answer, where there was one.
        answer: Option<Response<B>>,
        /// Not before this time from now.
        not_before: Duration,
        /// How it came to that.
        account: Box<Account>,
    },
    /// No answer that stands, and nothing that has to be looked up: nothing was executed, or the
    /// same can simply be asked again.
    Failed {
        /// The last answer, where there was one.
        answer: Option<Response<B>>,
        /// How it came to that.
        account: Box<Account>,
    },
    /// It may have been executed. Look it up, or send it again under the same key where the
    /// endpoint honours keys; without either, sending it again may execute it twice.
    Unknown {
        /// The last answer, where there was one.
        answer: Option<Response<B>>,
        /// How it came to that.
        account: Box<Account>,
    },
}

/// What is known of an operation that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// What the operation may have done.
    pub effect: Effect,
    /// Why nothing more was tried.
    pub reason: Reason,
    /// Its key, which is the same for a later repeat.
    pub key: Option<Key>,
    /// Its attempts.
    pub story: Story,
    /// What was seen last, for people.
    pub detail: Option<String>,
    /// Where it was not sent again because the service, or our breaker, asked for a pause: how long
    /// that is.
    pub retry_after: Option<Duration>,
}

impl<B> Ended<B> {
    pub(super) fn new(decision: Decision, answer: Option<Response<B>>, account: Account) -> Self {
        let account = Box::new(account);
        match (decision.next, answer) {
            (Next::Finish, Some(answer)) => Ended::Done { answer, account },
            (Next::Unknown, answer) => Ended::Unknown { answer, account },
            (Next::Defer { .. }, answer) if account.effect == Effect::Unknown => {
                Ended::Unknown { answer, account }
            }
            (Next::Defer { not_before }, answer) => Ended::Deferred {
                answer,
                not_before,
                account,
            },
            // Nothing is retried any more where an end is told.
            (_, answer) => Ended::Failed { answer, account },
        }
    }

    /// How it came to that.
    pub fn account(&self) -> &Account {
        match self {
            Ended::Done { account, .. }
            | Ended::Deferred { account, .. }
            | Ended::Failed { account, .. }
            | Ended::Unknown { account, .. } => account,
        }
    }

    /// The last answer, where there was one, and how it came to that.
    pub fn into_parts(self) -> (Option<Response<B>>, Box<Account>) {
        match self {
            Ended::Done { answer, account } => (Some(answer), account),
            Ended::Deferred {
                answer, account, ..
            }
            | Ended::Failed { answer, account }
            | Ended::Unknown { answer, account } => (answer, account),
        }
    }

    /// The last answer, as a plain client would give it, with its [`Account`] as an extension.
    /// Whether it stands is not said by its being there.
    ///
    /// # Errors
    /// [`NoAnswer`] where there was none.
    pub fn into_answer(self) -> Result<Response<B>, NoAnswer> {
        let unknown = matches!(self, Ended::Unknown { .. });
        let deferred = matches!(self, Ended::Deferred { .. });
        let (answer, account) = self.into_parts();
        match answer {
            Some(mut answer) => {
                answer.extensions_mut().insert(*account);
                Ok(answer)
            }
            None if unknown => Err(NoAnswer::Unknown(account)),
            None if deferred => Err(NoAnswer::Deferred(account)),
            None => Err(NoAnswer::Failed(account)),
        }
    }
}

/// There is no answer. That it is unknown what was done is told apart (U1).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// It is to be sent later.
    Deferred(Box<Account>),
    /// Nothing that has to be looked up.
    Failed(Box<Account>),
    /// It may have been executed.
    Unknown(Box<Account>),
}

impl NoAnswer {
    /// How it came to that.
    pub fn account(&self) -> &Account {
        match self {
            NoAnswer::Deferred(account)
            | NoAnswer::Failed(account)
            | NoAnswer::Unknown(account) => account,
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.account().fmt(f)
    }
}

impl std::error::Error for NoAnswer {}

impl Account {
    /// What to do next, as a sentence.
    pub fn next_step(&self) -> &'static str {
        let keyed = self.key.is_some();
        match (self.effect, self.reason) {
            (Effect::Unknown, Reason::RepeatedCondition) => "Read the state before anything else.",
            (Effect::Unknown, _) if keyed => {
                "Look up whether it happened, or send it again under the same key, where the \
                 endpoint honours keys; never under a new one."
            }
            (Effect::Unknown, _) => {
                "Look up whether it happened before it is sent again; with an Idempotency-Key that \
                 the endpoint honours it could have been sent again safely."
            }
            (Effect::Applied, _) => "It was done; do not send it again.",
            (Effect::None, Reason::CallerLeft) => "Mend the request and send it again.",
            (Effect::None, Reason::IdentityRefused) => {
                "Check the certificate, the name in the URL and the trusted roots."
            }
            (Effect::None, Reason::CircuitOpen | Reason::Budget | Reason::RetryAfter) => {
                "Send it again later."
            }
            (Effect::None, Reason::MaxWait) => {
                "Send it again when the service's wait is over, or accept longer waits \
                 (retry.max_wait)."
            }
            (Effect::None, Reason::Deadline) => "Send it again with more time.",
            (Effect::None, _) => "It is safe to send it again.",
        }
    }
}

impl fmt::Display for Account {
    /// The phase and what was seen, what may have been done, the reason, the next step. Never a
    /// key, a body or a URL (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.story.last(), &self.detail) {
            (None, Some(detail)) => write!(f, "Nothing was sent: {detail}. ")?,
            (None, None) => write!(f, "Nothing was sent. ")?,
            (Some(told), detail) => {
                let number = told.number;
                match told.end {
                    AttemptEnd::Answered(answered) => {
                        let status = answered.status.as_u16();
                        write!(f, "Attempt {number} was answered with {status}")?;
                    }
                    AttemptEnd::Failed(failure) => {
                        write!(f, "Attempt {number} failed ({})", failure.slug())?;
                    }
                }
                match detail {
                    Some(detail) => write!(f, ": {detail}. ")?,
                    None => f.write_str(". ")?,
                }
            }
        }
        f.write_str(match self.effect {
            Effect::None => "Nothing was changed. ",
            Effect::Unknown => "It may have been executed. ",
            Effect::Applied => "It was executed. ",
        })?;
        let why = match self.reason {
            Reason::CallerLeft => "The request itself is at fault, not the service.",
            other => other.why(),
        };
        if self.reason == Reason::CircuitOpen {
            f.write_str("We stopped here, not the service. ")?;
        }
        write!(f, "{why} {}", self.next_step())
    }
}
