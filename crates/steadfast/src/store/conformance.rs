//! What any store must do, as a suite to run against it.
//!
//! Decides the contract of [`Store`]: a store that passes behaves alike in everything that the
//! layer, the sweeper and the commands rely on. It refuses to know which store it drives. A store's
//! own test calls [`exercise`] with a function that makes an empty one. Source: ARCHITECTURE.md,
//! "Rooms"; docs/keyed-requests.md.

use std::time::Duration;

use steadfast_core::record::{self, Guard, Record};

use super::{Op, OpEnd, Store};
use crate::clock;

pub mod rows;
mod views;
mod writes;

/// The outer bound of every wait. A store that needs it is stuck: it is never what a rule is
/// about.
const STUCK: Duration = Duration::from_secs(60);

/// Runs the whole suite. `make` gives an empty store with nobody else on it each time it is
/// called.
///
/// # Panics
/// Where the store breaks a rule; the message names it.
pub async fn exercise<S: Store>(make: impl Fn() -> S) {
    writes::exercise(&make).await;
    views::exercise(&make).await;
}

/// Awaits within the outer bound.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    clock::within(STUCK, future)
        .await
        .expect("the store is stuck")
}

/// Performs `op`, which must not fail.
async fn apply<S: Store>(store: &S, op: Op) -> OpEnd {
    soon(store.apply(op))
        .await
        .expect("the store performs a write")
}

/// The row that a done write gives back.
fn done(end: OpEnd) -> Record {
    match end {
        OpEnd::Done(Some(row)) => *row,
        other => panic!("the write should be done, got {other:?}"),
    }
}

async fn insert<S: Store>(store: &S, row: &Record) -> Record {
    done(apply(store, Op::Insert(Box::new(row.clone()))).await)
}

fn replacement(next: &Record, guard: Guard, draw: bool) -> Op {
    let next = Box::new(next.clone());
    Op::Replace { next, guard, draw }
}

/// The same row, written again by its holder.
fn renewed(row: &Record) -> Record {
    record::renew(row, row.updated_at.plus(Duration::from_millis(5)))
}
