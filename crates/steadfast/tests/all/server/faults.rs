//! A store that fails where a test asks for it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use steadfast::clock;
use steadfast::core::key::{ScopeHash, Tenant};
use steadfast::core::record::{Guard, OperationId, Record};
use steadfast::core::time::WallTime;
use steadfast::store::memory::Memory;
use steadfast::store::{
    Op, OpEnd, Page, Scan, Secrets, Stats, Status, Store, StoreError, StoreFuture,
};

/// What a call to the store is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Insert,
    TakeOver,
    Mark,
    Renew,
    /// An end, or what stood before put back.
    Settle,
    Remove,
    Expire,
    Get,
    ById,
    Count,
    Now,
}

/// How it fails.
#[derive(Clone)]
pub enum Fault {
    /// It is not done, and says so.
    Fails(StoreError),
    /// It is done, and its reply is lost.
    LosesReply,
    /// It says that it is not reached, and is done when the test lets it land.
    LandsLater,
    /// It takes so long.
    Slow(Duration),
    /// It is not done and never says anything.
    Hangs,
    /// It is done and never says anything.
    HangsDone,
}

pub struct Faulty {
    memory: Memory,
    down: AtomicBool,
    faults: Mutex<Vec<(Act, Fault)>>,
    acts: Mutex<Vec<Act>>,
    late: Mutex<Vec<Op>>,
    spoilt: Mutex<Vec<ScopeHash>>,
    secrets: Mutex<Option<Secrets>>,
}

pub fn unavailable() -> StoreError {
    StoreError::Unavailable("as the test asks".to_owned())
}

impl Faulty {
    pub fn new(memory: Memory) -> Faulty {
        Faulty {
            memory,
            down: AtomicBool::new(false),
            faults: Mutex::default(),
            acts: Mutex::default(),
            late: Mutex::default(),
            spoilt: Mutex::default(),
            secrets: Mutex::default(),
        }
    }

    /// The store beneath, which does not fail.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The next call of this kind fails so.
    pub fn fault(&self, act: Act, fault: Fault) {
        self.faults.lock().unwrap().push((act, fault));
    }

    /// The row under `scope` cannot be read any more.
    pub fn spoil(&self, scope: ScopeHash) {
        self.spoilt.lock().unwrap().push(scope);
    }

    /// Whoever begins from now on is given these secrets.
    pub fn give(&self, secrets: Secrets) {
        *self.secrets.lock().unwrap() = Some(secrets);
    }

    /// Nothing is reached, or everything again.
    pub fn down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// The writes that were on their way land now.
    pub async fn land(&self) {
        assert!(!self.late.lock().unwrap().is_empty(), "one is on its way");
        self.land_some().await;
    }

    /// The same, where there are any; a write whose guard is gone does nothing.
    pub async fn land_some(&self) {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        for op in late {
            self.memory.apply(op).await.unwrap();
        }
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.down(false);
        self.faults.lock().unwrap().clear();
    }

    /// Whether every fault that was asked for has happened.
    pub fn is_spent(&self) -> bool {
        self.faults.lock().unwrap().is_empty()
    }

    /// The calls so far.
    pub fn acts(&self, kind: Act) -> usize {
        let acts = self.acts.lock().unwrap();
        acts.iter().filter(|act| **act == kind).count()
    }

    /// All calls so far, in their order.
    pub fn all_acts(&self) -> Vec<Act> {
        self.acts.lock().unwrap().clone()
    }

    fn meet(&self, act: Act) -> Option<Fault> {
        self.acts.lock().unwrap().push(act);
        if self.down.load(Ordering::SeqCst) {
            return Some(Fault::Fails(unavailable()));
        }
        let mut faults = self.faults.lock().unwrap();
        let at = faults.iter().position(|(kind, _)| *kind == act)?;
        Some(faults.remove(at).1)
    }

