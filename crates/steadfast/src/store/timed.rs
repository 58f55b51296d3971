//! A store whose calls are timed, for whoever observes.
//!
//! What takes no time by its nature (the date) or on purpose (a wait for change) is not timed. A
//! call that is not waited for any longer counts with the time until then: a store that says
//! nothing must show.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::key::{ScopeHash, Tenant};
use steadfast_core::record::{Guard, OperationId, Record};
use steadfast_core::time::{MonoTime, WallTime};

use super::{Op, OpEnd, Page, Scan, Secrets, Stats, Status, Store, StoreFuture};
use crate::clock;
use crate::event::{Event, Observer, StoreOperation};

/// A store, and who is told how long its calls take.
pub struct Timed {
    store: Arc<dyn Store>,
    observer: Arc<dyn Observer>,
}

/// One call. Its end is its dropping.
struct Call<'a> {
    observer: &'a dyn Observer,
    operation: StoreOperation,
    began: MonoTime,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.observer.on(Event::Store {
            operation: self.operation,
            took: clock::mono_now().since(self.began),
        });
    }
}

impl Timed {
    /// `store`, with `observer` told of its calls.
    pub fn new(store: Arc<dyn Store>, observer: Arc<dyn Observer>) -> Timed {
        Timed { store, observer }
    }

    fn timed<'a, T: 'a>(
        &'a self,
        operation: StoreOperation,
        ask: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let _call = Call {
                observer: &*self.observer,
                operation,
                began: clock::mono_now(),
            };
            ask.await
        })
    }
}

impl Store for Timed {
    fn apply(&self, op: Op) -> StoreFuture<'_, OpEnd> {
        let operation = match op {
            Op::Insert(_) => StoreOperation::Insert,
            Op::Replace { .. } => StoreOperation::Replace,
            Op::Remove { .. } => StoreOperation::Remove,
            Op::Expire { .. } => StoreOperation::Expire,
        };
        self.timed(operation, self.store.apply(op))
    }

    fn get(&self, scope: ScopeHash) -> StoreFuture<'_, Option<Record>> {
        self.timed(StoreOperation::Get, self.store.get(scope))
    }

    fn by_id(&self, id: OperationId) -> StoreFuture<'_, Option<Record>> {
        self.timed(StoreOperation::ById, self.store.by_id(id))
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        self.timed(StoreOperation::Scan, self.store.scan(scan))
    }

    fn due(&self, now: WallTime, limit: u32) -> StoreFuture<'_, Page> {
        self.timed(StoreOperation::Due, self.store.due(now, limit))
    }

    fn count(&self, tenant: Tenant, now: WallTime) -> StoreFuture<'_, u64> {
        self.timed(StoreOperation::Count, self.store.count(tenant, now))
    }

    fn now(&self) -> StoreFuture<'_, WallTime> {
        self.store.now()
    }

    fn ahead(&self) -> StoreFuture<'_, Duration> {
        self.store.ahead()
    }

    fn secrets(&self) -> StoreFuture<'_, Secrets> {
        self.store.secrets()
    }

    fn changed(&self, scope: ScopeHash, seen: Guard) -> StoreFuture<'_, Option<Record>> {
        self.store.changed(scope, seen)
    }

    fn status(&self) -> StoreFuture<'_, Status> {
        self.timed(StoreOperation::Status, self.store.status())
    }

    /// Timed as [`Store::status`] is: both count all rows, for people.
    fn stats(&self, now: WallTime, tenants: u32) -> StoreFuture<'_, Stats> {
        self.timed(StoreOperation::Status, self.store.stats(now, tenants))
    }
}
