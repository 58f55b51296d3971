//! What an operator does to a record, over any store: the same two acts for the command line and
//! the admin address (O2). Both are guarded by the version seen.

use std::fmt;
use std::time::Duration;

use steadfast_core::record::{
    self, Change, NotDroppable, NotSettleable, Owner, Record, State, StoredAnswer,
};
use steadfast_core::time::WallTime;

use super::reply;
use crate::clock;
use crate::store::{Op, Store, StoreError, Written};

/// Why a record was not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// There is no such record.
    Absent,
    /// It changed between being read and being written: look again.
    Changed(State),
    /// It is settled; only unknown and deferred records are settled by hand.
    State(State),
    /// Somebody holds it until this date.
    AtWork(State, WallTime),
    /// It was reserved, nothing was sent, and its lease is over: it is about to be removed.
    Lapsed,
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
                "the record is {state}; only unknown and deferred records can be settled by hand, \
                 and one at work once its lease has ended"
            ),
            NotDone::AtWork(state, until) => write!(
                f,
                "the record is {state}: it is at work, and held until {}; wait for its end, or \
                 settle it once its lease is over",
                until.rfc3339()
            ),
            NotDone::Lapsed => f.write_str(
                "the record is reserved and its lease is over: nothing was sent, so there is \
                 nothing to settle; the sweeper of a gateway removes it, or `steadfast keys \
                 sweep`, and then its key may run again",
            ),
            NotDone::Store(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for NotDone {}

/// Gives `answer` as that of the operation whose record was `seen`. `by` names the operator in the
/// history. Nothing is changed where the record is not the one that was seen any more.
pub async fn resolve(
    store: &dyn Store,
    seen: &Record,
    answer: StoredAnswer,
    by: &str,
) -> Result<Record, NotDone> {
    act(store, seen, |row, token, now| {
        record::resolve(row, answer, token, by, now)
    })
    .await
}

/// Declares the operation whose record was `seen` not executed, so that the same request may go
/// again. Nothing is changed where the record is not the one that was seen any more.
pub async fn release(store: &dyn Store, seen: &Record, by: &str) -> Result<Record, NotDone> {
    act(store, seen, |row, token, now| {
        record::release(row, token, by, now)
    })
    .await
}

/// Takes the operation whose record was `seen` out of the queue: 410 `dropped` is what every
/// duplicate is given. Refused once it may have been sent. Nothing is changed where the record is
/// not the one that was seen any more.
pub async fn drop_deferred(
    store: &dyn Store,
    seen: &Record,
    by: &str,
) -> Result<Record, NotDropped> {
    let now = store.now().await.map_err(NotDone::Store)?;
    let lost = match record::recover(seen, now, Duration::ZERO) {
        Some(Change::Put(next, _)) => Some(replace(store, seen, *next).await?),
        Some(Change::Remove(_)) => return Err(NotDropped::NotDone(NotDone::Lapsed)),
        None => None,
    };
    let row = lost.as_ref().unwrap_or(seen);
    let token = Owner::new(0, clock::random_bits());
    let next = record::discard(row, reply::dropped(row.id), token, by, now)
        .map_err(NotDropped::Refused)?;
    let row = replace(store, row, next).await?;
    tracing::info!(operation = %row.id, by, "an operator took an operation out of the queue");
    Ok(row)
}

/// Why an operation was not taken out of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDropped {
    /// Its record says so.
    Refused(NotDroppable),
    /// It could not be done.
    NotDone(NotDone),
}

impl From<NotDone> for NotDropped {
    fn from(why: NotDone) -> NotDropped {
        NotDropped::NotDone(why)
    }
}

impl fmt::Display for NotDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDropped::NotDone(why) => why.fmt(f),
            NotDropped::Refused(NotDroppable::Sent(state)) => write!(
                f,
                "the operation is {state}: it was sent, or is being sent, so dropping it would \
                 forget what it did; wait for its end, or settle it with `steadfast keys resolve` \
                 or `keys release`"
            ),
            NotDropped::Refused(NotDroppable::NotDeferred(state)) => write!(
                f,
                "the operation is {state}, and not in the queue; `steadfast deferred list` shows \
                 what is"
            ),
        }
    }
}

impl std::error::Error for NotDropped {}

/// Whether the record can be settled by hand at `now`: it is unknown or deferred, or will be so as
/// soon as its lost lease is written down.
pub fn can_be_settled(row: &Record, now: WallTime) -> bool {
    let state = match record::recover(row, now, Duration::ZERO) {
        Some(Change::Put(next, _)) => next.standing.state,
        Some(Change::Remove(_)) => return false,
        None => row.standing.state,
    };
    matches!(state, State::Unknown | State::Deferred)
}

async fn act(
    store: &dyn Store,
    seen: &Record,
    step: impl FnOnce(&Record, Owner, WallTime) -> Result<Record, NotSettleable>,
) -> Result<Record, NotDone> {
    let now = store.now().await.map_err(NotDone::Store)?;
    // Where no gateway runs, an operator is the first to meet a lease that has ended.
    let lost = match record::recover(seen, now, Duration::ZERO) {
        Some(Change::Put(next, _)) => Some(replace(store, seen, *next).await?),
        Some(Change::Remove(_)) => return Err(NotDone::Lapsed),
        None => None,
    };
    let row = lost.as_ref().unwrap_or(seen);
    // An operator is no instance: whatever process holds the record loses it by this owner.
    let token = Owner::new(0, clock::random_bits());
    let next = step(row, token, now).map_err(|refused| match row.standing.locked_until {
        Some(until) => NotDone::AtWork(refused.0, until),
        None => NotDone::State(refused.0),
    })?;
    let row = replace(store, row, next).await?;
    let last = row.history.last();
    let (event, by) = last.map_or(("", ""), |last| (last.event, last.by.as_str()));
    tracing::info!(operation = %row.id, event, by, "an operator settled a record");
    Ok(row)
}

async fn replace(store: &dyn Store, row: &Record, next: Record) -> Result<Record, NotDone> {
    let op = Op::Replace {
        next: Box::new(next.clone()),
        guard: row.guard(),
        draw: false,
    };
    match Written::of(&next, store.apply(op).await.map_err(NotDone::Store)?) {
        Written::Done(row) => Ok(*row),
        Written::Stands(row) => Err(NotDone::Changed(row.standing.state)),
        Written::Gone => Err(NotDone::Absent),
    }
}
