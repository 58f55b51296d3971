//! Between a work and its caller: who was first when a deadline ends, and what is told, once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use http::Response;
use steadfast_core::policy::Meaning;
use steadfast_core::problem::Problem;
use steadfast_core::record::{OperationId, Record, Standing, State};
use tokio::sync::oneshot;

use super::answer::Tail;
use super::reply;
use crate::body::Body;
use crate::event::{KeyedOutcome, RequestOutcome};

/// What a work tells its caller.
pub(super) enum Reply {
    /// This is the answer.
    Answer(Box<Given>),
    /// Another is at work: its row.
    InFlight(Box<Record>),
}

impl Reply {
    pub(super) fn problem(problem: &Problem) -> Reply {
        Reply::Answer(Box::new(Given::problem(problem)))
    }
}

/// An answer on its way to its caller, with what it is made of.
pub(super) struct Given {
    pub(super) response: Response<Body>,
    pub(super) outcome: KeyedOutcome,
    pub(super) request: RequestOutcome,
    pub(super) operation: Option<OperationId>,
    /// It is what this request's own attempt came to.
    pub(super) own_attempt: bool,
}

impl Given {
    fn new(
        response: Response<Body>,
        outcome: KeyedOutcome,
        operation: Option<OperationId>,
    ) -> Given {
        let request = RequestOutcome::of_keyed(outcome, response.status());
        Given {
            response,
            outcome,
            request,
            operation,
            own_attempt: false,
        }
    }

    /// A problem in the place of an answer.
    pub(super) fn problem(problem: &Problem) -> Given {
        let outcome = KeyedOutcome::of_problem(problem.slug);
        let given = Given::new(reply::problem(problem), outcome, problem.operation_id);
        let request = RequestOutcome::of_problem(problem.slug, problem.effect);
        Given { request, ..given }
    }

    /// What its own attempt came to.
    pub(super) fn own(self) -> Given {
        Given {
            own_attempt: true,
            ..self
        }
    }

    /// The answer of its own attempt, which means this for its record.
    pub(super) fn answer(
        response: Response<Body>,
        meaning: Meaning,
        operation: Option<OperationId>,
    ) -> Given {
        let outcome = KeyedOutcome::of_attempt(meaning);
        Given::new(response, outcome, operation).own()
    }

    /// 202, with the address of the operation at work or in the queue.
    pub(super) fn accepted(row: &Record) -> Given {
        let outcome = match row.standing.state {
            State::Deferred => KeyedOutcome::Deferred,
            _ => KeyedOutcome::Conflict,
        };
        Given::new(reply::accepted(row), outcome, Some(row.id))
    }

    /// What stands at rest. `waited` for it, or met so.
    pub(super) fn settled(
        id: OperationId,
        standing: &Standing,
        repeats: bool,
        waited: bool,
    ) -> Given {
        let outcome = KeyedOutcome::of_standing(standing, waited);
        Given::new(reply::settled(id, standing, repeats), outcome, Some(id))
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
const QUEUED: u8 = 3;

/// What a caller leaves behind.
pub(super) enum Left {
    /// Nothing was sent, and nothing will be.
    Unbegun,
    /// The work goes on under its record.
    Running(OperationId),
    /// The request went out without a record.
    Unprotected,
    /// It is on its way into the queue.
    Queued,
}

impl Gate {
    /// The work is about to send; false when the caller's deadline came first.
    pub(super) fn begin(&self, id: Option<OperationId>) -> bool {
        let _ = self.id.set(id);
        self.turn(BEGUN)
    }

    /// The request is about to go into the queue; false when the caller's deadline came first.
    pub(super) fn queue(&self) -> bool {
        self.turn(QUEUED)
    }

    /// The caller's deadline has passed.
    pub(super) fn leave(&self) -> Left {
        if self.turn(LEFT) {
            return Left::Unbegun;
        }
        if self.state.load(Ordering::Acquire) == QUEUED {
            return Left::Queued;
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
            Left::Queued => reply::queue_in_doubt(),
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
