//! What an operator does to a record, over any store: the same two acts for the command line and
//! the admin address (O2). Both are guarded by the version seen.

use std::fmt;
use std::time::Duration;

use steadfast_core::record::{
    self, NotSettleable, OperationId, Owner, Record, State, StoredAnswer,
};
use steadfast_core::time::WallTime;

use crate::clock;
use crate::store::{Op, Store, StoreError, Written};

/// Why a record was not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// There is no such record.
    Absent,
    /// It changed between being read and being written: look again.
    Changed(State),
    /// Only unknown and deferred records are settled by hand.
    State(State),
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDone::Absent => f.write_str(
                "there is no record with this id; `steadfast keys list` shows those there are",
            ),
            NotDone::Changed(state) => {
                write!(
                    f,
                    "the record changed meanwhile and is now {state}; look at it and decide again"
                )
            }
            NotDone::State(state) => write!(
                f,
                "the record is {state}; only unknown and deferred records can be settled by hand"
            ),
            NotDone::Store(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for NotDone {}

/// Gives `answer` as the operation's. `by` names the operator in the history; `retention` is how
/// long the record is kept from now.
pub async fn resolve(
    store: &dyn Store,
    id: OperationId,
    answer: StoredAnswer,
    by: &str,
    retention: Duration,
) -> Result<Record, NotDone> {
    act(store, id, |row, token, now| {
        record::resolve(row, answer, token, by, retention, now)
    })
    .await
}

/// Declares the operation not executed, so that the same request may go again.
pub async fn release(
    store: &dyn Store,
    id: OperationId,
    by: &str,
    retention: Duration,
) -> Result<Record, NotDone> {
    act(store, id, |row, token, now| {
        record::release(row, token, by, retention, now)
    })
    .await
}

async fn act(
    store: &dyn Store,
    id: OperationId,
    step: impl FnOnce(&Record, Owner, WallTime) -> Result<Record, NotSettleable>,
) -> Result<Record, NotDone> {
    let row = store
        .by_id(id)
        .await
        .map_err(NotDone::Store)?
        .ok_or(NotDone::Absent)?;
    let now = store.now().await.map_err(NotDone::Store)?;
    // An operator is no instance: whatever process holds the record loses it by this owner.
    let token = Owner::new(0, clock::random_bits());
    let next = step(&row, token, now).map_err(|refused| NotDone::State(refused.0))?;
    let op = Op::Replace {
        next: Box::new(next.clone()),
        guard: row.guard(),
        draw: false,
    };
    match Written::of(&next, store.apply(op).await.map_err(NotDone::Store)?) {
        Written::Done(row) => {
            let last = row.history.last();
            let (event, by) = last.map_or(("", ""), |last| (last.event, last.by.as_str()));
            tracing::info!(operation = %id, event, by, "an operator settled a record");
            Ok(*row)
        }
        Written::Stands(row) => Err(NotDone::Changed(row.standing.state)),
        Written::Gone => Err(NotDone::Absent),
    }
}
