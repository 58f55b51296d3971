//! Connections to upstreams, and the evidence of what was sent on them.
//!
//! Two calls with a place for a decision between them: [`Pool::acquire`] (or [`Pool::idle`]) gives
//! a connection on which nothing is written, or the proof that nothing could be; [`Ready::send`]
//! writes one request, once. What a failure proves comes from a count of written bytes, never from
//! an error's text.
//!
//! An idle connection may be closed by its peer just as a request goes out on it, which then fails
//! after its first byte, and nobody can tell whether it was received (RFC 9110, 9.2.2). So a
//! request that may not be repeated takes only a connection that rested for less than
//! `reuse_unsafe_within`.

mod body;
mod connection;
mod counted;
mod dial;
mod host;
mod limits;
mod request;
mod send;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use steadfast_core::time::MonoTime;
use steadfast_core::timeouts::Timeouts;

pub use body::{BodyError, UpstreamBody};
pub use connection::{MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD_BYTES};
pub use request::{CallerLeft, RequestBody};
pub use send::{MAX_INFORMATIONAL, Ready, SendEnd};

use crate::client::Target;
use crate::clock::{self, Elapsed};
use host::{Host, Slot};

/// How long connections rest, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// A connection that rested for so long is closed. Below the 5 s after which common servers
    /// close theirs, so that we are first.
    pub idle: Duration,
    /// A request that may not be repeated takes only a connection that rested for less than this.
    pub reuse_unsafe_within: Duration,
    /// Connections to one target at most, at rest ones included.
    pub max_per_host: NonZeroU32,
}

impl Default for PoolSettings {
    fn default() -> Self {
        PoolSettings {
            idle: Duration::from_secs(4),
            reuse_unsafe_within: Duration::from_secs(1),
            max_per_host: const { NonZeroU32::new(256).expect("not zero") },
        }
    }
}

/// Whether the request may be sent again should the connection turn out to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It may; any connection at rest will do.
    Safe,
    /// It may not.
    Unsafe,
    /// No connection that was used before will do: one has just failed.
    Fresh,
}

/// No connection: the request was never sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverSent {
    /// [`Failure::Resolve`], [`Failure::Connect`] or [`Failure::Pool`].
    pub failure: Failure,
    /// What was seen and what to do, for people.
    pub detail: String,
}

impl fmt::Display for NeverSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl Error for NeverSent {}

/// Connections of all targets together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// At rest.
    pub idle: usize,
    /// Handed out: not yet used, sending, or reading an answer.
    pub in_use: usize,
    /// Requests that wait for leave to have one.
    pub waiting: usize,
}

impl PoolStatus {
    /// Both together.
    pub fn and(self, other: PoolStatus) -> PoolStatus {
        PoolStatus {
            idle: self.idle + other.idle,
            in_use: self.in_use + other.in_use,
            waiting: self.waiting + other.waiting,
        }
    }
}

/// The connections. Clones share them.
#[derive(Clone)]
pub struct Pool {
    settings: PoolSettings,
    hosts: Arc<Mutex<HashMap<Target, Arc<Host>>>>,
}

impl Pool {
    /// A pool without connections.
    pub fn new(settings: PoolSettings) -> Pool {
        Pool {
            settings,
            hosts: Arc::default(),
        }
    }

    /// A connection at rest, if there is one that may carry the request. Never waits.
    pub fn idle(&self, target: &Target, reuse: Reuse) -> Option<Ready> {
        let now = clock::mono_now();
        let slot = self.host(target).slot_now()?;
        ready(target, slot, reuse, now)
    }

    /// A connection: one at rest, else a new one. The attempt, whose own limit counts too, begins
    /// here.
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// [`NeverSent`] when the leave to have one, the resolver or every address took longer than its
    /// limit (`pool`, `resolve`, and `connect` for each address, all within `attempt` and
    /// `deadline`), or failed.
    pub async fn acquire(
        &self,
        target: &Target,
        reuse: Reuse,
        timeouts: &Timeouts,
        deadline: Deadline,
    ) -> Result<Ready, NeverSent> {
        let began = clock::mono_now();
        let ends = deadline.earlier(Deadline::after(began, timeouts.attempt));
        let limit = dial::share(timeouts.pool, ends);
        let slot = match self.host(target).slot(limit).await {
            Ok(slot) => slot,
            Err(Elapsed) => return Err(self.crowded(target, limit)),
        };
        // Asked again: what was at rest may have been taken, or laid down, meanwhile.
        if let Some((link, since)) = slot.take(reuse, clock::mono_now()) {
            return Ok(Ready::new(target.clone(), (link, since), slot, began));
        }
        slot.make_room();
        let link = dial::dial(target, timeouts, ends).await?;
        let link = (link, clock::mono_now());
        Ok(Ready::new(target.clone(), link, slot, began).on_a_new_one())
    }

    /// What is open now.
    pub fn status(&self) -> PoolStatus {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let each = hosts.values().map(|host| host.status());
        each.fold(PoolStatus::default(), PoolStatus::and)
    }

    /// What is open to `target` now.
    pub fn status_of(&self, target: &Target) -> PoolStatus {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = hosts.get(target);
        host.map_or_else(PoolStatus::default, |host| host.status())
    }

    fn host(&self, target: &Target) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get(target) {
            return Arc::clone(host);
        }
        // Targets that are no longer asked for go when a new one comes, so the map cannot grow with
        // time.
        hosts.retain(|_, host| !host.is_forgotten());
        let host = Arc::new(Host::new(self.settings));
        hosts.insert(target.clone(), Arc::clone(&host));
        host
    }

    fn crowded(&self, target: &Target, limit: Duration) -> NeverSent {
        let most = self.settings.max_per_host;
        NeverSent {
            failure: Failure::Pool,
            detail: format!(
                "{target}: none of {most} connections came free within {limit:?}; raise \
                 pool.max_per_host or find what keeps them"
            ),
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("settings", &self.settings)
            .field("status", &self.status())
            .finish()
    }
}

fn ready(target: &Target, slot: Slot, reuse: Reuse, now: MonoTime) -> Option<Ready> {
    let rested = slot.take(reuse, now)?;
    Some(Ready::new(target.clone(), rested, slot, now))
}
