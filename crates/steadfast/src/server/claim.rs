//! Claiming a record: one durable write that at most one caller of a key wins.

use std::sync::Arc;

use steadfast_core::record::{self, Admission, Guard, OperationId, Record, Request, Start};
use steadfast_core::time::MonoTime;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::caller::{Gate, Given, Reply};
use super::execute::Execute;
use super::{Asked, Server, reply, withdraw, work};
use crate::clock;
use crate::store::{Op, StoreError, Written};

/// Rounds of asking the store before a claim gives up: each means that the row changed between two
/// steps, so a handful is a storm already.
const ROUNDS_MAX: u32 = 16;

/// What a claim came to.
pub(super) enum Claim {
    /// The row is ours; the clock was read before the write was asked for.
    Own(Box<Record>, MonoTime),
    /// Another row stands: this is what its caller is given.
    Meets(Reply),
    /// The store gave no answer. Whether a row is there is not known; it is being withdrawn.
    NoStore,
}

/// Starts the work of `asked` on a task of its own, and waits for its answer inside the caller's
/// deadline. The task ends by itself, whoever still waits for it.
pub(super) async fn start<E: Execute>(server: &Server, asked: Arc<Asked>, execute: E) -> Reply {
    let left = asked.deadline.remaining(clock::mono_now());
    if left.is_zero() {
        return Reply::problem(&reply::too_late());
    }
    let Ok(permit) = Arc::clone(&server.inner.tasks).try_acquire_owned() else {
        return Reply::problem(&match Box::pin(look(server, &asked)).await {
            Looked::Met(reply) => return reply,
            Looked::Nothing => reply::overloaded(),
            Looked::NoStore => asked.store_unavailable(),
        });
    };
    let gate = Arc::new(Gate::default());
    let answered = begin(server, asked, execute, &gate, permit);
    match clock::within(left, answered).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) | Err(clock::Elapsed) => Reply::problem(&gate.leave().problem()),
    }
}

/// The task. Begun outside of the caller's future, which would carry the task's own room with it.
fn begin<E: Execute>(
    server: &Server,
    asked: Arc<Asked>,
    execute: E,
    gate: &Arc<Gate>,
    permit: OwnedSemaphorePermit,
) -> oneshot::Receiver<Reply> {
    let (answer, answered) = oneshot::channel();
    let (server, gate) = (server.clone(), Arc::clone(gate));
    // Boxed: it is some 26 KB, and starting a task moves it several times over.
    tokio::spawn(Box::pin(async move {
        let _permit = permit;
        work::run(server, asked, execute, gate, answer).await;
    }));
    answered
}

/// What stands where nothing new may start.
pub(super) enum Looked {
    /// This is what the caller is given of it.
    Met(Reply),
    /// Nothing that could be given.
    Nothing,
    /// The store gave no answer.
    NoStore,
}

/// What `asked` meets where nothing new may start: a finished answer is not hidden by that.
pub(super) async fn look(server: &Server, asked: &Asked) -> Looked {
    let request = asked.request(
        server.owner(),
        OperationId::new(&asked.scope, clock::random_bits()),
    );
    let looks = async {
        for _ in 0..ROUNDS_MAX {
            let Some(row) = server.store().get(asked.scope).await? else {
                break;
            };
            match meet(server, asked, &request, Start::Reserved, &row).await? {
                Met::Reply(reply) => return Ok(Looked::Met(reply)),
                Met::Start(..) => break,
                Met::Changed => {}
            }
        }
        Ok::<_, StoreError>(Looked::Nothing)
    };
    let limit = asked.policy.idempotency.store_timeout;
    let looked = clock::within(limit, looks).await;
    looked.ok().and_then(Result::ok).unwrap_or(Looked::NoStore)
}

