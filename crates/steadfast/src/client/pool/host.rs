//! The connections of one target: who may hold one, and which are at rest.
//!
//! A permit stands for a connection in use, or for a stream of one that is shared. Connections at
//! rest hold none, and are closed to make room, so that no more than `max_per_host` are ever open
//! to one target.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use steadfast_core::time::MonoTime;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::Link;
use super::gate::Gate;
use super::send::Held;
use super::shared::{Leave, Shared};
use super::{PoolSettings, PoolStatus, Reuse};
use crate::clock::{self, Elapsed};

pub(super) struct Host {
    settings: PoolSettings,
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    at_rest: Mutex<AtRest>,
    gate: Gate,
}

#[derive(Default)]
struct AtRest {
    /// The longest at rest first.
    links: VecDeque<Parked>,
    /// Those that many share, at rest or not; the first opened first.
    shared: Vec<Arc<Shared>>,
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
            gate: Gate::default(),
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
            idle: self.at_rest().count(),
            in_use: most(&self.settings) - self.permits.available_permits(),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    /// Nothing is open, and nobody but the pool knows this host.
    pub(super) fn is_forgotten(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && self.at_rest().count() == 0
    }

    fn at_rest(&self) -> MutexGuard<'_, AtRest> {
        self.at_rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes what has been at rest for too long; when the next will have been, if any is left.
    fn reap(&self, now: MonoTime) -> Option<MonoTime> {
        let mut at_rest = self.at_rest();
        let limit = self.settings.idle;
        let rested = |since: MonoTime| now.since(since) >= limit;
        let is_done = |one: &Shared| one.is_over() || one.rests() && rested(one.rested_since());
        at_rest.shared.retain(|one| !is_done(one));
        while at_rest.links.front().is_some_and(|one| rested(one.since)) {
            at_rest.links.pop_front();
        }
        let oldest = at_rest.links.front().map(|parked| parked.since);
        let resting = at_rest.shared.iter().filter(|one| one.rests());
        let next = resting.map(|one| one.rested_since()).chain(oldest).min();
        at_rest.reaped = next.is_some();
        next.map(|since| since.plus(limit))
    }

    /// Sees to it that what rests since `since` is closed on time.
    fn watch(self: &Arc<Self>, at_rest: &mut AtRest, since: MonoTime) {
        // Outside of a runtime nobody can close it on time; then whoever comes next does.
        if !at_rest.reaped
            && let Ok(runtime) = Handle::try_current()
        {
            at_rest.reaped = true;
            let first = since.plus(self.settings.idle);
            runtime.spawn(reap_on_time(Arc::downgrade(self), first));
        }
    }
}

impl AtRest {
    fn count(&self) -> usize {
        let shared = self
            .shared
            .iter()
            .filter(|one| one.rests() && !one.is_over());
        self.links.len() + shared.count()
    }

    /// Closes the longest at rest; whether there was one.
    fn close_one(&mut self) -> bool {
        if self.links.pop_front().is_some() {
            return true;
        }
        let at = self.shared.iter().position(|one| one.rests());
        at.map(|at| self.shared.remove(at)).is_some()
    }
}

impl Slot {
    /// A connection that is there and may carry such a request; else the slot again.
    pub(super) fn take(self, reuse: Reuse, now: MonoTime) -> Result<Held, Slot> {
        let settings = &self.host.settings;
        let limit = match reuse {
            Reuse::Safe => settings.idle,
            Reuse::Unsafe => settings.idle.min(settings.reuse_unsafe_within),
            // One that others are using just now has not been closed by its peer.
            Reuse::Fresh => Duration::ZERO,
        };
        let slot = match self.share(limit, now) {
            Ok(leave) => return Ok(Held::Shared(leave)),
            Err(slot) => slot,
        };
        match slot.take_alone(limit, now) {
            Some((link, rested_since)) => Ok(Held::Alone {
                link,
                slot,
                rested_since,
                is_reused: true,
            }),
            None => Err(slot),
        }
    }

    /// Room on a connection that many share. One at rest has to have rested for less than `limit`;
    /// one with open streams is not about to be closed for being idle.
    fn share(self, limit: Duration, now: MonoTime) -> Result<Leave, Slot> {
        let shared = {
            let mut at_rest = self.host.at_rest();
            at_rest.shared.retain(|one| !one.is_over());
            // Of none, which is all that plain targets have, a copy costs nothing.
            at_rest.shared.clone()
        };
        let mut slot = self;
        for one in shared {
            if one.rests() && now.since(one.rested_since()) >= limit {
                continue;
            }
            match Leave::on(&one, slot) {
                Ok(leave) => return Ok(leave),
                Err(back) => slot = back,
            }
        }
        Err(slot)
    }

    /// The connection that rested for the shortest time, if for less than `limit`, and since when
    /// it rested. Closes those that the peer has ended or spoken on.
    fn take_alone(&self, limit: Duration, now: MonoTime) -> Option<(Link, MonoTime)> {
        let mut at_rest = self.host.at_rest();
        while let Some(newest) = at_rest.links.back() {
            if now.since(newest.since) >= limit {
                return None;
            }
            let Parked { mut link, since } = at_rest.links.pop_back()?;
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
        while in_use + at_rest.count() > most && at_rest.close_one() {}
    }

    /// Lays `link` to rest, where the next holder of a slot finds it.
    pub(super) fn lay_down(self, link: Link, since: MonoTime) {
        let mut at_rest = self.host.at_rest();
        let place = at_rest
            .links
            .partition_point(|parked| parked.since <= since);
        at_rest.links.insert(place, Parked { link, since });
        self.host.watch(&mut at_rest, since);
    }

    /// A connection that many share has come to rest.
    pub(super) fn watch_rest(&self, since: MonoTime) {
        self.host.watch(&mut self.host.at_rest(), since);
    }

    /// Lets others share `connection`.
    pub(super) fn add(&self, connection: &Arc<Shared>) {
        self.host.at_rest().shared.push(Arc::clone(connection));
    }

    /// The order in which connections are opened.
    pub(super) fn gate(&self) -> &Gate {
        &self.host.gate
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
