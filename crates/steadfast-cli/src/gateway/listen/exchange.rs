//! What the two ends of one connection tell each other around hyper: the gate below it, which
//! sees bytes, and the service above it, which sees requests.
//!
//! hyper hands heads to the service in the order in which the gate released them, one call a head;
//! so the ordinal of a message names it on both sides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::gateway::framing::Violation;

/// The state of one connection.
#[derive(Debug, Default)]
pub(super) struct Exchange(Mutex<Now>);

#[derive(Debug, Default)]
struct Now {
    /// Heads released to hyper.
    released: u64,
    /// Heads that hyper gave to the service.
    called: u64,
    /// Messages whose answer is over, or given up.
    finished: u64,
    /// The message that was refused, and why. There is none after it.
    refused: Option<(u64, Violation)>,
    /// A request's body is not read to its end.
    body_open: bool,
    /// The connection's task, where the gate waits for the end of an answer.
    waiting: Option<Waker>,
}

impl Exchange {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate released heads, this many in all.
    pub(super) fn released(&self, heads: u64) {
        self.now().released = heads;
    }

    /// The gate refused a head: the next message, and the last.
    pub(super) fn refuse_head(&self, violation: Violation) {
        let mut now = self.now();
        now.released += 1;
        now.refused = Some((now.released, violation));
    }

    /// The gate refused the body of the message that it released last.
    pub(super) fn refuse_body(&self, violation: Violation) {
        let mut now = self.now();
        now.refused = Some((now.released, violation));
    }

    /// Why a message was refused, if one was.
    pub(super) fn violation(&self) -> Option<Violation> {
        self.now().refused.map(|(_, violation)| violation)
    }

    /// Whether a message waits for its answer or for the end of it. If so, the task of `waker` is
    /// woken when none does any more: hyper itself does not read again for want of a request.
    pub(super) fn busy(&self, waker: &Waker) -> bool {
        let mut now = self.now();
        let busy = now.released > now.finished;
        now.waiting = busy.then(|| waker.clone());
        busy
    }

    /// hyper called for the next message.
    pub(super) fn begin(self: &Arc<Self>, has_body: bool) -> Turn {
        let mut now = self.now();
        now.called += 1;
        now.body_open = has_body;
        Turn {
            exchange: Arc::clone(self),
            number: now.called,
        }
    }

    /// The service read the body to its end.
    pub(super) fn body_read(&self) {
        self.now().body_open = false;
    }

    /// Whether the service left some of the body unread.
    pub(super) fn body_open(&self) -> bool {
        self.now().body_open
    }
}

/// One message, from hyper's call to the end of its answer.
#[derive(Debug)]
pub(super) struct Turn {
    exchange: Arc<Exchange>,
    number: u64,
}

impl Turn {
    /// Why this message was refused, if it was. Nothing behind a refused message is answered
    /// otherwise.
    pub(super) fn refusal(&self) -> Option<Violation> {
        let refused = self.exchange.now().refused;
        refused.and_then(|(number, violation)| (number <= self.number).then_some(violation))
    }

    pub(super) fn exchange(&self) -> &Exchange {
        &self.exchange
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut now = self.exchange.now();
        now.finished += 1;
        let idle = now.finished == now.released;
        let woken = now.waiting.take_if(|_| idle);
        drop(now);
        if let Some(waker) = woken {
            waker.wake();
        }
    }
}
