//! Records in an SQLite file: the default store of one machine.
//!
//! Decides how rows lie on the disk and who may touch the file: one writer thread that commits all
//! who wait together, readers on connections of their own, the log copied back by a connection of
//! its own. It refuses to know what states mean. Rule: what it calls done is synced (`durable`); a
//! second process on the same file is safe, and its changes are seen within 50 ms. Source:
//! ARCHITECTURE.md; the layout is measured (ARCHITECTURE.md): rows in arrival order with a small
//! unique index on a hash prefix, bodies apart.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::TransactionBehavior;
use steadfast_core::key::ScopeHash;
use steadfast_core::record::{Guard, OperationId, Record, State};
use steadfast_core::time::WallTime;

use super::batcher::Batcher;
use super::watch::{self, Hub};
use super::{
    Guarantee, Op, OpEnd, Page, Scan, Secrets, Stats, Status, Store, StoreError, StoreFuture,
    WallClock,
};
use crate::clock;

mod checkpoint;
mod counts;
mod error;
mod lookout;
mod open;
mod reader;
mod rows;
mod schema;
mod start;
mod statements;
mod writer;

pub use super::SecretError;
pub use open::OpenError;

use checkpoint::Checkpointer;
use reader::Readers;
use start::{Looking, start};

/// The store in an SQLite file. Dropping it performs what is queued and closes the file.
pub struct Sqlite {
    // In the order in which they must end.
    _lookout: Looking,
    writes: Batcher,
    _checkpointer: Checkpointer,
    /// Reads by key, which callers wait for.
    look_ups: Readers,
    /// Reads that may go through all rows, for people: apart, so that they hinder no caller.
    listings: Readers,
    hub: Arc<Hub>,
    shared: Arc<Shared>,
    path: PathBuf,
}

/// What the threads of one store share.
struct Shared {
    /// Where the file was when it was opened, and which file it was.
    place: PathBuf,
    file: (u64, u64),
    wall: WallClock,
    /// The last date known to be written or given out, in milliseconds.
    date: AtomicU64,
    /// Marks this store's commits among those of other processes.
    token: i64,
    /// The writer met a commit of another process.
    foreign: AtomicBool,
}

impl Sqlite {
    /// Opens the store at `path`; makes it, readable by its owner alone, where it is missing.
    ///
    /// # Errors
    /// The file cannot be used; a file that is not a store is left as it is.
    pub fn open(path: impl AsRef<Path>) -> Result<Sqlite, OpenError> {
        Sqlite::with_clock(path, Arc::new(clock::wall_now))
    }

    /// The same, with dates from `wall`.
    ///
    /// # Errors
    /// As [`Sqlite::open`].
    pub fn with_clock(path: impl AsRef<Path>, wall: WallClock) -> Result<Sqlite, OpenError> {
        start(path.as_ref(), true, wall)
    }

    /// Opens the store at `path` and never makes one: for commands.
    ///
    /// # Errors
    /// As [`Sqlite::open`]; [`OpenError::Missing`] where there is none.
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Sqlite, OpenError> {
        start(path.as_ref(), false, Arc::new(clock::wall_now))
    }

    /// The SQL that prepares a store, without its secrets and counters.
    pub fn migrations_sql() -> String {
        schema::sql()
    }

    /// Bytes of the file and of its log. What cannot be looked at counts for nothing.
    fn bytes(&self) -> u64 {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        length(&self.path) + length(Path::new(&log))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes `bytes` the present fingerprint secret, under `id`. Waits for the disk.
    ///
    /// # Errors
    /// The id names other bytes, or the store failed.
    pub fn register_secret(&self, id: u32, bytes: [u8; 32]) -> Result<(), SecretError> {
        let mut conn = open::connect(&self.path)
            .map_err(|why| SecretError::Store(StoreError::Unavailable(why.to_string())))?;
        let failed = |error: rusqlite::Error| SecretError::Store(error::store_error(&error));
        let tx = conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let taken: bool = tx
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM secrets WHERE kind = 'fingerprint' AND id = ?1 \
                 AND bytes <> ?2)",
                (id.to_string(), bytes),
                |row| row.get(0),
            )
            .map_err(failed)?;
        if taken {
            return Err(SecretError::Taken);
        }
        tx.execute(
            "INSERT INTO secrets (n, kind, id, bytes) \
             VALUES ((SELECT max(n) + 1 FROM secrets), 'fingerprint', ?1, ?2) \
             ON CONFLICT (kind, id) DO UPDATE SET n = excluded.n",
            (id.to_string(), bytes),
        )
        .map_err(failed)?;
        tx.commit().map_err(failed)
    }
}

