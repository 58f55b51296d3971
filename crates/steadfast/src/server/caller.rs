//! Between a work and its caller: who was first when a deadline ends, and what is told, once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use http::Response;
use steadfast_core::problem::Problem;
use steadfast_core::record::{OperationId, Record};
use tokio::sync::oneshot;

use super::answer::Tail;
use super::reply;
use crate::body::Body;

/// What a work tells its caller.
pub(super) enum Reply {
    /// This is the answer.
    Answer(Box<Response<Body>>),
    /// Another is at work: its row.
    InFlight(Box<Record>),
}

impl Reply {
    pub(super) fn problem(problem: &Problem) -> Reply {
        Reply::Answer(Box::new(reply::problem(problem)))
    }
}

/// Where the caller's leaving and the work's beginning meet: exactly one of them is first.
#[derive(Default)]
pub(super) struct Gate {
    state: AtomicU8,
    /// The operation; without a record there is none.
    id: OnceLock<Option<OperationId>>,
}

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const LEFT: u8 = 2;

/// What a caller leaves behind.
pub(super) enum Left {
    /// Nothing was sent, and nothing will be.
    Unbegun,
    /// The work goes on under its record.
    Running(OperationId),
    /// The request went out without a record.
    Unprotected,
}

impl Gate {
    /// The work is about to send; false when the caller's deadline came first.
    pub(super) fn begin(&self, id: Option<OperationId>) -> bool {
        let _ = self.id.set(id);
        self.turn(BEGUN)
    }

    /// The caller's deadline has passed.
    pub(super) fn leave(&self) -> Left {
        if self.turn(LEFT) {
            return Left::Unbegun;
        }
        match self.id.get().copied().flatten() {
            Some(id) => Left::Running(id),
            None => Left::Unprotected,
        }
    }

    fn turn(&self, to: u8) -> bool {
        let turned = self
            .state
            .compare_exchange(OPEN, to, Ordering::AcqRel, Ordering::Acquire);
        turned.is_ok() || turned == Err(to)
    }
}

impl Left {
    pub(super) fn problem(self) -> Problem {
        match self {
            Left::Unbegun => reply::too_late(),
            Left::Running(id) => reply::still_running(id),
            Left::Unprotected => reply::unprotected_unknown(),
        }
    }
}

/// The caller's end of the work; says one thing, once.
pub(super) enum Teller {
    /// It waits for its answer.
    Answer(oneshot::Sender<Reply>),
    /// It has the answer's head, and waits for the end of its body.
    Body(Tail),
    /// It has all that it gets.
    Told,
}

impl Teller {
    /// Gives the answer, where it is waited for.
    pub(super) fn tell(&mut self, reply: Reply) {
        match std::mem::replace(self, Teller::Told) {
            // A caller that left does not hear it; the record has it.
            Teller::Answer(sender) => drop(sender.send(reply)),
            other => *self = other,
        }
    }

    /// Ends a body that was passed on whole.
    pub(super) fn conclude(&mut self) {
        match std::mem::replace(self, Teller::Told) {
            Teller::Body(tail) => tail.whole(),
            other => *self = other,
        }
    }
}
