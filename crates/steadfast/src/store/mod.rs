//! Where records live: the trait, and the stores.
//!
//! A store keeps rows and knows their key, owner, version, state index, due-at and expires-at; it
//! does not know what states mean. Every rule is in [`steadfast_core::record`]. Each write is one
//! atomic step, and safe to send twice: a standing row with the writer's own owner and version is
//! its own already ([`steadfast_core::record::read_back`], applied once, in [`Written::of`]).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::record::{Guard, OperationId, Owner, Record, State};
use steadfast_core::time::WallTime;
use steadfast_core::{fingerprint, key, record};

#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "shared by the durable stores")
)]
mod batcher;
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "shared by the durable stores")
)]
mod codec;
#[cfg(any(test, feature = "test-util"))]
pub mod conformance;
#[cfg(any(test, feature = "test-util"))]
pub mod faulty;
mod fence;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod stats;
pub mod timed;
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "shared by the durable stores")
)]
mod watch;

pub use stats::Stats;

/// Where a store takes the date from. Settable, so that a test can make it jump.
pub type WallClock = Arc<dyn Fn() -> WallTime + Send + Sync>;

/// What a store's call gives back, later.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// One atomic write.
#[derive(Clone, Debug)]
pub enum Op {
    /// Insert the row where no row stands under its scope. The store draws its fence.
    Insert(Box<Record>),
    /// Replace the row where the guard still holds. With `draw` the store draws a new fence for it.
    Replace {
        /// The next row.
        next: Box<Record>,
        /// What must still stand.
        guard: Guard,
        /// A new hold begins with it.
        draw: bool,
    },
    /// Remove the row where the guard still holds.
    Remove {
        /// Under what it is looked up.
        scope: key::ScopeHash,
        /// What must still stand.
        guard: Guard,
    },
    /// Remove up to `limit` rows whose expiry is not after `now`.
    Expire {
        /// The store's date, as the caller trusts it.
        now: WallTime,
        /// The most rows removed in this step.
        limit: u32,
    },
}

/// What one write came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpEnd {
    /// It is done; the row as it now stands, with its drawn fence. `None` after a removal.
    Done(Option<Box<Record>>),
    /// It is not: this row stands (or none).
    Stands(Option<Box<Record>>),
    /// So many rows were removed.
    Expired(u32),
}

/// Which rows a scan gives. Empty fields ask for all.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Only this state.
    pub state: Option<State>,
    /// Only rows last written before this date.
    pub updated_before: Option<WallTime>,
    /// Only rows whose hold ended before this date.
    pub locked_before: Option<WallTime>,
    /// Only rows of this owner.
    pub owner: Option<Owner>,
    /// Only rows of this hashed principal.
    pub tenant: Option<key::Tenant>,
    /// Only rows with this key.
    pub key: Option<key::Key>,
    /// Only rows after this cursor, which an earlier page gave.
    pub after: Option<Cursor>,
    /// The most rows of the page.
    pub limit: u32,
}

impl Scan {
    /// Whether the filters, cursor and limit aside, take this row.
    pub fn takes(&self, row: &Record) -> bool {
        let before = |at: Option<WallTime>, bound: Option<WallTime>| {
            bound.is_none_or(|bound| at.is_some_and(|at| at < bound))
        };
        self.state.is_none_or(|state| row.standing.state == state)
            && before(Some(row.updated_at), self.updated_before)
            && before(row.standing.locked_until, self.locked_before)
            && self.owner.is_none_or(|owner| row.standing.owner == owner)
            && self
                .tenant
                .as_ref()
                .is_none_or(|tenant| row.tenant == *tenant)
            && self.key.as_ref().is_none_or(|key| row.key == *key)
    }
}

/// Where a page ended. Rows come in the order in which they were first inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

/// A page of rows.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The rows.
    pub rows: Vec<Record>,
    /// Where to go on, if there may be more.
    pub next: Option<Cursor>,
    /// Rows of the page that are there and cannot be read: whose they are, and why.
    pub unreadable: Vec<String>,
}

/// The secrets that a store keeps. Made when it is prepared.
#[derive(Clone)]
pub struct Secrets {
    /// Hashes scopes and principals. Never rotated.
    pub scope: key::ScopeSecret,
    /// Hash fingerprints. The last is the present one; all stay readable.
    pub fingerprints: Vec<fingerprint::FingerprintSecret>,
}

impl Secrets {
    /// The same secrets, with the fingerprint secret `id` as the present one; `None` where the
    /// store does not know it.
    pub fn with_present(mut self, id: u32) -> Option<Secrets> {
        let at = self
            .fingerprints
            .iter()
            .position(|secret| secret.id() == id)?;
        let present = self.fingerprints.remove(at);
        self.fingerprints.push(present);
        Some(self)
    }

    /// The secret with which fingerprints are made now.
    ///
    /// # Panics
    /// Where a store gave no fingerprint secret at all, which its contract excludes.
    pub fn present(&self) -> &fingerprint::FingerprintSecret {
        self.fingerprints
            .last()
            .expect("a store keeps at least one fingerprint secret")
    }
}

