//! What is in the store, as often as it may be counted.
//!
//! A count goes through all rows: one million take SQLite about a second, on the one thread that
//! goes through rows. So a count is used again for a hundred times as long as it took, which keeps
//! counting below one percent of a core, however often somebody asks. Whether the store answers at
//! all is asked each time, by a look-up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast::clock;
use steadfast::store::{Status, Store};
use steadfast_core::record::OperationId;
use steadfast_core::time::MonoTime;

/// How long a scrape waits for the store: as long as a keyed request does, well below the ten
/// seconds after which a scrape counts as failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// A count is used for so many times as long as it took.
const USES: u32 = 100;

/// And for so long at least.
const SHORTEST: Duration = Duration::from_secs(1);

/// The last count.
#[derive(Default)]
pub(super) struct Records {
    last: Mutex<Last>,
    /// Held by the one count that runs.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Last {
    status: Option<Status>,
    stale_at: Option<MonoTime>,
}

impl Records {
    /// Whether the store answers, and the last count where it does.
    pub(super) async fn look(self: &Arc<Self>, store: &Arc<dyn Store>) -> (bool, Option<Status>) {
        let any = OperationId::from_bits(clock::random_bits());
        let found = clock::within(PATIENCE, store.by_id(any)).await;
        if !matches!(found, Ok(Ok(_))) {
            return (false, None);
        }
        let now = clock::mono_now();
        let is_stale = self.last().stale_at.is_none_or(|at| at <= now);
        if is_stale && let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() {
            let (records, store) = (Arc::clone(self), Arc::clone(store));
            let counting = tokio::spawn(async move {
                let _turn = turn;
                let status = store.status().await.ok();
                let ended = clock::mono_now();
                let use_for = (ended.since(now) * USES).max(SHORTEST);
                let stale_at = Some(ended.plus(use_for));
                *records.last() = Last { status, stale_at };
            });
            // A count that takes longer goes on; meanwhile the last one holds.
            let _ = clock::within(PATIENCE, counting).await;
        }
        (true, self.last().status.clone())
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
