//! Records in memory: for tests, for services that may forget, and as the plainest form of the
//! rules that every store keeps.
//!
//! Decides, as pure functions of a table, what each write comes to. It refuses to know what states
//! mean. Gone with the process, so its guarantee is `volatile`. Source: ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast_core::fingerprint::FingerprintSecret;
use steadfast_core::key::{ScopeHash, Tenant};
use steadfast_core::record::{Guard, OperationId, Record, State};
use steadfast_core::time::WallTime;

use super::codec;
use super::fence;
use super::watch::{self, Hub};
use super::{
    Cursor, Guarantee, Op, OpEnd, Page, Scan, Secrets, Stats, Status, Store, StoreError,
    StoreFuture, WallClock,
};
use crate::clock;

/// The store in memory.
pub struct Memory {
    table: Mutex<Table>,
    hub: Arc<Hub>,
    wall: WallClock,
}

/// The rows and the counters.
struct Table {
    /// Rows in the order of their first insertion, by the fence drawn for it.
    rows: BTreeMap<u64, Record>,
    by_scope: HashMap<ScopeHash, u64>,
    by_id: HashMap<OperationId, u64>,
    due: BTreeSet<(WallTime, u64)>,
    expiring: BTreeSet<(WallTime, u64)>,
    tenants: HashMap<Tenant, u64>,
    fence: u64,
    /// The last date that was written or given out.
    date: WallTime,
    secrets: Secrets,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::with_clock(Arc::new(clock::wall_now))
    }
}

impl Memory {
    /// An empty store with fresh secrets.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// The same, with dates from `wall`.
    pub fn with_clock(wall: WallClock) -> Memory {
        let first = codec::fingerprint_secret(fence::FIRST_SECRET, clock::random());
        let table = Table {
            rows: BTreeMap::new(),
            by_scope: HashMap::new(),
            by_id: HashMap::new(),
            due: BTreeSet::new(),
            expiring: BTreeSet::new(),
            tenants: HashMap::new(),
            fence: fence::start(wall()),
            date: WallTime::from_unix_ms(0),
            secrets: Secrets {
                scope: codec::scope_secret(clock::random()),
                fingerprints: first.into_iter().collect(),
            },
        };
        Memory {
            table: Mutex::new(table),
            hub: Arc::default(),
            wall,
        }
    }

    /// Makes `bytes` the present fingerprint secret, under `id`.
    pub fn register_secret(&self, id: u32, bytes: [u8; 32]) {
        let secrets = &mut self.lock().secrets;
        secrets
            .fingerprints
            .push(FingerprintSecret::new(id, &bytes));
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, op: Op) -> Result<OpEnd, StoreError> {
        let mut table = self.lock();
        let (end, gone) = table.apply(op)?;
        // Published under the table's lock, so that waiters are told in the order of the writes.
        let put = match &end {
            OpEnd::Done(Some(row)) => Some((&row.scope, Some(&**row))),
            _ => None,
        };
        let removed = gone.iter().map(|scope| (scope, None));
        self.hub.publish(put.into_iter().chain(removed));
        Ok(end)
    }
}

impl Table {
    fn get(&self, scope: &ScopeHash) -> Option<&Record> {
        self.rows.get(self.by_scope.get(scope)?)
    }

    /// The end of `op`, and the scopes under which no row stands any more because of it.
    fn apply(&mut self, op: Op) -> Result<(OpEnd, Vec<ScopeHash>), StoreError> {
        match op {
            Op::Insert(row) => self.insert(row).map(|end| (end, Vec::new())),
            Op::Replace { next, guard, draw } => {
                self.replace(next, guard, draw).map(|end| (end, Vec::new()))
            }
            Op::Remove { scope, guard } => Ok(self.remove(scope, guard)),
            Op::Expire { now, limit } => Ok(self.expire(now, limit)),
        }
    }

    fn insert(&mut self, mut row: Box<Record>) -> Result<OpEnd, StoreError> {
        if let Some(stands) = self.get(&row.scope) {
            return Ok(OpEnd::Stands(Some(Box::new(stands.clone()))));
        }
        self.fence = fence::next(self.fence, 0)?;
        row.standing.fence = self.fence;
        self.date = self.date.max(row.updated_at);
        self.put(self.fence, Record::clone(&row));
        Ok(OpEnd::Done(Some(row)))
    }

    fn replace(
        &mut self,
        mut next: Box<Record>,
        guard: Guard,
        draw: bool,
    ) -> Result<OpEnd, StoreError> {
        let at = self.by_scope.get(&next.scope).copied();
        let Some((at, stands)) = at.and_then(|at| Some((at, self.rows.get(&at)?))) else {
            return Ok(OpEnd::Stands(None));
        };
        if stands.guard() != guard {
            return Ok(OpEnd::Stands(Some(Box::new(stands.clone()))));
        }
        if draw {
            self.fence = fence::next(self.fence, stands.standing.fence)?;
            next.standing.fence = self.fence;
        }
        self.date = self.date.max(next.updated_at);
        self.take(at);
        self.put(at, Record::clone(&next));
        Ok(OpEnd::Done(Some(next)))
    }

    fn remove(&mut self, scope: ScopeHash, guard: Guard) -> (OpEnd, Vec<ScopeHash>) {
        match self.get(&scope) {
            Some(row) if row.guard() == guard => {
                self.by_scope.get(&scope).copied().map(|at| self.take(at));
                (OpEnd::Done(None), vec![scope])
            }
            stands => {
                let stands = stands.map(|row| Box::new(row.clone()));
                (OpEnd::Stands(stands), Vec::new())
            }
        }
    }

