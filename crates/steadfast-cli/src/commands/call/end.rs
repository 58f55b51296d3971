//! What came of a call, and its exit code (docs/reference.md, "call").

use http::StatusCode;
use steadfast_core::attempt::AttemptEnd;
use steadfast_core::effect::Effect;
use steadfast_core::retry::{Decision, Next, Reason};

use super::answer::Answer;
use super::ask::Asking;
use super::send::Attempted;
use crate::run::Exit;

/// The end of a call.
pub struct Ended {
    pub decision: Decision,
    /// The last attempt's answer, or what came of it.
    pub answer: Option<Answer>,
    /// The answer came whole.
    pub whole: bool,
    /// Seen of the last failure.
    pub detail: Option<String>,
    pub interrupted: bool,
}

impl Ended {
    /// The end by `decision`, with what the last attempt brought.
    pub fn of(decision: Decision, attempted: Attempted) -> Ended {
        Ended {
            decision,
            whole: matches!(attempted.end, AttemptEnd::Answered(_)),
            answer: attempted.answer,
            detail: attempted.detail,
            interrupted: false,
        }
    }

    /// Stopped by the one who called; `sent` says that bytes of a request may have gone out.
    pub fn interrupted(sent: bool, asking: &Asking) -> Ended {
        let unknown = sent && !asking.method.is_safe();
        let (next, effect) = match unknown {
            true => (Next::Unknown, Effect::Unknown),
            false => (Next::GiveUp, Effect::None),
        };
        Ended {
            decision: Decision {
                next,
                effect,
                reason: Reason::CallerLeft,
            },
            answer: None,
            whole: false,
            detail: None,
            interrupted: true,
        }
    }

    /// The status of the answer that stands, where one came whole.
    pub fn status(&self) -> Option<StatusCode> {
        self.answer
            .as_ref()
            .filter(|_| self.whole)
            .map(|answer| answer.status)
    }

    /// The exit code: the first that fits of unknown, refused by ourselves, nothing executed; then
    /// by the last status.
    pub fn exit(&self) -> Exit {
        let Decision {
            next,
            effect,
            reason,
        } = self.decision;
        let gave_up = next == Next::GiveUp;
        if next == Next::Unknown
            || (gave_up && effect == Effect::Unknown && self.status().is_none())
        {
            return Exit::Unknown;
        }
        if gave_up && matches!(reason, Reason::Budget | Reason::CircuitOpen) {
            return Exit::RefusedByUs;
        }
        match self.status().map(|status| status.as_u16()) {
            None => Exit::NothingExecuted,
            // What was to be deleted is gone (R11).
            Some(_) if reason == Reason::RepeatedDelete => Exit::Done,
            Some(400..=499) => Exit::ClientError,
            Some(500..) => Exit::ServerError,
            Some(_) => Exit::Done,
        }
    }

    /// The word for what came of it, in JSON.
    pub fn outcome(&self) -> &'static str {
        match self.exit() {
            Exit::Done => "done",
            Exit::Unknown => "unknown",
            Exit::RefusedByUs => "refused",
            Exit::NothingExecuted => "nothing-executed",
            Exit::ClientError => "client-error",
            Exit::ServerError => "server-error",
            Exit::Deferred => "deferred",
            Exit::Failed | Exit::Usage | Exit::Configuration => "failed",
        }
    }
}
