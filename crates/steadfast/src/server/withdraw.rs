//! Taking back a reservation or a dispatch mark whose store reply did not arrive.
//!
//! Nothing was sent under it, and it may still come into being: a write that was on its way may
//! land after the caller was refused. So the token is remembered for longer than its lease, and
//! whatever row is found under it is put back to what stood before — by the one task that looks for
//! them all, and by whoever meets the row.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use steadfast_core::key::ScopeHash;
use steadfast_core::record::{self, Change, Owner, Record};
use steadfast_core::time::MonoTime;

use super::Server;
use crate::clock;
use crate::event::Event;
use crate::store::{Op, StoreError};

/// Tokens remembered at once, far above what an outage leaves within a lease. The row of one that
/// is not remembered falls back by its own lease.
const TOKENS_MAX: usize = 100_000;

/// Between two rounds: short at first, since a store is mostly back at once.
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(1);

/// How long one look may take, so that a store that says nothing does not keep the others waiting.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// The tokens whose reservations do not count.
#[derive(Default)]
pub(super) struct Withdrawn {
    tokens: Mutex<Tokens>,
}

#[derive(Default)]
struct Tokens {
    open: HashMap<Owner, (ScopeHash, MonoTime)>,
    /// A task looks for them.
    looking: bool,
}

impl Withdrawn {
    /// The row stands under a token that does not count.
    pub(super) fn holds(&self, row: &Record) -> bool {
        self.lock().open.contains_key(&row.standing.owner)
    }

    /// Remembers a token; true where nobody looks for tokens yet, so that a task has to begin.
    fn add(&self, token: Owner, scope: ScopeHash, until: MonoTime) -> bool {
        let mut tokens = self.lock();
        if tokens.open.len() >= TOKENS_MAX {
            return false;
        }
        tokens.open.insert(token, (scope, until));
        !std::mem::replace(&mut tokens.looking, true)
    }

    /// What is still to be looked for; `None`, and nobody looks any more, where there is nothing.
    fn open(&self) -> Option<Vec<(Owner, ScopeHash)>> {
        let mut tokens = self.lock();
        tokens.looking = !tokens.open.is_empty();
        let all = tokens.open.iter();
        tokens
            .looking
            .then(|| all.map(|(token, (scope, _))| (*token, *scope)).collect())
    }

    /// A look found nothing under the token. Its time begins to count only with a store that
    /// answers: a store that was away for longer than a lease may come back with the row.
    fn not_found(&self, token: Owner) {
        let now = clock::mono_now();
        let mut tokens = self.lock();
        let is_over = |(_, until): &(ScopeHash, MonoTime)| until.since(now).is_zero();
        if tokens.open.get(&token).is_some_and(is_over) {
            tokens.open.remove(&token);
        }
    }

    fn forget(&self, token: Owner) {
        self.lock().open.remove(&token);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tokens> {
        self.tokens
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Withdraws whatever stands, or will come to stand, under `token`. Returns at once; a task keeps
/// looking for twice a lease, so that a late write is still met while its own lease lasts, and for
/// as long as the store gives no answer.
pub(super) fn begin(server: &Server, scope: ScopeHash, token: Owner, lease: Duration) {
    let until = clock::mono_now().plus(lease.saturating_mul(2));
    if server.inner.withdrawn.add(token, scope, until) {
        tokio::spawn(rounds(server.clone()));
    }
}

async fn rounds(server: Server) {
    let mut stop = server.inner.stop.subscribe();
    let mut pause = AGAIN_FIRST;
    while let Some(open) = server.inner.withdrawn.open() {
        round(&server, open).await;
        let stopped = clock::within(pause, stop.wait_for(|stop| *stop)).await;
        if stopped.is_ok() {
            // The process ends: what is not put back by now falls back by its own lease.
            return;
        }
        pause = (pause * 2).min(AGAIN_MAX);
    }
}

async fn round(server: &Server, open: Vec<(Owner, ScopeHash)>) {
    let withdrawn = &server.inner.withdrawn;
    for (token, scope) in open {
        match clock::within(LOOK_LIMIT, look(server, scope, token)).await {
            Ok(Ok(true)) => withdrawn.forget(token),
            Ok(Ok(false)) => withdrawn.not_found(token),
            // This row cannot be read; the others may be.
            Ok(Err(StoreError::Unreadable(_))) => {}
            // The store is not back: asking it for every other token would only load it.
            Ok(Err(_)) | Err(clock::Elapsed) => return,
        }
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

/// Writes down that the lease of `row` has ended; true where it was done.
pub(super) async fn recover(
    server: &Server,
    row: &Record,
    change: Change,
) -> Result<bool, StoreError> {
    let done = apply(server, row.scope, change).await?;
    if done {
        let expired = Event::LeaseExpired(row.standing.owner);
        server.inner.observer.on(expired);
    }
    Ok(done)
}

/// Performs a guarded change; true where it was done. Where something else stands, the next look
/// sees.
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