    fn expire(&mut self, now: WallTime, limit: u32) -> (OpEnd, Vec<ScopeHash>) {
        let expired = self.expiring.range(..=(now, u64::MAX)).map(|(_, at)| *at);
        let expired: Vec<u64> = expired.take(size(limit)).collect();
        let gone: Vec<ScopeHash> = expired
            .into_iter()
            .filter_map(|at| self.take(at))
            .map(|row| row.scope)
            .collect();
        let count = u32::try_from(gone.len()).unwrap_or(u32::MAX);
        (OpEnd::Expired(count), gone)
    }

    fn put(&mut self, at: u64, row: Record) {
        self.by_scope.insert(row.scope, at);
        self.by_id.insert(row.id, at);
        *self.tenants.entry(row.tenant.clone()).or_default() += 1;
        self.due.extend(row.due_at().map(|due| (due, at)));
        self.expiring
            .extend(row.standing.expires_at.map(|ends| (ends, at)));
        self.rows.insert(at, row);
    }

    fn take(&mut self, at: u64) -> Option<Record> {
        let row = self.rows.remove(&at)?;
        self.by_scope.remove(&row.scope);
        self.by_id.remove(&row.id);
        if let Some(count) = self.tenants.get_mut(&row.tenant) {
            *count -= 1;
            if *count == 0 {
                self.tenants.remove(&row.tenant);
            }
        }
        if let Some(due) = row.due_at() {
            self.due.remove(&(due, at));
        }
        if let Some(ends) = row.standing.expires_at {
            self.expiring.remove(&(ends, at));
        }
        Some(row)
    }

    fn scan(&self, scan: &Scan) -> Page {
        let limit = size(scan.limit);
        let after = scan.after.map_or(0, |cursor| cursor.0.saturating_add(1));
        let found = self.rows.range(after..).filter(|(_, row)| scan.takes(row));
        let found: Vec<_> = found.take(limit).collect();
        let full = limit > 0 && found.len() == limit;
        Page {
            next: found.last().filter(|_| full).map(|(at, _)| Cursor(**at)),
            rows: found.into_iter().map(|(_, row)| row.clone()).collect(),
            unreadable: Vec::new(),
        }
    }

    fn due(&self, now: WallTime, limit: u32) -> Page {
        let due = self.due.range(..=(now, u64::MAX)).take(size(limit));
        Page {
            rows: due
                .filter_map(|(_, at)| self.rows.get(at).cloned())
                .collect(),
            ..Page::default()
        }
    }

    fn count(&self, tenant: &Tenant, now: WallTime) -> u64 {
        let all = self.tenants.get(tenant).copied().unwrap_or(0);
        let expired = self.expiring.range(..=(now, u64::MAX));
        let of = expired.filter(|(_, at)| self.rows.get(at).is_some_and(|r| r.tenant == *tenant));
        all - of.count() as u64
    }

    fn status(&self, now: WallTime) -> Status {
        let count = |state| {
            self.rows
                .values()
                .filter(|r| r.standing.state == state)
                .count()
        };
        let oldest = self.expiring.first().map(|(ends, _)| *ends);
        Status {
            kind: "memory",
            schema: 1,
            guarantee: Guarantee::Volatile,
            fence: self.fence,
            rows: State::ALL
                .map(|state| (state, count(state) as u64))
                .to_vec(),
            expiry_lag: oldest.map_or(Duration::ZERO, |at| now.since(at)),
        }
    }
}

fn size(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

fn ready<T: Send + 'static>(result: Result<T, StoreError>) -> StoreFuture<'static, T> {
    Box::pin(std::future::ready(result))
}

impl Store for Memory {
    fn apply(&self, op: Op) -> StoreFuture<'_, OpEnd> {
        // Not before the first poll: a write that is dropped unpolled is not begun.
        Box::pin(async move { self.write(op) })
    }

    fn get(&self, scope: ScopeHash) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move { Ok(self.lock().get(&scope).cloned()) })
    }

    fn by_id(&self, id: OperationId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let table = self.lock();
            let at = table.by_id.get(&id);
            Ok(at.and_then(|at| table.rows.get(at)).cloned())
        })
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        ready(Ok(self.lock().scan(&scan)))
    }

    fn due(&self, now: WallTime, limit: u32) -> StoreFuture<'_, Page> {
        ready(Ok(self.lock().due(now, limit)))
    }

    fn count(&self, tenant: Tenant, now: WallTime) -> StoreFuture<'_, u64> {
        ready(Ok(self.lock().count(&tenant, now)))
    }

    fn now(&self) -> StoreFuture<'_, WallTime> {
        let mut table = self.lock();
        table.date = table.date.max((self.wall)());
        ready(Ok(table.date))
    }

    fn ahead(&self) -> StoreFuture<'_, Duration> {
        let date = self.lock().date;
        ready(Ok(date.since((self.wall)())))
    }

    fn secrets(&self) -> StoreFuture<'_, Secrets> {
        ready(Ok(self.lock().secrets.clone()))
    }

    fn changed(&self, scope: ScopeHash, seen: Guard) -> StoreFuture<'_, Option<Record>> {
        Box::pin(watch::changed(&self.hub, self, scope, seen))
    }

    fn status(&self) -> StoreFuture<'_, Status> {
        let mut table = self.lock();
        table.date = table.date.max((self.wall)());
        ready(Ok(table.status(table.date)))
    }

    fn stats(&self, now: WallTime, tenants: u32) -> StoreFuture<'_, Stats> {
        let table = self.lock();
        let rows: Vec<&Record> = table.rows.values().collect();
        ready(Ok(Stats::of(&rows, now, size(tenants))))
    }
}
