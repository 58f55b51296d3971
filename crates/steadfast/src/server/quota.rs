//! What this process knows of its principals' keys, so that the store is not asked at each request.
//!
//! Whether a new key may begin is [`steadfast_core::quota`]'s to say. In one process the bound is
//! exact: whoever stands before the last places waits for those on their way. Processes over one
//! store exceed it by what was on its way in each, and no more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast_core::key::Tenant;
use steadfast_core::quota::{self, Counted, Known, Remembered};
use steadfast_core::time::{MonoTime, WallTime};
use tokio::sync::watch;

use super::{Asked, Server};
use crate::clock;
use crate::store::StoreError;

/// Principals that are remembered at once. Beyond, those of whom nothing is on its way are
/// forgotten, which costs each of them one read.
const TENANTS_MAX: usize = 10_000;

/// What this process knows of each principal's keys.
#[derive(Default)]
pub(super) struct Quotas {
    places: Mutex<HashMap<Tenant, Place>>,
}

/// One principal. Nothing was counted yet where there is no date.
#[derive(Default)]
struct Place {
    counted: u64,
    looked_at: Option<MonoTime>,
    /// Of `begun`, those that had ended when the count was asked for: they are in it.
    in_count: u64,
    /// New keys that were inserted here, ever.
    begun: u64,
    /// On their way here now.
    pending: u64,
    /// Told of each that is on its way no longer.
    ended: watch::Sender<()>,
}

impl Place {
    fn known(&self) -> Known {
        Known {
            counted: self.counted,
            unsure: self.begun - self.in_count + self.pending,
        }
    }
}

/// Whether a new key may begin.
pub(super) enum Admitted<'a> {
    /// It may, while this is held.
    New(Begins<'a>),
    /// The principal has as many as it may; about so long until one of them ends.
    Full(Duration),
}

impl Admitted<'_> {
    /// The new key stands in the store.
    pub(super) fn inserted(self) {
        if let Admitted::New(mut begins) = self {
            begins.is_inserted = true;
        }
    }
}

/// A new key on its way into the store. Dropping it says that the way has ended.
pub(super) struct Begins<'a> {
    quotas: &'a Quotas,
    tenant: Tenant,
    is_inserted: bool,
}

impl Drop for Begins<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.quotas.lock().get_mut(&self.tenant) {
            place.pending -= 1;
            place.begun += u64::from(self.is_inserted);
            place.ended.send_replace(());
        }
    }
}

impl Quotas {
    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By what is remembered; with what had begun before the store is asked.
    fn remembered(&self, tenant: &Tenant, limit: u64, now: MonoTime) -> Result<Begins<'_>, u64> {
        let mut places = self.lock();
        if places.len() >= TENANTS_MAX && !places.contains_key(tenant) {
            places.retain(|_, place| place.pending > 0);
        }
        let place = places.entry(tenant.clone()).or_default();
        let age = place.looked_at.map(|at| now.since(at));
        match age.map(|age| quota::remembered(place.known(), age, limit)) {
            Some(Remembered::Admit) => Ok(self.begins(place, tenant)),
            Some(Remembered::Ask) | None => Err(place.begun),
        }
    }

    /// By `counted`, which was asked for `at`, when `in_count` had begun here. Where it depends on
    /// those on their way: what to wait for before the store is asked again, if any still is.
    fn counted(
        &self,
        asked: &Asked,
        counted: u64,
        (at, in_count): (MonoTime, u64),
    ) -> Result<Admitted<'_>, Option<watch::Receiver<()>>> {
        let rules = &asked.policy.idempotency;
        let mut places = self.lock();
        let place = places.entry(asked.tenant.clone()).or_default();
        if place.looked_at.is_none_or(|before| before <= at) {
            // A place that was forgotten meanwhile has begun nothing since.
            let in_count = in_count.min(place.begun);
            (place.counted, place.looked_at, place.in_count) = (counted, Some(at), in_count);
        }
        match quota::counted(place.known(), rules.key_quota, rules.retention) {
            Counted::Admit => Ok(Admitted::New(self.begins(place, &asked.tenant))),
            Counted::Refuse(after) => Ok(Admitted::Full(after)),
            // Subscribed under the lock, so that none of them ends unnoticed.
            Counted::Wait => Err((place.pending > 0).then(|| place.ended.subscribe())),
        }
    }

    fn begins(&self, place: &mut Place, tenant: &Tenant) -> Begins<'_> {
        place.pending += 1;
        Begins {
            quotas: self,
            tenant: tenant.clone(),
            is_inserted: false,
        }
    }
}

/// Whether `asked` may begin a key of its own. To be bounded by its caller.
pub(super) async fn admit<'a>(
    server: &'a Server,
    asked: &Asked,
) -> Result<Admitted<'a>, StoreError> {
    let quotas = &server.inner.quotas;
    let limit = asked.policy.idempotency.key_quota;
    let mut began = match quotas.remembered(&asked.tenant, limit, clock::mono_now()) {
        Ok(begins) => return Ok(Admitted::New(begins)),
        Err(began) => began,
    };
    loop {
        let at = clock::mono_now();
        let counted = server
            .store()
            .count(asked.tenant.clone(), date(server).await?);
        match quotas.counted(asked, counted.await?, (at, began)) {
            Ok(admitted) => return Ok(admitted),
            // An error means that the place was forgotten, so that none is on its way any more.
            Err(Some(mut ended)) => drop(ended.changed().await),
            Err(None) => {}
        }
        began = quotas.lock().get(&asked.tenant).map_or(0, |p| p.begun);
    }
}

/// The store's date, by which expired keys count no more; the beginning of time where the store's
/// clock is not to be trusted for expiry.
async fn date(server: &Server) -> Result<WallTime, StoreError> {
    let now = server.store().now().await?;
    let trusted = server.inner.trust.allows_expiry(now, clock::mono_now());
    Ok(match trusted {
        true => now,
        false => WallTime::from_unix_ms(0),
    })
}