/// Claims the record of `asked`, within the route's `store_timeout`.
pub(super) async fn claim(server: &Server, asked: &Asked, start: Start) -> Claim {
    let owner = server.owner();
    let id = OperationId::new(&asked.scope, clock::random_bits());
    let request = asked.request(owner, id);
    let limit = asked.policy.idempotency.store_timeout;
    match clock::within(limit, rounds(server, asked, &request, start)).await {
        Ok(Ok(claim)) => claim,
        // It takes no writes, but may still know: a finished answer is not hidden by that.
        Ok(Err(StoreError::Full(_) | StoreError::ReadOnly(_))) => {
            match Box::pin(look(server, asked)).await {
                Looked::Met(reply) => Claim::Meets(reply),
                Looked::Nothing => Claim::NoStore,
                // A row may stand that could not be dealt with: it is not passed by.
                Looked::NoStore => Claim::Meets(Reply::problem(&asked.store_unavailable())),
            }
        }
        Ok(Err(StoreError::Closed)) => Claim::NoStore,
        // Not a store that is away: a record is there, and whoever cannot read it must not execute.
        Ok(Err(StoreError::Unreadable(why))) => {
            tracing::error!(
                reason = why.to_string(),
                "a stored record cannot be read; refused"
            );
            Claim::Meets(Reply::problem(&asked.store_unavailable()))
        }
        Ok(Err(StoreError::Unavailable(_))) | Err(clock::Elapsed) => {
            withdraw::begin(server, asked.scope, owner, request.lease);
            Claim::NoStore
        }
    }
}

async fn rounds(
    server: &Server,
    asked: &Asked,
    request: &Request,
    start: Start,
) -> Result<Claim, StoreError> {
    let mut last = request.id;
    for _ in 0..ROUNDS_MAX {
        let asked_at = clock::mono_now();
        let now = server.store().now().await?;
        let first = record::reserve(request, start, now);
        let op = Op::Insert(Box::new(first.clone()));
        let row = match Written::of(&first, server.store().apply(op).await?) {
            Written::Done(row) => return Ok(Claim::Own(row, asked_at)),
            Written::Gone => continue,
            Written::Stands(row) => row,
        };
        last = row.id;
        if row.standing.owner == request.owner && row.is_held() {
            return Ok(Claim::Own(row, asked_at));
        }
        let (next, guard) = match meet(server, asked, request, start, &row).await? {
            Met::Reply(reply) => return Ok(Claim::Meets(reply)),
            Met::Changed => continue,
            Met::Start(next, guard) => (next, guard),
        };
        let op = Op::Replace {
            next: next.clone(),
            guard,
            draw: true,
        };
        if let Written::Done(row) = Written::of(&next, server.store().apply(op).await?) {
            return Ok(Claim::Own(row, asked_at));
        }
    }
    Ok(Claim::Meets(Reply::problem(&reply::in_progress(last))))
}

/// What a request meets at a row.
enum Met {
    /// This is what its caller is given.
    Reply(Reply),
    /// It may start, by this row under this guard.
    Start(Box<Record>, Guard),
    /// The row was, or has to be, changed first: ask again.
    Changed,
}

async fn meet(
    server: &Server,
    asked: &Asked,
    request: &Request,
    start: Start,
    row: &Record,
) -> Result<Met, StoreError> {
    let now = server.store().now().await?;
    if server.inner.withdrawn.holds(row)
        && let Some(change) = record::withdraw(row, row.standing.owner, now)
    {
        withdraw::apply(server, asked.scope, change).await?;
        return Ok(Met::Changed);
    }
    let same = server.sameness(row, asked);
    let unrenewed = server.inner.leases.unrenewed_for(row);
    let expiry = server.inner.trust.allows_expiry(now, clock::mono_now());
    let repeats = asked.may_repeat(&row.standing);
    let problem = |problem| Reply::problem(&problem);
    Ok(Met::Reply(
        match record::admit(row, request, same, start, now, unrenewed, expiry) {
            Admission::TakeOver(next, guard) => return Ok(Met::Start(next, guard)),
            Admission::Recover(change) => {
                tracing::warn!(operation = %row.id, state = %row.standing.state, "a lease ended");
                withdraw::recover(server, row, change).await?;
                return Ok(Met::Changed);
            }
            Admission::InFlight => Reply::InFlight(Box::new(row.clone())),
            Admission::Deferred => Reply::Answer(Box::new(Given::accepted(row))),
            Admission::Mismatch => problem(reply::key_reused(row.id)),
            Admission::Unknown => problem(reply::unknown(row.id, repeats)),
            Admission::Unreadable => {
                tracing::error!(operation = %row.id, "a fingerprint's secret is not known here");
                problem(asked.store_unavailable())
            }
            Admission::NotStored => {
                let standing = row.standing.without_body();
                let given = Given::settled(row.id, &standing, repeats, false);
                Reply::Answer(Box::new(given))
            }
            Admission::Replay => {
                let given = Given::settled(row.id, &row.standing, repeats, false);
                Reply::Answer(Box::new(given))
            }
        },
    ))
}