impl Shared {
    /// The later of what is known to be written and the wall clock. What was given out once is
    /// never undercut.
    fn now(&self) -> WallTime {
        let wall = (self.wall)().unix_ms();
        WallTime::from_unix_ms(self.date.fetch_max(wall, Ordering::AcqRel).max(wall))
    }

    /// The file still stands where it was opened. One that was moved, replaced or deleted takes
    /// writes that the next process would never see.
    fn stands(&self) -> Result<(), StoreError> {
        let found = std::fs::metadata(&self.place);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.file) {
            return Ok(());
        }
        let why = "its file was moved, replaced or deleted under this process; put it back, or \
                   restart on the file that is to be used";
        Err(StoreError::Unavailable(why.to_owned()))
    }

    /// A row of another process may carry a later date than this one knows.
    fn note(&self, rows: &[Record]) {
        if let Some(last) = rows.iter().map(|row| row.updated_at.unix_ms()).max() {
            self.date.fetch_max(last, Ordering::AcqRel);
        }
    }
}

impl Store for Sqlite {
    fn apply(&self, op: Op) -> StoreFuture<'_, OpEnd> {
        self.writes.apply(op)
    }

    fn get(&self, scope: ScopeHash) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let row = self.look_ups.run(move |reader| reader.get(&scope)).await?;
            self.shared.note(row.as_slice());
            Ok(row)
        })
    }

    fn by_id(&self, id: OperationId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let row = self.look_ups.run(move |reader| reader.by_id(id)).await?;
            self.shared.note(row.as_slice());
            Ok(row)
        })
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            let page = self.listings.run(move |reader| reader.scan(&scan)).await?;
            self.shared.note(&page.rows);
            Ok(page)
        })
    }

    fn held(&self, limit: u32) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            let page = self.look_ups.run(move |reader| reader.held(limit)).await?;
            self.shared.note(&page.rows);
            Ok(page)
        })
    }

    fn due(&self, state: State, now: WallTime, limit: u32) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            let page = self
                .look_ups
                .run(move |reader| reader.due(state, now, limit))
                .await?;
            self.shared.note(&page.rows);
            Ok(page)
        })
    }

    fn now(&self) -> StoreFuture<'_, WallTime> {
        Box::pin(std::future::ready(Ok(self.shared.now())))
    }

    fn ahead(&self) -> StoreFuture<'_, Duration> {
        let date = WallTime::from_unix_ms(self.shared.date.load(Ordering::Acquire));
        let ahead = date.since((self.shared.wall)());
        Box::pin(std::future::ready(Ok(ahead)))
    }

    fn secrets(&self) -> StoreFuture<'_, Secrets> {
        Box::pin(self.look_ups.run(|reader| reader.secrets()))
    }

    fn changed(&self, scope: ScopeHash, seen: Guard) -> StoreFuture<'_, Option<Record>> {
        Box::pin(watch::changed(&self.hub, self, scope, seen))
    }

    fn status(&self) -> StoreFuture<'_, Status> {
        Box::pin(async move {
            let (fence, rows, oldest) = self.listings.run(|reader| reader.status()).await?;
            let now = self.shared.now();
            Ok(Status {
                kind: "sqlite",
                schema: schema::version().unsigned_abs(),
                guarantee: Guarantee::Durable,
                fence,
                rows,
                expiry_lag: oldest.map_or(Duration::ZERO, |at| now.since(at)),
            })
        })
    }

    fn stats(&self, now: WallTime, tenants: u32) -> StoreFuture<'_, Stats> {
        Box::pin(async move {
            let read = self.listings.run(move |reader| reader.stats(now, tenants));
            let mut stats = read.await?;
            stats.bytes = Some(self.bytes());
            Ok(stats)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn listings_of_all_rows_hinder_no_look_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Sqlite::open(dir.path().join("s.db")).expect("a store");
        let (end, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let listings: Vec<_> = (0..reader::LOOK_UPS + reader::LISTINGS)
            .map(|_| {
                let held = Arc::clone(&held);
                let mut listing = Box::pin(store.listings.run(move |_| {
                    let _ = held.lock().expect("its turn").recv();
                    Ok(())
                }));
                assert!((&mut listing).now_or_never().is_none(), "it is at work");
                listing
            })
            .collect();
        let scope = ScopeHash::from_bytes([7; 32]);
        let bound = Duration::from_secs(30);
        let found = clock::within(bound, store.get(scope)).await;
        drop(end);
        assert_eq!(found, Ok(Ok(None)));
        drop(listings);
    }
}
