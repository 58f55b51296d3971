//! What time alone brings about: lost leases, and expiry. It moves and expires; it never executes.

use steadfast_core::record;
use steadfast_core::time::WallTime;

use super::{Server, withdraw};
use crate::clock;
use crate::event::Event;
use crate::store::{Op, OpEnd, StoreError};

/// Holds looked at in one round, the longest due first.
const HELD_MAX: u32 = 1024;

/// Rows expired in one commit. Measured: 64 leave the foreground its pace, 500 take most of it.
pub const EXPIRE_BATCH: u32 = 64;

/// Commits of expiry in one round, so that a backlog cannot keep the sweeper from lost leases.
const EXPIRE_COMMITS: u32 = 64;

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

async fn recover(server: &Server, now: WallTime, swept: &mut Swept) -> Result<(), StoreError> {
    // All holds, due or not: a lease that is not renewed ends by this process's own clock as well.
    let all = WallTime::from_unix_ms(u64::MAX);
    let held = server.store().due(all, HELD_MAX).await?;
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
