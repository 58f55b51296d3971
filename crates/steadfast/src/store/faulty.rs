//! A store that fails on purpose, at a chosen operation.
//!
//! Decides, from a [`Plan`], which call fails, waits, loses its reply or ends the process, before
//! or after the store behind it acted. It refuses to know what the calls are for. For tests only:
//! the released binary is built without it. Source: docs/keyed-requests.md, "States" (a reply that
//! did not arrive).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steadfast_core::key::{ScopeHash, Tenant};
use steadfast_core::record::{Guard, OperationId, Record, State};
use steadfast_core::time::WallTime;
use tokio::sync::watch;

use super::{Op, OpEnd, Page, Scan, Secrets, Stats, Status, Store, StoreError, StoreFuture};

mod plan;

pub use plan::{Action, Calls, Fault, Kind, Plan, PlanError, Point};

/// What a `crash` calls. It should not come back; where it does, the call fails.
pub type Crash = Arc<dyn Fn() + Send + Sync>;

/// A store before which a [`Plan`] stands.
pub struct Faulty<S> {
    store: S,
    plan: Mutex<Vec<Armed>>,
    gate: watch::Sender<bool>,
    met: watch::Sender<u64>,
    crash: Crash,
}

/// One fault and the calls of its kind so far.
struct Armed {
    fault: Fault,
    calls: AtomicU64,
}

/// What one call is to meet.
#[derive(Clone, Copy, Default)]
struct Fate {
    before: Option<Action>,
    after: Option<Action>,
}

impl<S: Store> Faulty<S> {
    /// Puts `plan` before `store`. A `crash` aborts the process.
    pub fn new(store: S, plan: Plan) -> Faulty<S> {
        Faulty::with_crash(store, plan, Arc::new(|| std::process::abort()))
    }

    /// The same, with what a `crash` does.
    pub fn with_crash(store: S, plan: Plan, crash: Crash) -> Faulty<S> {
        let faulty = Faulty {
            store,
            plan: Mutex::default(),
            gate: watch::Sender::new(false),
            met: watch::Sender::new(0),
            crash,
        };
        faulty.arm(plan);
        faulty
    }

    /// The store behind.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// The store behind, without the faults.
    pub fn into_inner(self) -> S {
        self.store
    }

    /// Takes another plan; its calls are counted from now on.
    pub fn arm(&self, plan: Plan) {
        let armed = |fault| Armed {
            fault,
            calls: AtomicU64::new(0),
        };
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) =
            plan.faults.into_iter().map(armed).collect();
    }

    /// Lets all go on that `hold` holds, now and later.
    pub fn release(&self) {
        self.gate.send_replace(true);
    }

    /// Waits until so many faults were met in all.
    pub async fn met(&self, faults: u64) {
        let mut met = self.met.subscribe();
        // The sender lives in `self`.
        let _ = met.wait_for(|so_far| *so_far >= faults).await;
    }

    fn fate(&self, is: impl Fn(Kind) -> bool) -> Fate {
        let mut fate = Fate::default();
        for armed in &*self.plan.lock().unwrap_or_else(PoisonError::into_inner) {
            if !is(armed.fault.kind) {
                continue;
            }
            let call = armed.calls.fetch_add(1, Ordering::AcqRel) + 1;
            if armed.fault.calls.contain(call) {
                let at = match armed.fault.point {
                    Point::Before => &mut fate.before,
                    Point::After => &mut fate.after,
                };
                *at = at.or(Some(armed.fault.action));
            }
        }
        fate
    }

    async fn meet(&self, action: Option<Action>, point: Point) -> Result<(), StoreError> {
        let Some(action) = action else { return Ok(()) };
        self.met.send_modify(|met| *met += 1);
        match action {
            Action::Fail => {}
            Action::Full => return Err(StoreError::Full("as planned".to_owned())),
            Action::Crash => (self.crash)(),
            Action::Hang => std::future::pending().await,
            Action::Hold => {
                let mut gate = self.gate.subscribe();
                let _ = gate.wait_for(|open| *open).await;
                return Ok(());
            }
        }
        Err(StoreError::Unavailable(format!("as planned, {point}")))
    }

    async fn call<T>(
        &self,
        is: impl Fn(Kind) -> bool,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let fate = self.fate(is);
        self.meet(fate.before, Point::Before).await?;
        let end = call.await;
        self.meet(fate.after, Point::After).await?;
        end
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        kind: Kind,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(self.call(move |of| of == kind || of == Kind::Read, call))
    }
}

impl<S: fmt::Debug> fmt::Debug for Faulty<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faulty").field(&self.store).finish()
    }
}

/// Whether a fault for `kind` is one for this write.
fn is_write(kind: Kind, written: Kind, state: Option<State>) -> bool {
    match kind {
        Kind::Write => true,
        Kind::To(wanted) => state == Some(wanted),
        other => other == written,
    }
}

impl<S: Store> Store for Faulty<S> {
    fn apply(&self, op: Op) -> StoreFuture<'_, OpEnd> {
        let (written, state) = match &op {
            Op::Insert(row) => (Kind::Insert, Some(row.standing.state)),
            Op::Replace { next, .. } => (Kind::Replace, Some(next.standing.state)),
            Op::Remove { .. } => (Kind::Remove, None),
            Op::Expire { .. } => (Kind::Expire, None),
        };
        Box::pin(self.call(
            move |kind| is_write(kind, written, state),
            self.store.apply(op),
        ))
    }

    fn get(&self, scope: ScopeHash) -> StoreFuture<'_, Option<Record>> {
        self.read(Kind::Get, self.store.get(scope))
    }

    fn by_id(&self, id: OperationId) -> StoreFuture<'_, Option<Record>> {
        self.read(Kind::ById, self.store.by_id(id))
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        self.read(Kind::Scan, self.store.scan(scan))
    }

    fn due(&self, now: WallTime, limit: u32) -> StoreFuture<'_, Page> {
        self.read(Kind::Due, self.store.due(now, limit))
    }

    fn count(&self, tenant: Tenant, now: WallTime) -> StoreFuture<'_, u64> {
        self.read(Kind::Count, self.store.count(tenant, now))
    }

    fn now(&self) -> StoreFuture<'_, WallTime> {
        self.read(Kind::Now, self.store.now())
    }

    fn ahead(&self) -> StoreFuture<'_, Duration> {
        self.read(Kind::Now, self.store.ahead())
    }

    fn secrets(&self) -> StoreFuture<'_, Secrets> {
        self.read(Kind::Secrets, self.store.secrets())
    }

    fn changed(&self, scope: ScopeHash, seen: Guard) -> StoreFuture<'_, Option<Record>> {
        self.read(Kind::Changed, self.store.changed(scope, seen))
    }

    fn status(&self) -> StoreFuture<'_, Status> {
        self.read(Kind::Status, self.store.status())
    }

    fn stats(&self, now: WallTime, tenants: u32) -> StoreFuture<'_, Stats> {
        self.read(Kind::Status, self.store.stats(now, tenants))
    }
}

#[cfg(test)]
mod tests;
