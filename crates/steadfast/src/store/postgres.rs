//! Records in PostgreSQL: the store of many gateways.
//!
//! Decides how rows lie in the database and how many connections reach it: one that writes, with
//! all who wait in one statement; one that looks up; one that lists. It refuses to know what states
//! mean. Rule: what it calls done was committed; nothing depends on a session, so a pooler may
//! stand between; the database is asked for its own clock, and that never goes back. Source:
//! ARCHITECTURE.md; the batch is measured (docs/performance.md).

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::key::ScopeHash;
use steadfast_core::record::{Guard, OperationId, Record, State};
use steadfast_core::time::WallTime;

use super::batcher::Batcher;
use super::watch::{self, Hub};
use super::{
    Op, OpEnd, Page, Scan, SecretError, Secrets, Stats, Status, Store, StoreError, StoreFuture,
    WallClock,
};

mod address;
mod counts;
mod date;
mod error;
mod link;
mod lookout;
mod open;
mod reader;
mod rows;
mod schema;
mod statements;
mod tls;
mod turns;
mod writer;

pub use address::{Address, AddressError};
pub use open::OpenError;
pub use schema::MOST_PARTITIONS;

use date::Date;
use lookout::Lookout;
use open::Home;
use reader::Reader;

/// The store in a PostgreSQL database. Dropping it performs what is queued and closes its
/// connections.
pub struct Postgres {
    // In the order in which they must end.
    _lookout: Lookout,
    writes: Batcher,
    /// Reads by key, which callers wait for.
    look_ups: Arc<Reader>,
    /// Reads that may go through all rows, for people: apart, so that they hinder no caller.
    listings: Reader,
    hub: Arc<Hub>,
    date: Arc<Date>,
    _home: Home,
}

impl Postgres {
    /// Opens the store at `address`, which [`Postgres::migrate`] has prepared. Waits for the
    /// database.
    ///
    /// # Errors
    /// It cannot be reached, is not prepared, or is of another version; nothing is changed in it.
    pub fn open(address: &Address) -> Result<Postgres, OpenError> {
        open::open(address, None)
    }

    /// The same, with dates from `wall` in place of the database's clock.
    ///
    /// # Errors
    /// As [`Postgres::open`].
    pub fn with_clock(address: &Address, wall: WallClock) -> Result<Postgres, OpenError> {
        open::open(address, Some(wall))
    }

    /// Prepares the database, or brings it to this build's version; does nothing where it is ready.
    /// The records of a new one lie in so many partitions by the hash of their key; in one table
    /// with 0. Waits for the database.
    ///
    /// # Errors
    /// As [`Postgres::open`], but for a database that is not prepared.
    pub fn migrate(address: &Address, partitions: u32) -> Result<(), OpenError> {
        open::migrate(address, partitions.min(MOST_PARTITIONS))
    }

    /// The SQL that prepares a database, without its secrets and the start of its fences, which
    /// [`Postgres::migrate`] adds.
    pub fn up_sql(partitions: u32) -> String {
        schema::up(0, partitions.min(MOST_PARTITIONS))
    }

    /// The SQL that takes all of it away again.
    pub fn down_sql() -> String {
        schema::down()
    }

    /// Makes `bytes` the present fingerprint secret, under `id`.
    ///
    /// # Errors
    /// The id names other bytes, or the store failed.
    pub async fn register_secret(&self, id: u32, bytes: [u8; 32]) -> Result<(), SecretError> {
        let id = id.to_string();
        let done = self
            .listings
            .run(move |link| Box::pin(async move { schema::register(link, &id, &bytes).await }));
        match done.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(SecretError::Taken),
            Err(error) => Err(SecretError::Store(error)),
        }
    }

    /// The database's clock, asked for where it was not told lately.
    async fn told(&self) -> Result<(), StoreError> {
        if self.date.now().is_none() {
            let told = self.look_ups.run(|link| Box::pin(reader::clock(link)));
            self.date.learn(told.await?, false);
        }
        Ok(())
    }

    /// A row of another process may carry a later date than this one knows.
    fn note(&self, rows: &[Record]) {
        if let Some(last) = rows.iter().map(|row| row.updated_at).max() {
            self.date.note(last);
        }
    }

    fn noted(&self, page: Page) -> Page {
        self.note(&page.rows);
        page
    }
}

impl Store for Postgres {
    fn apply(&self, op: Op) -> StoreFuture<'_, OpEnd> {
        self.writes.apply(op)
    }

    fn get(&self, scope: ScopeHash) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let row = self.look_ups.row(scope).await?;
            self.note(row.as_slice());
            Ok(row)
        })
    }

    fn by_id(&self, id: OperationId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let row = self
                .look_ups
                .run(move |link| Box::pin(reader::by_id(link, id)));
            let row = row.await?;
            self.note(row.as_slice());
            Ok(row)
        })
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            let page = self
                .listings
                .run(move |link| Box::pin(async move { reader::scan(link, &scan).await }));
            Ok(self.noted(page.await?))
        })
    }

    fn held(&self, limit: u32) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            let page = self
                .look_ups
                .run(move |link| Box::pin(reader::held(link, limit)));
            Ok(self.noted(page.await?))
        })
    }

    fn due(&self, state: State, now: WallTime, limit: u32) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            let page = self
                .look_ups
                .run(move |link| Box::pin(reader::due(link, state, now, limit)));
            Ok(self.noted(page.await?))
        })
    }

    fn now(&self) -> StoreFuture<'_, WallTime> {
        if let Some(now) = self.date.now() {
            return Box::pin(std::future::ready(Ok(now)));
        }
        Box::pin(async move {
            self.told().await?;
            // A reply that took longer than its word is good for is as good as none.
            let late = || StoreError::Unavailable("its clock was told too late".to_owned());
            self.date.now().ok_or_else(late)
        })
    }

    fn ahead(&self) -> StoreFuture<'_, Duration> {
        Box::pin(async move {
            self.told().await?;
            let late = || StoreError::Unavailable("its clock was told too late".to_owned());
            self.date.ahead().ok_or_else(late)
        })
    }

    fn secrets(&self) -> StoreFuture<'_, Secrets> {
        Box::pin(self.look_ups.run(|link| Box::pin(reader::secrets(link))))
    }

    fn changed(&self, scope: ScopeHash, seen: Guard) -> StoreFuture<'_, Option<Record>> {
        Box::pin(watch::changed(&self.hub, self, scope, seen))
    }

    fn status(&self) -> StoreFuture<'_, Status> {
        Box::pin(async move {
            let counts = self.listings.run(|link| Box::pin(counts::status(link)));
            let counts = counts.await?;
            let now = self.now().await?;
            Ok(Status {
                kind: "postgres",
                schema: counts.schema,
                guarantee: counts.guarantee,
                fence: counts.fence,
                rows: counts.rows,
                expiry_lag: counts
                    .oldest_expiry
                    .map_or(Duration::ZERO, |at| now.since(at)),
            })
        })
    }

    fn stats(&self, now: WallTime, tenants: u32) -> StoreFuture<'_, Stats> {
        Box::pin(async move {
            let stats = self
                .listings
                .run(move |link| Box::pin(counts::stats(link, now, tenants)));
            stats.await
        })
    }
}
