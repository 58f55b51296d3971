//! Claiming a record: one durable write that at most one caller of a key wins.

use std::sync::Arc;

use steadfast_core::key::ScopeHash;
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::record::{self, Admission, OperationId, Owner, Record, Request, Start};
use steadfast_core::time::MonoTime;
use tokio::sync::oneshot;

use super::execute::Execute;
use super::work::{Gate, Reply};
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
    let Ok(permit) = Arc::clone(&server.inner.tasks).try_acquire_owned() else {
        let detail = "Too many keyed requests are at work; nothing was sent. Send the same request with \
                      the same key again.";
        return Reply::problem(&Problem::new(Slug::Overloaded, detail));
    };
    let gate = Arc::new(Gate::default());
    let (answer, answered) = oneshot::channel();
    let left = asked.deadline.remaining(clock::mono_now());
    let task = work::run(server.clone(), asked, execute, Arc::clone(&gate), answer);
    tokio::spawn(async move {
        let _permit = permit;
        task.await;
    });
    match clock::within(left, answered).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) | Err(clock::Elapsed) => match gate.leave() {
            Some(id) => Reply::problem(&reply::still_running(id)),
            None => Reply::problem(&reply::too_late()),
        },
    }
}

/// Claims the record of `asked`, within the route's `store_timeout`.
pub(super) async fn claim(server: &Server, asked: &Asked, start: Start) -> Claim {
    let owner = server.owner();
    let id = OperationId::from_bits(clock::random_bits());
    let request = asked.request(owner, id);
    let limit = asked.policy.idempotency.store_timeout;
    match clock::within(limit, rounds(server, asked, &request, start)).await {
        Ok(Ok(claim)) => claim,
        Ok(Err(StoreError::Full(_) | StoreError::ReadOnly(_) | StoreError::Closed)) => {
            Claim::NoStore
        }
        Ok(Err(StoreError::Unreadable(why))) => {
            tracing::error!(reason = %why, "a stored record cannot be read; the request is refused");
            Claim::NoStore
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
    for _ in 0..ROUNDS_MAX {
        let asked_at = clock::mono_now();
        let now = server.store().now().await?;
        let first = record::reserve(request, start, now);
        let end = server
            .store()
            .apply(Op::Insert(Box::new(first.clone())))
            .await?;
        let row = match Written::of(&first, end) {
            Written::Done(row) => return Ok(Claim::Own(row, asked_at)),
            Written::Gone => continue,
            Written::Stands(row) => row,
        };
        if let Some(claim) = meet(server, asked, request, start, row, asked_at).await? {
            return Ok(claim);
        }
    }
    Ok(Claim::Meets(Reply::problem(&reply::in_progress(
        request.id,
    ))))
}

/// What `request` does at the row that stands; `None` to ask again.
async fn meet(
    server: &Server,
    asked: &Asked,
    request: &Request,
    start: Start,
    row: Box<Record>,
    asked_at: MonoTime,
) -> Result<Option<Claim>, StoreError> {
    if row.standing.owner == request.owner && row.is_held() {
        return Ok(Some(Claim::Own(row, asked_at)));
    }
    let now = server.store().now().await?;
    if server.inner.withdrawn.holds(&row) {
        put_back(server, asked.scope, &row, row.standing.owner).await?;
        return Ok(None);
    }
    let same = server.sameness(&row, asked);
    let unrenewed = server.inner.leases.unrenewed_for(&row);
    let expiry = server.inner.trust.allows_expiry(now, clock::mono_now());
    let repeats = asked.may_repeat(row.standing.honours_key);
    let meets = |reply| Ok(Some(Claim::Meets(reply)));
    match record::admit(&row, request, same, start, now, unrenewed, expiry) {
        Admission::TakeOver(next, guard) => {
            let op = Op::Replace {
                next: next.clone(),
                guard,
                draw: true,
            };
            match Written::of(&next, server.store().apply(op).await?) {
                Written::Done(row) => Ok(Some(Claim::Own(row, asked_at))),
                Written::Stands(_) | Written::Gone => Ok(None),
            }
        }
        Admission::Recover(change) => {
            withdraw::apply(server, asked.scope, change).await?;
            Ok(None)
        }
        Admission::InFlight => meets(Reply::InFlight(row)),
        Admission::Deferred => meets(Reply::Answer(Box::new(reply::accepted(&row)))),
        Admission::Mismatch => meets(Reply::problem(&reply::key_reused(row.id))),
        Admission::Unknown => meets(Reply::problem(&reply::unknown(row.id, repeats))),
        Admission::Unreadable => {
            tracing::error!(operation = %row.id, "a fingerprint's secret is not known here");
            meets(Reply::problem(&asked.store_unavailable()))
        }
        Admission::NotStored | Admission::Replay => {
            let given = reply::settled(row.id, &row.standing, repeats);
            meets(Reply::Answer(Box::new(given)))
        }
    }
}

/// Puts back what stood before a hold under which nothing was sent; where that fails, goes on trying.
pub(super) async fn put_back(
    server: &Server,
    scope: ScopeHash,
    row: &Record,
    token: Owner,
) -> Result<bool, StoreError> {
    let now = server.store().now().await?;
    match record::withdraw(row, token, now) {
        Some(change) => withdraw::apply(server, scope, change).await,
        None => Ok(false),
    }
}