    async fn read<T>(
        &self,
        act: Act,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.meet(act) {
            None => read.await,
            Some(Fault::Slow(time)) => {
                clock::sleep(time).await;
                read.await
            }
            Some(Fault::Fails(error)) => Err(error),
            Some(Fault::Hangs | Fault::HangsDone) => std::future::pending().await,
            Some(Fault::LosesReply | Fault::LandsLater) => Err(unavailable()),
        }
    }

    async fn kind(&self, op: &Op) -> Act {
        match op {
            Op::Insert(_) => Act::Insert,
            Op::Remove { .. } => Act::Remove,
            Op::Expire { .. } => Act::Expire,
            Op::Replace { draw: true, .. } => Act::TakeOver,
            Op::Replace { next, .. } if !next.is_held() => Act::Settle,
            Op::Replace { next, .. } => {
                let stands = self.memory.get(next.scope).await.unwrap();
                // A mark is an event of its own; a renewal is none.
                let starts = |row: Record| row.history.starts_with(&next.history);
                if stands.is_some_and(starts) {
                    Act::Renew
                } else {
                    Act::Mark
                }
            }
        }
    }

    async fn write(&self, op: Op) -> Result<OpEnd, StoreError> {
        let act = self.kind(&op).await;
        match self.meet(act) {
            None => self.memory.apply(op).await,
            Some(Fault::Slow(time)) => {
                clock::sleep(time).await;
                self.memory.apply(op).await
            }
            Some(Fault::Fails(error)) => Err(error),
            Some(Fault::LosesReply) => {
                self.memory.apply(op).await?;
                Err(unavailable())
            }
            Some(Fault::LandsLater) => {
                self.late.lock().unwrap().push(op);
                Err(unavailable())
            }
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::HangsDone) => {
                self.memory.apply(op).await?;
                std::future::pending().await
            }
        }
    }
}

impl Store for Faulty {
    fn apply(&self, op: Op) -> StoreFuture<'_, OpEnd> {
        Box::pin(self.write(op))
    }

    fn get(&self, scope: ScopeHash) -> StoreFuture<'_, Option<Record>> {
        if self.spoilt.lock().unwrap().contains(&scope) {
            let unreadable = StoreError::Unreadable("as the test asks".to_owned());
            return Box::pin(std::future::ready(Err(unreadable)));
        }
        Box::pin(self.read(Act::Get, self.memory.get(scope)))
    }

    fn by_id(&self, id: OperationId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(self.read(Act::ById, self.memory.by_id(id)))
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        Box::pin(self.read(Act::Get, self.memory.scan(scan)))
    }

    fn due(&self, now: WallTime, limit: u32) -> StoreFuture<'_, Page> {
        let due = async move {
            let spoilt = self.spoilt.lock().unwrap().clone();
            let mut page = self.memory.due(now, limit).await?;
            let is_spoilt = |row: &mut Record| spoilt.contains(&row.scope);
            let unreadable = page.rows.extract_if(.., is_spoilt);
            page.unreadable = unreadable.map(|row| row.id.to_string()).collect();
            Ok(page)
        };
        Box::pin(self.read(Act::Get, due))
    }

    fn count(&self, tenant: Tenant, now: WallTime) -> StoreFuture<'_, u64> {
        Box::pin(self.read(Act::Count, self.memory.count(tenant, now)))
    }

    fn now(&self) -> StoreFuture<'_, WallTime> {
        Box::pin(self.read(Act::Now, self.memory.now()))
    }

    fn ahead(&self) -> StoreFuture<'_, Duration> {
        self.memory.ahead()
    }

    fn secrets(&self) -> StoreFuture<'_, Secrets> {
        match self.secrets.lock().unwrap().clone() {
            Some(secrets) => Box::pin(std::future::ready(Ok(secrets))),
            None => self.memory.secrets(),
        }
    }

    fn changed(&self, scope: ScopeHash, seen: Guard) -> StoreFuture<'_, Option<Record>> {
        self.memory.changed(scope, seen)
    }

    fn status(&self) -> StoreFuture<'_, Status> {
        self.memory.status()
    }

    fn stats(&self, now: WallTime, tenants: u32) -> StoreFuture<'_, Stats> {
        self.memory.stats(now, tenants)
    }
}