impl fmt::Debug for Secrets {
    /// Counts only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets")
            .field("fingerprints", &self.fingerprints.len())
            .finish()
    }
}

/// Why a fingerprint secret was not taken.
#[derive(Debug)]
pub enum SecretError {
    /// The id names another secret already; records written with it must stay readable.
    Taken,
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretError::Taken => {
                f.write_str("the store knows another secret by this id; give the new one a new id")
            }
            SecretError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SecretError {}

/// What a store promises once it said "done", from the weakest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// Gone with the process.
    Volatile,
    /// Survives a crash of processes and of the machine, on one machine's disk.
    Durable,
    /// Survives fail-over to another machine as well.
    Linearizable,
}

impl Guarantee {
    /// The word in `store status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Guarantee::Volatile => "volatile",
            Guarantee::Durable => "durable",
            Guarantee::Linearizable => "linearizable",
        }
    }
}

/// What a store says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `memory`, `sqlite`, …
    pub kind: &'static str,
    /// Its schema's version.
    pub schema: u32,
    /// What it promises.
    pub guarantee: Guarantee,
    /// The highest fence drawn.
    pub fence: u64,
    /// Rows by state, every state named.
    pub rows: Vec<(State, u64)>,
    /// How long ago the oldest row that is still there expired.
    pub expiry_lag: Duration,
}

/// Why a store gave no answer. Whether a write was done is then not known, except where said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// It cannot be reached or is broken; the text says what to do.
    Unavailable(String),
    /// It has no room left (disk full, quota); the write was not done.
    Full(String),
    /// It was opened read-only; the write was not done.
    ReadOnly(String),
    /// A row is there and cannot be read. It is never taken for an absent one.
    Unreadable(String),
    /// It was closed; the write was not done.
    Closed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
            StoreError::Full(why) => write!(f, "the store is full: {why}"),
            StoreError::ReadOnly(why) => write!(f, "the store is read-only: {why}"),
            StoreError::Unreadable(why) => write!(f, "a stored record cannot be read: {why}"),
            StoreError::Closed => f.write_str("the store is closed; the process is ending"),
        }
    }
}

impl std::error::Error for StoreError {}

/// A place for records. The conformance suite (`store::conformance`) is its full contract.
pub trait Store: Send + Sync + 'static {
    /// Performs one write, durably before it says so. Dropping the future leaves it open whether
    /// the write is done; one that was not begun is not begun any more.
    fn apply(&self, op: Op) -> StoreFuture<'_, OpEnd>;

    /// The row under `scope`.
    fn get(&self, scope: key::ScopeHash) -> StoreFuture<'_, Option<Record>>;

    /// The row with this id. Costs the same whether it is there or not.
    fn by_id(&self, id: OperationId) -> StoreFuture<'_, Option<Record>>;

    /// A page of rows.
    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page>;

    /// Rows that somebody holds ([`Record::is_held`]: those with a `locked_until`), the one whose
    /// hold ends first at first. All of one page: it never says where to go on.
    fn held(&self, limit: u32) -> StoreFuture<'_, Page>;

    /// Rows in `state` whose next step is due ([`Record::due_at`]) at or before `now`, the longest
    /// due first. All of one page, as above.
    fn due(&self, state: State, now: WallTime, limit: u32) -> StoreFuture<'_, Page>;

    /// The store's date. Never goes back: not before the last date that was written through `apply`
    /// in any process.
    fn now(&self) -> StoreFuture<'_, WallTime>;

    /// How far the store's date stands ahead of the clock that it is taken from: more than nothing
    /// while that clock has gone back behind a date that was written.
    fn ahead(&self) -> StoreFuture<'_, Duration>;

    /// The store's secrets.
    fn secrets(&self) -> StoreFuture<'_, Secrets>;

    /// The row under `scope` once it is not the one `seen` guards any more — replaced or removed,
    /// here or in another process (seen within 50 ms). `None` where no row stands. Never resolves
    /// otherwise; the caller bounds it by dropping it.
    fn changed(&self, scope: key::ScopeHash, seen: Guard) -> StoreFuture<'_, Option<Record>>;

    /// What the store says of itself.
    fn status(&self) -> StoreFuture<'_, Status>;

    /// What is in the store at the date `now`, with up to `tenants` principals. May go through all
    /// rows: for an operator's question, not for a dashboard's.
    fn stats(&self, now: WallTime, tenants: u32) -> StoreFuture<'_, Stats>;
}

/// What a guarded write came to, after reading back: the one place where a repeated or doubted
/// write is recognised as one's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The row stands as written, with its fence.
    Done(Box<Record>),
    /// Another row stands.
    Stands(Box<Record>),
    /// No row stands.
    Gone,
}

impl Written {
    /// Reads what `end` means for the row that was to be written.
    pub fn of(written: &Record, end: OpEnd) -> Written {
        match end {
            OpEnd::Done(Some(row)) => Written::Done(row),
            OpEnd::Stands(Some(row)) if record::read_back(written, &row) => Written::Done(row),
            OpEnd::Stands(Some(row)) => Written::Stands(row),
            OpEnd::Done(None) | OpEnd::Stands(None) | OpEnd::Expired(_) => Written::Gone,
        }
    }
}
