//! What time alone brings about: lost leases, and expiry. It moves and expires; it never executes.

use std::time::Duration;

use steadfast_core::record;
use steadfast_core::time::WallTime;

use super::{Server, withdraw};
use crate::clock;
use crate::event::Event;
use crate::store::{Op, OpEnd, Page, StoreError};

/// Holds looked at in one round, the longest due first.
const HELD_MAX: u32 = 1024;

/// Rows expired in one commit. Measured: 64 leave the foreground its pace, 500 take most of it.
pub const EXPIRE_BATCH: u32 = 64;

/// Commits of expiry in one round, so that a backlog cannot keep the sweeper from lost leases.
const EXPIRE_COMMITS: u32 = 64;

/// Between two rounds: what is due is seen within it.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// After a round that failed: a store that is down is not asked all the time.
const SWEEP_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Lost leases written down.
    pub recovered: u32,
    /// Records removed.
    pub expired: u32,
    /// More are past their expiry: sweep again at once.
    pub more: bool,
    /// Expiry stands still, because the store's clock has run ahead.
    pub expiry_stopped: bool,
}

/// One round. What fails does not keep the rest from being done.
///
/// # Errors
/// The first one of the store; what could be done is done.
pub async fn sweep(server: &Server) -> Result<Swept, StoreError> {
    let now = server.store().now().await?;
    let mut swept = Swept::default();
    let recovered = recover(server, now, &mut swept).await;
    let expired = expire(server, now, &mut swept).await;
    recovered.and(expired).map(|()| swept)
}

/// Sweeps until it is dropped, and says what an operator has to know.
pub async fn sweep_on(server: Server) {
    let mut stopped_before = false;
    loop {
        let pause = match sweep(&server).await {
            Ok(Swept { more: true, .. }) => Duration::ZERO,
            Ok(swept) => {
                if swept.expiry_stopped && !stopped_before {
                    tracing::error!(
                        "expiry stands still: the store's clock has run ahead of this machine's \
                         clocks; check the time: it goes on once the time has caught up, or after \
                         a restart where the clock was put right"
                    );
                }
                stopped_before = swept.expiry_stopped;
                SWEEP_EVERY
            }
            Err(error) => {
                tracing::warn!(
                    error = error.to_string(),
                    "the sweeper could not work; it tries again"
                );
                SWEEP_AFTER_FAILURE
            }
        };
        clock::sleep(pause).await;
    }
}

/// What a sweep would find to do now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Leases that are over.
    pub leases_over: u64,
    /// Records past their expiry.
    pub expired: u64,
    /// Expiry stands still, because the store's clock has run ahead: none of those is removed.
    pub expiry_stopped: bool,
}

/// Counts what is due, and changes nothing.
///
/// # Errors
/// The store's.
pub async fn due(server: &Server) -> Result<Due, StoreError> {
    let now = server.store().now().await?;
    let stats = server.store().stats(now, 0).await?;
    Ok(Due {
        leases_over: stats.leases_over,
        expired: stats.expired,
        expiry_stopped: !server.inner.trust.allows_expiry(now, clock::mono_now()),
    })
}

/// Sweeps until nothing is due, and gives the sum. `told` hears of it after each round.
///
/// # Errors
/// The first one of the store; what was done until then is done.
pub async fn sweep_all(server: &Server, mut told: impl FnMut(&Swept)) -> Result<Swept, StoreError> {
    let mut all = Swept::default();
    loop {
        let round = sweep(server).await?;
        all.recovered += round.recovered;
        all.expired += round.expired;
        all.expiry_stopped = round.expiry_stopped;
        told(&all);
        // What stood before a lost hold may be past its expiry itself.
        if !round.more && round.recovered == 0 {
            return Ok(all);
        }
    }
}

async fn recover(server: &Server, now: WallTime, swept: &mut Swept) -> Result<(), StoreError> {
    // All holds, due or not: a lease that is not renewed ends by this process's own clock as well.
    let Page {
        rows: held,
        unreadable,
        ..
    } = server.store().held(HELD_MAX).await?;
    for why in server.inner.unreadable.new_of(unreadable) {
        tracing::error!(
            reason = why.to_string(),
            "a held record cannot be read; its lease does not end"
        );
    }
    if held.len() < HELD_MAX as usize {
        server.inner.leases.keep_only(&held);
    }
    let mut failed = Ok(());
    for row in held {
        let unrenewed = server.inner.leases.unrenewed_for(&row);
        let withdrawn = server.inner.withdrawn.holds(&row);
        let change = if withdrawn {
            record::withdraw(&row, row.standing.owner, now)
        } else {
            record::recover(&row, now, unrenewed)
        };
        let Some(change) = change else { continue };
        let done = if withdrawn {
            withdraw::apply(server, row.scope, change).await
        } else {
            withdraw::recover(server, &row, change).await
        };
        match done {
            Ok(true) => {
                let (operation, owner) = (row.id, row.standing.owner);
                tracing::warn!(%operation, %owner, state = %row.standing.state, "a lease ended");
                swept.recovered += 1;
            }
            Ok(false) => {}
            Err(error) => failed = failed.and(Err(error)),
        }
    }
    failed
}

async fn expire(server: &Server, now: WallTime, swept: &mut Swept) -> Result<(), StoreError> {
    if !server.inner.trust.allows_expiry(now, clock::mono_now()) {
        swept.expiry_stopped = true;
        return Ok(());
    }
    for _ in 0..EXPIRE_COMMITS {
        let limit = EXPIRE_BATCH;
        let OpEnd::Expired(count) = server.store().apply(Op::Expire { now, limit }).await? else {
            break;
        };
        swept.expired += count;
        server.inner.observer.on(Event::Expired(count));
        swept.more = count == EXPIRE_BATCH;
        if !swept.more {
            break;
        }
        // The foreground's writes go first.
        tokio::task::yield_now().await;
    }
    Ok(())
}
