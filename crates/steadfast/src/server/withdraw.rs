//! Taking back a reservation or a dispatch mark whose store reply did not arrive.
//!
//! Nothing was sent under it, and it may still come into being: a write that was on its way may land
//! after the caller was refused. So the token is remembered for longer than its lease, and whatever row
//! is found under it is put back to what stood before — by the one task that looks for them all, and
//! by whoever meets the row.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use steadfast_core::key::ScopeHash;
use steadfast_core::record::{self, Change, Owner, Record};
use steadfast_core::time::MonoTime;

use super::Server;
use crate::clock;
use crate::store::{Op, StoreError};

/// Tokens remembered at once, far above what an outage leaves within a lease. The row of one that is
/// not remembered falls back by its own lease.
const TOKENS_MAX: usize = 100_000;

/// Between two rounds: short at first, since a store is mostly back at once.
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(1);

/// The tokens whose reservations do not count.
#[derive(Default)]
pub(super) struct Withdrawn {
    tokens: Mutex<HashMap<Owner, (ScopeHash, MonoTime)>>,
}

impl Withdrawn {
    /// The row stands under a token that does not count.
    pub(super) fn holds(&self, row: &Record) -> bool {
        self.lock().contains_key(&row.standing.owner)
    }

    /// Remembers a token; true where it is the first one, so that a task has to begin.
    fn add(&self, token: Owner, scope: ScopeHash, until: MonoTime) -> bool {
        let mut tokens = self.lock();
        if tokens.len() < TOKENS_MAX {
            tokens.insert(token, (scope, until));
        }
        tokens.len() == 1
    }

    /// What is still to be looked for. The tokens whose time is over are forgotten.
    fn open(&self) -> Vec<(Owner, ScopeHash)> {
        let now = clock::mono_now();
        let mut tokens = self.lock();
        tokens.retain(|_, (_, until)| !until.since(now).is_zero());
        tokens
            .iter()
            .map(|(token, (scope, _))| (*token, *scope))
            .collect()
    }

    fn forget(&self, token: Owner) {
        self.lock().remove(&token);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Owner, (ScopeHash, MonoTime)>> {
        self.tokens
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Withdraws whatever stands, or will come to stand, under `token`. Returns at once; a task keeps
/// looking for twice a lease, so that a late write is still met while its own lease lasts.
pub(super) fn begin(server: &Server, scope: ScopeHash, token: Owner, lease: Duration) {
    let until = clock::mono_now().plus(lease.saturating_mul(2));
    if server.inner.withdrawn.add(token, scope, until) {
        tokio::spawn(rounds(server.clone()));
    }
}

async fn rounds(server: Server) {
    let mut pause = AGAIN_FIRST;
    loop {
        let open = server.inner.withdrawn.open();
        if open.is_empty() {
            return;
        }
        for (token, scope) in open {
            match look(&server, scope, token).await {
                Ok(true) => server.inner.withdrawn.forget(token),
                Ok(false) => {}
                // The store is not back: asking it for every other token would only load it.
                Err(_) => break,
            }
        }
        clock::sleep(pause).await;
        pause = (pause * 2).min(AGAIN_MAX);
    }
}

/// One look; true once a row under the token was put back.
async fn look(server: &Server, scope: ScopeHash, token: Owner) -> Result<bool, StoreError> {
    let Some(row) = server.store().get(scope).await? else {
        return Ok(false);
    };
    let now = server.store().now().await?;
    let Some(change) = record::withdraw(&row, token, now) else {
        return Ok(false);
    };
    apply(server, scope, change).await
}

/// Performs a guarded change; true where it was done. Where something else stands, the next look sees.
pub(super) async fn apply(
    server: &Server,
    scope: ScopeHash,
    change: Change,
) -> Result<bool, StoreError> {
    let op = match change {
        Change::Put(next, guard) => Op::Replace {
            next,
            guard,
            draw: false,
        },
        Change::Remove(guard) => Op::Remove { scope, guard },
    };
    Ok(matches!(
        server.store().apply(op).await?,
        crate::store::OpEnd::Done(_)
    ))
}
