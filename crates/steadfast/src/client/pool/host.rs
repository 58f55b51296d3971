//! The connections of one target: who may hold one, and which are at rest.
//!
//! A permit stands for a connection in use. Connections at rest hold none, and are closed to make
//! room, so that no more than `max_per_host` are ever open to one target.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use steadfast_core::time::MonoTime;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::Link;
use super::{PoolSettings, PoolStatus, Reuse};
use crate::clock::{self, Elapsed};

pub(super) struct Host {
    settings: PoolSettings,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    at_rest: Mutex<AtRest>,
}

#[derive(Default)]
struct AtRest {
    /// The longest at rest first.
    links: VecDeque<Parked>,
    /// A task is there that closes what rests too long.
    reaped: bool,
}

struct Parked {
    link: Link,
    since: MonoTime,
}

/// The right to hold one connection of a host. Dropping it lets the next waiter in.
pub(super) struct Slot {
    host: Arc<Host>,
    _permit: OwnedSemaphorePermit,
}

impl Host {
    pub(super) fn new(settings: PoolSettings) -> Host {
        Host {
            settings,
            permits: Arc::new(Semaphore::new(most(&settings))),
            waiting: AtomicUsize::new(0),
            at_rest: Mutex::default(),
        }
    }

    /// A slot, if one is free now and nobody waits for it.
    pub(super) fn slot_now(self: &Arc<Self>) -> Option<Slot> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Slot {
            host: Arc::clone(self),
            _permit: permit,
        })
    }

    /// A slot within `limit`, first come, first served. Dropping the future leaves the queue.
    pub(super) async fn slot(self: &Arc<Self>, limit: Duration) -> Result<Slot, Elapsed> {
        if let Some(slot) = self.slot_now() {
            return Ok(slot);
        }
        let _waiting = Waiting::in_line(&self.waiting);
        let permit = clock::within(limit, Arc::clone(&self.permits).acquire_owned()).await?;
        Ok(Slot {
            host: Arc::clone(self),
            _permit: permit.expect("the semaphore is never closed"),
        })
    }

    pub(super) fn status(&self) -> PoolStatus {
        PoolStatus {
            idle: self.at_rest().links.len(),
            in_use: most(&self.settings) - self.permits.available_permits(),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    /// Nothing is open, and nobody but the pool knows this host.
    pub(super) fn is_forgotten(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && self.at_rest().links.is_empty()
    }

    fn at_rest(&self) -> MutexGuard<'_, AtRest> {
        self.at_rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes what has been at rest for too long; when the next will have been, if any is left.
    fn reap(&self, now: MonoTime) -> Option<MonoTime> {
        let mut at_rest = self.at_rest();
        let limit = self.settings.idle;
        while let Some(oldest) = at_rest.links.front() {
            if now.since(oldest.since) < limit {
                return Some(oldest.since.plus(limit));
            }
            at_rest.links.pop_front();
        }
        at_rest.reaped = false;
        None
    }
}

impl Slot {
    /// The connection that rested for the shortest time, if it may carry such a request, and since
    /// when it rested. Closes those that the peer has ended or spoken on.
    pub(super) fn take(&self, reuse: Reuse, now: MonoTime) -> Option<(Link, MonoTime)> {
        let settings = &self.host.settings;
        let limit = match reuse {
            Reuse::Safe => settings.idle,
            Reuse::Unsafe => settings.idle.min(settings.reuse_unsafe_within),
            Reuse::Fresh => return None,
        };
        let mut at_rest = self.host.at_rest();
        while let Some(newest) = at_rest.links.back() {
            if now.since(newest.since) >= limit {
                return None;
            }
            let Parked { link, since } = at_rest.links.pop_back()?;
            if link.is_quiet() {
                return Some((link, since));
            }
        }
        None
    }

    /// Closes the longest at rest, as far as room for one new connection needs it.
    pub(super) fn make_room(&self) {
        let most = most(&self.host.settings);
        let in_use = most - self.host.permits.available_permits();
        let mut at_rest = self.host.at_rest();
        while in_use + at_rest.links.len() > most && at_rest.links.pop_front().is_some() {}
    }

    /// Lays `link` to rest, where the next holder of a slot finds it.
    pub(super) fn lay_down(self, link: Link, since: MonoTime) {
        let mut at_rest = self.host.at_rest();
        let place = at_rest
            .links
            .partition_point(|parked| parked.since <= since);
        at_rest.links.insert(place, Parked { link, since });
        // Outside of a runtime nobody can close it on time; then whoever comes next does.
        if !at_rest.reaped
            && let Ok(runtime) = Handle::try_current()
        {
            at_rest.reaped = true;
            let first = since.plus(self.host.settings.idle);
            runtime.spawn(reap_on_time(Arc::downgrade(&self.host), first));
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

/// Closes idle connections on time; ends when none is left, or the pool is gone.
async fn reap_on_time(host: Weak<Host>, mut next: MonoTime) {
    loop {
        clock::sleep(next.since(clock::mono_now())).await;
        match host.upgrade().and_then(|host| host.reap(clock::mono_now())) {
            Some(later) => next = later,
            None => return,
        }
    }
}

fn most(settings: &PoolSettings) -> usize {
    usize::try_from(settings.max_per_host.get()).map_or(Semaphore::MAX_PERMITS, |most| {
        most.min(Semaphore::MAX_PERMITS)
    })
}

/// One in line, as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn in_line(count: &AtomicUsize) -> Waiting<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
