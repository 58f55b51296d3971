//! One writer, many waiting writes, one commit.
//!
//! Decides which writes share a commit and when their callers are told: after it, all together. It
//! refuses to know what is written and where. Rule: a write whose caller left before it began is
//! never begun; of two writes to one key the first to come is applied first; a write that fails
//! alone leaves the others of its batch alone; a commit that fails fails for all of them. Source:
//! ARCHITECTURE.md; the commit shared by all who wait is what makes durability cheap
//! (ARCHITECTURE.md).

use std::sync::Arc;
use std::thread::JoinHandle;

use steadfast_core::key::ScopeHash;
use steadfast_core::record::Record;
use tokio::sync::{mpsc, oneshot};

use super::watch::Hub;
use super::{Op, OpEnd, StoreError, StoreFuture};

/// Writes in one commit. More do not make it cheaper, and everybody waits for the last of them.
const BATCH_OPS: usize = 1024;

/// Answer bytes in one commit, so that a batch of large answers does not become one huge log
/// write.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Writes that wait for the writer; beyond, callers wait for room.
const QUEUE_OPS: usize = 4096;

/// What one write came to, without the row that its caller sent.
#[derive(Debug)]
pub(crate) enum Applied {
    /// Done, with the fence that was drawn, if one was.
    Done { fence: Option<u64> },
    /// The guard does not hold: this stands.
    Stands(Option<Box<Record>>),
    /// The row is gone.
    Removed,
    /// These rows are gone.
    Expired(Vec<ScopeHash>),
}

/// What a commit came to: an end for each write, or one error and nothing done.
pub(crate) type Committed = Result<Vec<Result<Applied, StoreError>>, StoreError>;

/// A place that performs writes, many at a time. Lives on the writer's thread.
pub(crate) trait Engine {
    /// Performs `ops` in order, in one commit.
    fn apply(&mut self, ops: &[Op]) -> Committed;

    /// Called after the callers were told: house-keeping off the commit path.
    fn rest(&mut self) {}
}

struct Waiting {
    op: Op,
    reply: oneshot::Sender<Result<OpEnd, StoreError>>,
}

/// The queue in front of an [`Engine`]. Dropping it performs what is queued and ends the thread.
pub(crate) struct Batcher {
    queue: Option<mpsc::Sender<Waiting>>,
    thread: Option<JoinHandle<()>>,
}

/// The writer thread's side: give it the engine that was made on that thread.
pub(crate) struct Turns {
    queue: mpsc::Receiver<Waiting>,
    hub: Arc<Hub>,
}

impl Batcher {
    /// Starts the writer thread. `body` makes the engine there and calls [`Turns::serve`] with it.
    pub(crate) fn start(
        hub: Arc<Hub>,
        body: impl FnOnce(Turns) + Send + 'static,
    ) -> std::io::Result<Batcher> {
        let (sender, queue) = mpsc::channel(QUEUE_OPS);
        let thread = std::thread::Builder::new()
            .name("steadfast-store".to_owned())
            .spawn(move || body(Turns { queue, hub }))?;
        Ok(Batcher {
            queue: Some(sender),
            thread: Some(thread),
        })
    }

    /// Performs `op` with the next commit.
    pub(crate) fn apply(&self, op: Op) -> StoreFuture<'_, OpEnd> {
        Box::pin(async move {
            let queue = self.queue.as_ref().ok_or(StoreError::Closed)?;
            let (reply, end) = oneshot::channel();
            let waiting = Waiting { op, reply };
            queue.send(waiting).await.map_err(|_| StoreError::Closed)?;
            end.await.unwrap_or_else(|_| {
                let why = "its writer ended in the middle of a write; restart the process";
                Err(StoreError::Unavailable(why.to_owned()))
            })
        })
    }
}

impl Drop for Batcher {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has told its callers by going away.
            let _ = thread.join();
        }
    }
}

impl Turns {
    /// Performs writes until the [`Batcher`] is dropped.
    pub(crate) fn serve(mut self, engine: &mut dyn Engine) {
        while let Some(first) = self.queue.blocking_recv() {
            let (ops, replies) = self.gather(first);
            if ops.is_empty() {
                continue;
            }
            let ends = match engine.apply(&ops) {
                Ok(applied) => conclude(&self.hub, ops, applied),
                Err(error) => ops.iter().map(|_| Err(error.clone())).collect(),
            };
            for (reply, end) in replies.into_iter().zip(ends) {
                // Who left in the meantime learns by reading what became of the write.
                let _ = reply.send(end);
            }
            engine.rest();
        }
    }

    /// All that waits now, up to the bounds, less what nobody waits for any more.
    fn gather(
        &mut self,
        first: Waiting,
    ) -> (Vec<Op>, Vec<oneshot::Sender<Result<OpEnd, StoreError>>>) {
        let (mut ops, mut replies) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(Waiting { op, reply }) = next {
            if !reply.is_closed() {
                bytes += body_bytes(&op);
                ops.push(op);
                replies.push(reply);
            }
            let room = ops.len() < BATCH_OPS && bytes < BATCH_BYTES;
            next = room.then(|| self.queue.try_recv().ok()).flatten();
        }
        (ops, replies)
    }
}

fn body_bytes(op: &Op) -> usize {
    use steadfast_core::record::Answer;
    match op {
        Op::Insert(row) | Op::Replace { next: row, .. } => match &row.standing.answer {
            Answer::Stored(answer) => answer.body.len(),
            Answer::None | Answer::NotStored(_) => 0,
        },
        Op::Remove { .. } | Op::Expire { .. } => 0,
    }
}

/// Wakes who waits for the rows, and makes the callers' answers.
fn conclude(
    hub: &Hub,
    ops: Vec<Op>,
    applied: Vec<Result<Applied, StoreError>>,
) -> Vec<Result<OpEnd, StoreError>> {
    let mut changes: Vec<(ScopeHash, Option<usize>)> = Vec::new();
    let mut ends = Vec::with_capacity(ops.len());
    for (op, applied) in ops.into_iter().zip(applied) {
        let end = applied.map(|applied| match (op, applied) {
            (Op::Insert(mut row) | Op::Replace { next: mut row, .. }, Applied::Done { fence }) => {
                row.standing.fence = fence.unwrap_or(row.standing.fence);
                changes.push((row.scope, Some(ends.len())));
                OpEnd::Done(Some(row))
            }
            (Op::Remove { scope, .. }, Applied::Removed) => {
                changes.push((scope, None));
                OpEnd::Done(None)
            }
            (_, Applied::Expired(scopes)) => {
                let count = u32::try_from(scopes.len()).unwrap_or(u32::MAX);
                changes.extend(scopes.into_iter().map(|scope| (scope, None)));
                OpEnd::Expired(count)
            }
            (_, Applied::Stands(row)) => OpEnd::Stands(row),
            (_, Applied::Done { .. } | Applied::Removed) => OpEnd::Done(None),
        });
        ends.push(end);
    }
    let row = |at: &Option<usize>| match ends.get((*at)?) {
        Some(Ok(OpEnd::Done(Some(row)))) => Some(&**row),
        _ => None,
    };
    hub.publish(changes.iter().map(|(scope, at)| (scope, row(at))));
    ends
}

#[cfg(test)]
mod tests;
