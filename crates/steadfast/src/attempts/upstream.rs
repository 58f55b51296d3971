//! One upstream's breaker and budget, shared by all who call it in this process.
//!
//! Holds [`steadfast_core::upstream::Upstream`] behind a lock, and the leave for one attempt in a
//! guard, so that an attempt which is dropped gives its probe's permit and its charge back.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast_core::attempt::AttemptEnd;
use steadfast_core::breaker::{BreakerPolicy, Phase, Shut};
use steadfast_core::budget::BudgetPolicy;
use steadfast_core::upstream::{Outcome, Refused, Sends, Ticket, Upstream};

use crate::clock;

/// An upstream as its callers know it. Clones share it.
#[derive(Clone)]
pub struct SharedUpstream(Arc<Mutex<Upstream>>);

impl SharedUpstream {
    /// An upstream of which nothing is known.
    pub fn new(budget: BudgetPolicy, breaker: BreakerPolicy) -> SharedUpstream {
        SharedUpstream(Arc::new(Mutex::new(Upstream::new(budget, breaker))))
    }

    /// Whether new work may go out now. Takes nothing.
    ///
    /// # Errors
    /// [`Shut`], with the time to come back after.
    pub fn may_begin(&self) -> Result<(), Shut> {
        self.state().may_begin(clock::mono_now())
    }

    /// Whether a retry that waits `wait` first could go out. Takes nothing.
    ///
    /// # Errors
    /// [`Refused`], by the breaker or the budget.
    pub fn may_retry(&self, wait: Duration) -> Result<(), Refused> {
        self.state().may_retry(clock::mono_now(), wait)
    }

    /// The leave to begin an attempt that ends within `lease`.
    ///
    /// # Errors
    /// [`Shut`], with the time to come back after.
    pub fn admit(&self, sends: Sends, lease: Duration) -> Result<Leave, Shut> {
        let ticket = self.state().admit(sends, clock::mono_now(), lease)?;
        Ok(Leave {
            upstream: self.clone(),
            ticket: Some(ticket),
        })
    }

    /// What is left of the retry budget, from 0 to 1.
    pub fn budget_balance(&self) -> f64 {
        self.state().budget_balance(clock::mono_now())
    }

    /// What the breaker lets through.
    pub fn phase(&self) -> Phase {
        self.state().phase(clock::mono_now())
    }

    /// Tells this upstream from others for as long as it is known.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Somebody else knows it, too.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Held for a moment only; nothing is awaited under it.
    fn state(&self) -> MutexGuard<'_, Upstream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedUpstream")
            .field("phase", &self.phase())
            .field("budget_balance", &self.budget_balance())
            .finish()
    }
}

/// The leave for one attempt. Dropped, the attempt says nothing of the upstream: its caller left,
/// or it did not go out.
#[derive(Debug)]
#[must_use = "dropping it says that nothing was sent"]
pub struct Leave {
    upstream: SharedUpstream,
    ticket: Option<Ticket>,
}

impl Leave {
    /// Pays for the attempt, which is sent now. Asked with a connection in hand.
    ///
    /// # Errors
    /// [`Refused::Budget`]; nothing was taken, and nothing may be sent.
    pub fn pay(&mut self) -> Result<(), Refused> {
        let now = clock::mono_now();
        match &mut self.ticket {
            Some(ticket) => self.upstream.state().pay(ticket, now),
            None => Ok(()),
        }
    }

    /// The attempt ended so. `stale` says that it met a connection that had been used before and
    /// was closed before anything was written on it.
    pub fn ended(mut self, end: &AttemptEnd, stale: bool) {
        let outcome = match stale {
            true => Outcome::Stale,
            false => Outcome::End(end),
        };
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Outcome<'_>) {
        if let Some(ticket) = self.ticket.take() {
            let now = clock::mono_now();
            self.upstream.state().ended(ticket, outcome, now);
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.tell(Outcome::Nothing);
    }
}
