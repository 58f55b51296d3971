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
mod frames;
mod gate;
mod host;
mod judgement;
mod limits;
mod passed;
mod race;
mod request;
mod secure;
mod send;
mod shared;
mod stream;
mod waiting;
mod wire;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use steadfast_core::timeouts::Timeouts;

pub use body::{BodyError, UpstreamBody};
pub use connection::{MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD_BYTES};
pub use race::NEXT_ADDRESS_AFTER;
pub use request::{CallerLeft, RequestBody};
pub use send::{Ready, SendEnd};
pub use shared::MAX_STREAMS;
pub use waiting::MAX_INFORMATIONAL;

use crate::client::{Target, UpstreamTls};
use crate::clock::{self, Elapsed};
use dial::Dialed;
use host::{Host, Slot};
use send::Held;
use shared::Leave;

/// How long connections rest, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// A connection that rested for so long is closed. Below the 5 s after which common servers
    /// close theirs, so that we are first.
    pub idle: Duration,
    /// A request that may not be repeated takes only a connection that rested for less than this.
    pub reuse_unsafe_within: Duration,
    /// Connections to one target at most, at rest ones included. Over HTTP/2, where many requests
    /// share a connection, it is requests at once.
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
    /// A new connection, or room on one that others are using: one at rest has just failed.
    Fresh,
}

/// No connection: the request was never sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverSent {
    /// [`Failure::Resolve`], [`Failure::Connect`], [`Failure::Pool`], [`Failure::TlsIdentity`] or
    /// [`Failure::TlsHandshake`].
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
    /// Connections at rest.
    pub idle: usize,
    /// Handed out: connections, and streams of shared ones, that are not yet used, sending, or
    /// reading an answer.
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
    tls: Option<UpstreamTls>,
    hosts: Arc<Mutex<HashMap<Target, Arc<Host>>>>,
}

impl Pool {
    /// A pool without connections, for targets without TLS.
    pub fn new(settings: PoolSettings) -> Pool {
        Pool {
            settings,
            tls: None,
            hosts: Arc::default(),
        }
    }

    /// A pool without connections, for targets with and without TLS.
    pub fn with_tls(settings: PoolSettings, tls: UpstreamTls) -> Pool {
        Pool {
            tls: Some(tls),
            ..Pool::new(settings)
        }
    }

    /// A connection at rest, if there is one that may carry the request. Never waits.
    pub fn idle(&self, target: &Target, reuse: Reuse) -> Option<Ready> {
        let now = clock::mono_now();
        let slot = self.host(target).slot_now()?;
        let held = slot.take(reuse, now).ok()?;
        Some(Ready::new(target.clone(), held, now))
    }

    /// A connection: one at rest, else a new one. The attempt, whose own limit counts too, begins
    /// here.
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// [`NeverSent`] when the leave to have one, the resolver or every address took longer than its
    /// limit (`pool`, `resolve`, `connect` for each address, and `tls`, all within `attempt` and
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
        let held = match slot.take(reuse, clock::mono_now()) {
            Ok(held) => held,
            Err(slot) => self.open(target, slot, (reuse, timeouts, ends)).await?,
        };
        Ok(Ready::new(target.clone(), held, began))
    }

    /// A new connection, or room on one that somebody else has opened meanwhile.
    async fn open(
        &self,
        target: &Target,
        slot: Slot,
        (reuse, timeouts, ends): (Reuse, &Timeouts, Deadline),
    ) -> Result<Held, NeverSent> {
        let turn = slot.gate().turn(target, ends).await?;
        let slot = match turn.has_waited {
            true => match slot.take(reuse, clock::mono_now()) {
                Ok(held) => return Ok(held),
                Err(slot) => slot,
            },
            false => slot,
        };
        slot.make_room();
        let tls = (self.tls.as_ref(), slot.gate().may_offer_http2());
        match dial::dial(target, tls, timeouts, ends).await {
            Ok(Dialed::Alone(link)) => {
                slot.gate().learnt(true);
                Ok(Held::Alone {
                    link,
                    slot,
                    rested_since: clock::mono_now(),
                    is_reused: false,
                })
            }
            Ok(Dialed::Shared(shared)) => {
                slot.gate().learnt(false);
                slot.add(&shared);
                let leave = Leave::on(&shared, slot);
                leave.map(Held::Shared).map_err(|_| no_stream(target))
            }
            Err(never_sent) => {
                slot.gate().failed_with(&never_sent, ends);
                Err(never_sent)
            }
        }
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

fn no_stream(target: &Target) -> NeverSent {
    NeverSent {
        failure: Failure::Connect,
        detail: format!(
            "{target}: it took a connection and no request on it; check its HTTP/2 limits"
        ),
    }
}
