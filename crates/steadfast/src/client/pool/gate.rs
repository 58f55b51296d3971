//! Who opens a connection that many may share.
//!
//! Decides that one request at a time opens a connection to a target that may speak HTTP/2, so that
//! a hundred requests at once end up on one connection instead of opening a hundred. Those who
//! waited look for room first; where the opening failed, it failed for them, too, so that they do
//! not wait for the same refusal one after the other. A peer that is known to take one request at a
//! time keeps nobody waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use super::NeverSent;
use crate::client::{Scheme, Target};
use crate::clock::{self, Elapsed};

/// The order in which connections to one target are opened.
#[derive(Default)]
pub(super) struct Gate {
    queue: Arc<Queue<()>>,
    /// The peer was last seen to take one request at a time.
    one_at_a_time: AtomicBool,
    /// The peer has said that it wants HTTP/1.1 (RFC 9113, 7).
    wants_http1: AtomicBool,
    failed: Mutex<Failed>,
}

#[derive(Default)]
struct Failed {
    count: u64,
    last: Option<NeverSent>,
}

/// The right to open a connection. Nobody else opens one meanwhile.
pub(super) struct Turn {
    _held: Option<OwnedMutexGuard<()>>,
    /// Somebody else had it before, so there may be room now.
    pub(super) has_waited: bool,
}

impl Gate {
    /// A turn, before `ends`.
    ///
    /// # Errors
    /// How the opening ended for which this waited, where it failed; else [`Failure::Connect`].
    pub(super) async fn turn(&self, target: &Target, ends: Deadline) -> Result<Turn, NeverSent> {
        let is_free = target.scheme() == Scheme::Http || self.one_at_a_time.load(Ordering::Relaxed);
        let held = match is_free {
            true => None,
            false => Some(Arc::clone(&self.queue).try_lock_owned()),
        };
        let held = match held {
            None => None,
            Some(Ok(held)) => Some(held),
            Some(Err(_)) => return self.wait(target, ends).await,
        };
        Ok(Turn {
            _held: held,
            has_waited: false,
        })
    }

    async fn wait(&self, target: &Target, ends: Deadline) -> Result<Turn, NeverSent> {
        let failures = self.failed().count;
        let left = ends.remaining(clock::mono_now());
        match clock::within(left, Arc::clone(&self.queue).lock_owned()).await {
            Ok(held) => {
                let failed = self.failed();
                match &failed.last {
                    Some(last) if failed.count != failures => Err(last.clone()),
                    _ => Ok(Turn {
                        _held: Some(held),
                        has_waited: true,
                    }),
                }
            }
            Err(Elapsed) => Err(NeverSent {
                failure: Failure::Connect,
                detail: format!(
                    "{target}: another request was still opening the connection when the \
                     attempt's limit or the deadline ended; check that the service runs"
                ),
            }),
        }
    }

    /// The peer takes one request at a time, or many.
    pub(super) fn learnt(&self, one_at_a_time: bool) {
        self.one_at_a_time.store(one_at_a_time, Ordering::Relaxed);
    }

    /// The peer wants HTTP/1.1: no new connection offers it more.
    pub(super) fn stay_with_http1(&self) {
        self.wants_http1.store(true, Ordering::Relaxed);
    }

    /// New connections may offer HTTP/2.
    pub(super) fn may_offer_http2(&self) -> bool {
        !self.wants_http1.load(Ordering::Relaxed)
    }

    /// The opening failed before `ends`. One that was cut by its own end tells others nothing.
    pub(super) fn failed_with(&self, never_sent: &NeverSent, ends: Deadline) {
        if !ends.is_spent(clock::mono_now()) {
            let mut failed = self.failed();
            failed.count += 1;
            failed.last = Some(never_sent.clone());
        }
    }

    fn failed(&self) -> MutexGuard<'_, Failed> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
