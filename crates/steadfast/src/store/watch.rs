//! Who waits for which row, and who is woken when.
//!
//! Decides how a change reaches those who wait for it: the writer of this process hands the new row
//! over at once; one poll thread, at work only while somebody waits, finds what other processes
//! wrote. It refuses to know what a row means. Rule: no lost wake-up. A waiter registers first and
//! looks second, so a change is either seen by the look or comes as a wake-up. Source:
//! docs/keyed-requests.md, "Duplicates" (woken by the event within a process, across processes
//! within 50 ms).

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast_core::key::ScopeHash;
use steadfast_core::record::{Guard, Record};
use tokio::sync::watch;

use super::{Store, StoreError};
use crate::clock;

/// Between two looks for other processes' writes. Two of them and a read fit into the 50 ms that
/// docs/keyed-requests.md promises.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);

/// What a waiter is told.
#[derive(Clone, Debug)]
enum Wake {
    /// Something may have changed: look.
    Look,
    /// This row stands now.
    Row(Arc<Record>),
}

/// Those who wait for one row.
struct Watched {
    wake: watch::Sender<Wake>,
    /// What each of them has seen.
    seen: Vec<Guard>,
}

#[derive(Default)]
struct Inner {
    scopes: HashMap<ScopeHash, Watched>,
    ended: bool,
}

/// All who wait for rows of one store.
#[derive(Default)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    /// Somebody began to wait, or the store ends.
    stirred: Condvar,
}

/// Finds what other processes wrote. Used on the poll thread only.
pub(crate) trait Foreign {
    /// Whether another process may have written since this was last asked. Costs next to nothing
    /// while nobody writes.
    fn may_have_written(&mut self) -> Result<bool, StoreError>;

    /// The guards of the rows under these scopes; those under which no row stands are left out.
    fn guards(&mut self, scopes: &[ScopeHash]) -> Result<HashMap<ScopeHash, Guard>, StoreError>;
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(self: &Arc<Hub>, scope: ScopeHash, seen: Guard) -> Waiter {
        let mut inner = self.lock();
        let watched = inner.scopes.entry(scope).or_insert_with(|| Watched {
            wake: watch::Sender::new(Wake::Look),
            seen: Vec::new(),
        });
        watched.seen.push(seen);
        let woken = watched.wake.subscribe();
        drop(inner);
        self.stirred.notify_all();
        Waiter {
            hub: Arc::clone(self),
            scope,
            seen,
            woken,
        }
    }

    /// Tells waiters what stands under these scopes after a commit, in the order of the writes.
    pub(crate) fn publish<'a>(
        &self,
        changes: impl Iterator<Item = (&'a ScopeHash, Option<&'a Record>)>,
    ) {
        let inner = self.lock();
        if inner.scopes.is_empty() {
            return;
        }
        for (scope, row) in changes {
            if let Some(watched) = inner.scopes.get(scope) {
                watched
                    .wake
                    .send_replace(row.map_or(Wake::Look, |row| Wake::Row(Arc::new(row.clone()))));
            }
        }
    }

    /// Looks for other processes' writes, every [`POLL_EVERY`] while somebody waits, until
    /// [`Hub::end`].
    pub(crate) fn poll(&self, foreign: &mut dyn Foreign) {
        while self.next_turn() {
            match foreign.may_have_written() {
                Ok(false) => {}
                Ok(true) => self.look(|scopes| foreign.guards(scopes)),
                // Each waiter looks for itself and gets the error that stands in the way.
                Err(error) => self.look(|_| Err(error)),
            }
        }
    }

    /// Wakes the waiters whose row is not any more what they have seen.
    fn look(
        &self,
        guards: impl FnOnce(&[ScopeHash]) -> Result<HashMap<ScopeHash, Guard>, StoreError>,
    ) {
        let scopes: Vec<ScopeHash> = self.lock().scopes.keys().copied().collect();
        let stand = guards(&scopes);
        for scope in scopes {
            if let Some(watched) = self.lock().scopes.get(&scope) {
                let stands = stand.as_ref().map(|stand| stand.get(&scope));
                let unchanged = |seen: &Guard| stands.as_ref().is_ok_and(|s| *s == Some(seen));
                if !watched.seen.iter().all(unchanged) {
                    watched.wake.send_replace(Wake::Look);
                }
            }
        }
    }

    /// Waits for the next turn of the poll; false once the store ends.
    fn next_turn(&self) -> bool {
        let mut inner = self.lock();
        while inner.scopes.is_empty() && !inner.ended {
            inner = self
                .stirred
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let ended = inner.ended;
        drop(inner);
        if !ended {
            clock::pause(POLL_EVERY);
        }
        !ended
    }

    /// Ends the poll. Waiters of this process are still woken by its writer.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.stirred.notify_all();
    }

    /// Scopes that somebody waits for.
    #[cfg(test)]
    pub(crate) fn watched(&self) -> usize {
        self.lock().scopes.len()
    }
}

/// One who waits. Leaves the hub when dropped.
struct Waiter {
    hub: Arc<Hub>,
    scope: ScopeHash,
    seen: Guard,
    woken: watch::Receiver<Wake>,
}

impl Waiter {
    async fn woken(&mut self) -> Wake {
        match self.woken.changed().await {
            Ok(()) => self.woken.borrow_and_update().clone(),
            // Not while this waiter is registered: the hub keeps the sender for as long.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut inner = self.hub.lock();
        let Some(watched) = inner.scopes.get_mut(&self.scope) else {
            return;
        };
        if let Some(mine) = watched.seen.iter().position(|seen| *seen == self.seen) {
            watched.seen.swap_remove(mine);
        }
        if watched.seen.is_empty() {
            inner.scopes.remove(&self.scope);
        }
    }
}

/// [`Store::changed`], for any store whose writer publishes to `hub`.
pub(crate) async fn changed<S: Store + ?Sized>(
    hub: &Arc<Hub>,
    store: &S,
    scope: ScopeHash,
    seen: Guard,
) -> Result<Option<Record>, StoreError> {
    let mut waiter = hub.register(scope, seen);
    loop {
        let row = store.get(scope).await?;
        if row.as_ref().map(Record::guard) != Some(seen) {
            return Ok(row);
        }
        // A row that is handed over may be older than what was seen, if another process wrote in
        // between: only one that is plainly newer is taken without a look.
        if let Wake::Row(row) = waiter.woken().await
            && row.version > seen.version
        {
            return Ok(Some(Record::clone(&row)));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::store::conformance::rows;
    use crate::store::memory::Memory;
    use crate::store::{Op, OpEnd};

    #[tokio::test]
    async fn who_stops_waiting_leaves_nothing_behind() {
        let (store, hub) = (Memory::new(), Arc::<Hub>::default());
        let end = store.apply(Op::Insert(Box::new(rows::reserved(1)))).await;
        let Ok(OpEnd::Done(Some(row))) = end else {
            panic!("inserted")
        };
        for _ in 0..2 {
            let mut waiting: Vec<_> = (0..300)
                .map(|_| Box::pin(changed(&hub, &store, row.scope, row.guard())))
                .collect();
            for waiter in &mut waiting {
                assert!(waiter.now_or_never().is_none());
            }
            assert_eq!(hub.watched(), 1);
            drop(waiting);
            assert_eq!(hub.watched(), 0);
        }
    }
}
