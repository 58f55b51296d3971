//! The queue against an engine that does what a test says.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use futures_util::FutureExt as _;
use steadfast_core::record::Guard;

use super::*;
use crate::store::conformance::rows;

/// Tells each batch that it is given, and waits for what to make of it.
struct Told {
    batches: Sender<Vec<ScopeHash>>,
    fates: Receiver<Result<(), StoreError>>,
}

impl Engine for Told {
    fn apply(&mut self, ops: &[Op]) -> Committed {
        let scope = |op: &Op| match op {
            Op::Remove { scope, .. } => *scope,
            other => panic!("{other:?} is not written here"),
        };
        let _ = self.batches.send(ops.iter().map(scope).collect());
        self.fates.recv().unwrap_or(Ok(()))?;
        Ok(ops.iter().map(|_| Ok(Applied::Removed)).collect())
    }
}

fn told() -> (
    Batcher,
    Receiver<Vec<ScopeHash>>,
    Sender<Result<(), StoreError>>,
) {
    let ((batches, given), (fate, fates)) = (channel(), channel());
    let hub = Arc::default();
    let body = move |turns: Turns| turns.serve(&mut Told { batches, fates });
    (Batcher::start(hub, body).expect("a thread"), given, fate)
}

fn remove(n: u64) -> Op {
    let owner = rows::owner(n);
    Op::Remove {
        scope: rows::scope(n),
        guard: Guard { owner, version: 1 },
    }
}

/// Sent, as far as a future is sent by its first poll.
fn sent(batcher: &Batcher, n: u64) -> StoreFuture<'_, OpEnd> {
    let mut write = batcher.apply(remove(n));
    assert!((&mut write).now_or_never().is_none());
    write
}

fn scopes(of: &[u64]) -> Vec<ScopeHash> {
    of.iter().map(|n| rows::scope(*n)).collect()
}

#[tokio::test]
async fn what_waits_is_committed_together_in_order_less_what_nobody_waits_for() {
    let (batcher, given, fate) = told();
    let first = sent(&batcher, 1);
    assert_eq!(given.recv(), Ok(scopes(&[1])), "the writer is at work");
    let (second, left, third) = (sent(&batcher, 2), sent(&batcher, 3), sent(&batcher, 4));
    drop(left);
    fate.send(Ok(())).expect("it listens");
    assert_eq!(first.await, Ok(OpEnd::Done(None)));
    assert_eq!(
        given.recv(),
        Ok(scopes(&[2, 4])),
        "one commit, without the one that left"
    );
    fate.send(Ok(())).expect("it listens");
    assert_eq!(
        (second.await, third.await),
        (Ok(OpEnd::Done(None)), Ok(OpEnd::Done(None)))
    );
}

#[tokio::test]
async fn a_commit_that_fails_fails_for_all_of_it_and_for_nobody_else() {
    let (batcher, given, fate) = told();
    let first = sent(&batcher, 1);
    given.recv().expect("the writer is at work");
    let (second, third) = (sent(&batcher, 2), sent(&batcher, 3));
    let full = StoreError::Full("no room".to_owned());
    for word in [Ok(()), Err(full.clone())] {
        fate.send(word).expect("it listens");
    }
    assert_eq!(first.await, Ok(OpEnd::Done(None)));
    assert_eq!((second.await, third.await), (Err(full.clone()), Err(full)));
    let fourth = sent(&batcher, 4);
    fate.send(Ok(())).expect("it listens");
    assert_eq!(fourth.await, Ok(OpEnd::Done(None)));
}

#[tokio::test]
async fn a_writer_that_ends_early_leaves_no_caller_waiting() {
    let batcher = Batcher::start(Arc::default(), drop).expect("a thread");
    assert!(batcher.apply(remove(1)).await.is_err());
}

#[test]
fn dropping_it_waits_for_what_is_being_written() {
    let (batcher, given, fate) = told();
    let write = sent(&batcher, 1);
    given.recv().expect("the writer is at work");
    drop(write);
    drop(fate);
    drop(batcher);
    let ended = given.try_recv();
    assert_eq!(ended, Err(TryRecvError::Disconnected), "it has ended");
}
