//! One operation's turn: it is read again, taken, sent, or given up.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::key::ScopeHash;
use steadfast_core::record::{self, Record, Step};
use steadfast_core::time::{MonoTime, WallTime};

use super::{Ran, Routed, Routes, Server, reply, step};
use crate::clock;
use crate::server::execute::Execute;
use crate::server::{deferring, withdraw, work};
use crate::store::{Op, StoreError, Written};

/// How long the queue waits for an answer of the store: nobody waits for it, and a due record may
/// be one of many.
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// What taking came to.
pub(super) enum Taken {
    /// The record is held here; the clock was read before the write was asked for.
    Held(Box<Record>, MonoTime),
    /// It is not: another was faster, it is not to be sent now, or the store gave no answer.
    Not,
}

/// The turn of the operation under `scope`, as it stands now.
pub(super) async fn turn<R: Routes>(server: Server, routes: R, scope: ScopeHash) -> Option<Ran> {
    let read = async {
        let row = server.store().get(scope).await?;
        let now = server.store().now().await?;
        Ok((row, now))
    };
    let (row, now) = timely(read).await.ok()?;
    let row = row?;
    let routed = routes.of_kept(&row)?;
    match step(&row, &routed, now) {
        Step::Run => {}
        Step::GiveUp => return give_up(&server, &row, now).await.ok()?,
        Step::Compensate | Step::Look | Step::Nothing | Step::Wait(_) => return None,
    }
    // A breaker that opened meanwhile: nothing is taken that would have to be given back.
    if let Some(Err(_)) = routed
        .execute
        .upstream()
        .map(|upstream| upstream.may_begin())
    {
        return None;
    }
    match take(&server, &row, &routed).await {
        Taken::Held(row, since) => run(server, routed, *row, since).await,
        Taken::Not => None,
    }
}

/// Takes `row` for a run. A write whose reply did not come is withdrawn: nothing was sent under it,
/// and what stood before stands again.
pub(super) async fn take<E>(server: &Server, row: &Record, routed: &Routed<E>) -> Taken {
    let rules = &routed.policy.idempotency;
    let (token, since) = (server.owner(), clock::mono_now());
    let write = async {
        let now = server.store().now().await?;
        let Some(next) = record::run(row, token, rules.on_unknown, now) else {
            return Ok(None);
        };
        let op = Op::Replace {
            next: Box::new(next.clone()),
            guard: row.guard(),
            draw: true,
        };
        Ok(Some(Written::of(&next, server.store().apply(op).await?)))
    };
    match clock::within(rules.store_timeout, write).await {
        Ok(Ok(Some(Written::Done(row)))) => Taken::Held(row, since),
        Ok(Ok(_)) => Taken::Not,
        // The write was not done.
        Ok(Err(StoreError::Full(_) | StoreError::ReadOnly(_) | StoreError::Closed)) => Taken::Not,
        Ok(Err(StoreError::Unavailable(_) | StoreError::Unreadable(_))) | Err(clock::Elapsed) => {
            withdraw::begin(server, row.scope, token, row.standing.lease);
            Taken::Not
        }
    }
}

/// Sends what is held, and gives what came of it.
pub(super) async fn run<E: Execute>(
    server: Server,
    routed: Routed<E>,
    row: Record,
    since: MonoTime,
) -> Option<Ran> {
    let Some(asked) = deferring::asked_again(&row, &routed.policy, routed.route) else {
        // Never while the store gives back what was put there: nothing was sent, so its lease ends
        // it, and an operator sees why.
        tracing::error!(operation = %row.id, "a kept request cannot be read as a request");
        return None;
    };
    let row = work::run_kept(server, Arc::new(asked), routed.execute, row, since).await;
    Some(Ran::of(&row))
}

/// The store's answer, as long as it is waited for: a place in the queue must not be held for ever
/// by one that says nothing.
pub(super) async fn timely<T>(
    ask: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    clock::within(ASK_LIMIT, ask).await.unwrap_or_else(|_| {
        let why = "it gave the queue no answer in time; see whether it is overloaded";
        Err(StoreError::Unavailable(why.to_owned()))
    })
}

/// Gives up what was in the queue for too long; `None` where it changed meanwhile.
pub(super) async fn give_up(
    server: &Server,
    row: &Record,
    now: WallTime,
) -> Result<Option<Ran>, StoreError> {
    let answer = reply::deferral_expired(row.id);
    let Some(next) = record::give_up(row, answer, server.owner(), now) else {
        return Ok(None);
    };
    let op = Op::Replace {
        next: Box::new(next.clone()),
        guard: row.guard(),
        draw: false,
    };
    let Written::Done(row) = Written::of(&next, timely(server.store().apply(op)).await?) else {
        return Ok(None);
    };
    let (operation, state) = (row.id, row.standing.state);
    tracing::warn!(%operation, %state, "an operation in the queue was given up");
    Ok(Some(Ran::of(&row)))
}
