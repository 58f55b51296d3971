//! Bringing an unknown outcome to its end: who asks for it, and when (U2).
//!
//! Callers ask at once: the one whose own attempt ended so, and each who repeats it. What nobody
//! repeats is asked for by [`settle_on`], which undoes as well. What is sent is `ask`'s; what comes
//! of it is [`steadfast_core::record`]'s to say.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::key::Tenant;
use steadfast_core::policy::{InFlight, OnUnknown, RoutePolicy};
use steadfast_core::record::{self, OperationId, Record, State, Step, Ways};
use steadfast_core::time::WallTime;
use tokio::sync::Semaphore;

use super::caller::{Given, Reply};
use super::execute::Execute;
use super::routes::{Routed, Routes};
use super::{Asked, Server, wait};
use crate::attempts::SharedUpstream;
use crate::clock;
use crate::event::KeyedOutcome;
use crate::store::{Op, StoreError};

mod ask;

use ask::{Asker, Turn};

/// Between two rounds: what is due is seen within it.
const EVERY: Duration = Duration::from_millis(250);

/// After a round that failed: a store that is down is not asked all the time.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Rows looked at in one round, the longest due first.
const DUE_MAX: u32 = 256;

/// Look-ups and compensations on their way to one upstream at once, of [`settle_on`]'s own: the
/// callers' requests go first.
const AT_ONCE: usize = 8;

/// What nobody can do anything about now is looked at again after this: its route may be back.
const LONG_PAUSE: Duration = Duration::from_secs(600);

/// Operations that are remembered as ones whose route is gone.
const TOLD_MAX: usize = 10_000;

/// Whether the outcome of `row`, which is the record of `asked`, may be asked for by its caller.
pub(super) fn may_ask(asked: &Asked, row: &Record) -> bool {
    let rules = &asked.policy.idempotency;
    rules.lookup.is_some() && record::asks_first(&row.standing, rules.on_unknown)
}

/// What one caller asked so far: once for what it met, and once for what its own attempt came to.
#[derive(Default)]
pub(super) struct Asks {
    has_asked: bool,
    /// What is given where nothing more is learnt: what its own attempt came to, or what it met.
    known: Option<Box<Given>>,
}

/// What follows a reply.
pub(super) enum Next {
    /// This is the answer.
    Given(Box<Given>),
    /// Another is at work: its row.
    InFlight(Box<Record>),
    /// What stands may have changed.
    StartAgain,
}

impl Asks {
    /// What follows `reply`: where it says that the outcome is unknown, that is asked for first,
    /// inside the caller's deadline.
    pub(super) async fn goes_on<E: Execute>(
        &mut self,
        server: &Server,
        asked: &Arc<Asked>,
        execute: &E,
        reply: Reply,
    ) -> Next {
        let (row, given) = match reply {
            Reply::InFlight(row) => return Next::InFlight(row),
            Reply::Unknown(row, given) => (row, given),
            Reply::Answer(given) => {
                let row = match self.may_learn_more(asked, &given) {
                    Some(id) => own_record(server, asked, id).await,
                    None => None,
                };
                match row {
                    Some(row) => (row, given),
                    None => return Next::Given(self.the_better(given)),
                }
            }
        };
        if self.has_asked {
            return Next::Given(self.the_better(given));
        }
        (self.has_asked, self.known) = (true, Some(given));
        // Boxed: it is rare, and every call would carry the room for it.
        match Box::pin(ask(server, asked, execute, *row)).await {
            true => Next::StartAgain,
            false => self.known.take().map_or(Next::StartAgain, Next::Given),
        }
    }

    /// The operation, where `given` is what the caller's own attempt came to, and that is unknown.
    fn may_learn_more(&self, asked: &Asked, given: &Given) -> Option<OperationId> {
        let is_unknown = given.own_attempt && given.outcome == KeyedOutcome::Unknown;
        let may_ask = !self.has_asked && asked.policy.idempotency.lookup.is_some();
        given.operation.filter(|_| is_unknown && may_ask)
    }

    /// What was known before the outcome was asked for says more than a refusal; and what its own
    /// attempt came to, more than that nothing is known still.
    fn the_better(&mut self, given: Box<Given>) -> Box<Given> {
        match self.known.take() {
            Some(known) if given.outcome == KeyedOutcome::Refused => known,
            Some(known)
                if known.own_attempt
                    && !given.own_attempt
                    && given.outcome == KeyedOutcome::Unknown =>
            {
                known
            }
            _ => given,
        }
    }
}

/// The record of operation `id`, where the caller's own attempt left it unknown and a look-up may
/// tell.
async fn own_record(server: &Server, asked: &Asked, id: OperationId) -> Option<Box<Record>> {
    let limit = asked.policy.idempotency.store_timeout;
    let limit = limit.min(asked.deadline.remaining(clock::mono_now()));
    let row = clock::within(limit, server.store().get(asked.scope)).await;
    let row = row.ok()?.ok().flatten()?;
    (row.id == id && may_ask(asked, &row)).then(|| Box::new(row))
}

/// Asks, or waits for whoever asks already; true where what stands may be new.
async fn ask<E: Execute>(server: &Server, asked: &Arc<Asked>, execute: &E, row: Record) -> bool {
    let now = clock::mono_now();
    let limit = asked.policy.idempotency.wait_limit;
    let left = asked.deadline.remaining(now).min(limit);
    // On a task of its own, which goes on to its end if the caller leaves meanwhile.
    let Ok(permit) = Arc::clone(&server.inner.tasks).try_acquire_owned() else {
        return false;
    };
    let asker = Asker::of_caller(server, asked, execute.clone());
    let until = now.plus(left);
    let turn = tokio::spawn(async move {
        let _permit = permit;
        asker.look_up(row).await
    });
    match clock::within(left, turn).await {
        Ok(Ok(Turn::Ended)) => true,
        Ok(Ok(Turn::Others(row))) if asked.in_flight() == InFlight::Wait => {
            wait::for_asker(server, asked, &row, until).await;
            !asked.deadline.remaining(clock::mono_now()).is_zero()
        }
        Ok(Ok(Turn::Others(_) | Turn::NotAsked) | Err(_)) | Err(clock::Elapsed) => false,
    }
}

/// Asks for unknown outcomes, and undoes them where a route says how, until it is dropped. Apart
/// from the sweeper, which sends nothing.
pub async fn settle_on<R: Routes>(server: Server, routes: R) {
    let mut settler = Settler {
        places: Places::default(),
        told: HashSet::new(),
        server,
        routes,
    };
    loop {
        let pause = match settler.round().await {
            Ok(()) => EVERY,
            Err(error) => {
                let error = error.to_string();
                tracing::warn!(error, "unknown outcomes are not asked for; it tries again");
                AFTER_FAILURE
            }
        };
        clock::sleep(pause).await;
        if settler.server.is_stopping() {
            return;
        }
    }
}

struct Settler<R> {
    server: Server,
    routes: R,
    places: Places,
    /// Operations of which it was told that no route takes them.
    told: HashSet<OperationId>,
}

impl<R: Routes> Settler<R> {
    async fn round(&mut self) -> Result<(), StoreError> {
        let store = Arc::clone(self.server.store());
        let now = store.now().await?;
        let due = store.due(State::Unknown, now, DUE_MAX).await?;
        for why in self.server.inner.unreadable.new_of(due.unreadable) {
            tracing::error!(
                reason = why.to_string(),
                "an unknown outcome cannot be read; it is not asked for"
            );
        }
        for row in due.rows {
            self.take_up(row, now).await?;
        }
        Ok(())
    }

    async fn take_up(&mut self, row: Record, now: WallTime) -> Result<(), StoreError> {
        let Some(routed) = self.routes.of(&row.operation) else {
            if self.told.len() < TOLD_MAX && self.told.insert(row.id) {
                tracing::warn!(
                    operation = %row.id,
                    "no route takes this operation any more; its unknown outcome waits for an \
                     operator (`steadfast keys resolve` or `keys release`)"
                );
            }
            return self.postpone(&row, Some(now.plus(LONG_PAUSE)), now).await;
        };
        let step = record::step(&row, ways(&routed.policy, &row), now);
        match step {
            // The queue's.
            Step::Run | Step::GiveUp => Ok(()),
            Step::Wait(at) => self.postpone(&row, Some(at), now).await,
            Step::Nothing => {
                let later = later(&routed.policy, &row, now);
                self.postpone(&row, later, now).await
            }
            Step::Look | Step::Compensate => self.send(routed, row, step, now).await,
        }
    }

    async fn send(
        &mut self,
        routed: Routed<R::Execute>,
        row: Record,
        step: Step,
        now: WallTime,
    ) -> Result<(), StoreError> {
        let upstream = routed.execute.upstream();
        if let Some(Err(shut)) = upstream.map(SharedUpstream::may_begin) {
            let open = shut.retry_after.max(Duration::from_secs(1));
            return self.postpone(&row, Some(now.plus(open)), now).await;
        }
        let Ok(place) = self.places.of(upstream).try_acquire_owned() else {
            // It is still due in the next round.
            return Ok(());
        };
        let asker = Asker::of_settler(&self.server, routed);
        tokio::spawn(async move {
            let _place = place;
            match step {
                Step::Compensate => asker.compensate(row).await,
                _ => asker.look_up(row).await,
            }
        });
        Ok(())
    }

    async fn postpone(
        &self,
        row: &Record,
        due_at: Option<WallTime>,
        now: WallTime,
    ) -> Result<(), StoreError> {
        let Some(next) = record::postpone(row, due_at, now) else {
            return Ok(());
        };
        let op = Op::Replace {
            next: Box::new(next),
            guard: row.guard(),
            draw: false,
        };
        // What stands instead is seen in the next round.
        self.server.store().apply(op).await.map(drop)
    }
}

/// What a route can do about `row` without its caller.
fn ways(policy: &RoutePolicy, row: &Record) -> Ways {
    let rules = &policy.idempotency;
    let may_ask = |lookup: &Arc<_>| is_asked_alone(lookup, row);
    Ways {
        on_unknown: rules.on_unknown,
        can_look: rules.lookup.as_ref().is_some_and(may_ask),
        compensates_after: rules.compensate.as_ref().map(|undo| undo.settle),
        can_run: row.request().is_some(),
    }
}

/// A look-up without its caller needs a credential of its own, or none: an upstream may tell a
/// stranger that what it keeps from it is not there. Without `headers` none is needed only where
/// the request itself had shown none.
fn is_asked_alone(lookup: &steadfast_core::lookup::Lookup, row: &Record) -> bool {
    let showed_none = row.tenant == Tenant::anonymous() && row.principal_rule == "authorization";
    lookup.headers.is_some() || showed_none
}

/// When a row about which nothing can be done is looked at again: never, where only its caller can
/// ask; else the route may be another by then.
fn later(policy: &RoutePolicy, row: &Record, now: WallTime) -> Option<WallTime> {
    let rules = &policy.idempotency;
    let stricter = row.standing.on_unknown.min(rules.on_unknown);
    let by_caller = stricter == OnUnknown::Lookup && rules.lookup.is_some();
    (!by_caller).then(|| now.plus(LONG_PAUSE))
}

/// Who is on the way to which upstream.
#[derive(Default)]
struct Places {
    shared: Vec<(SharedUpstream, Arc<Semaphore>)>,
    other: Option<Arc<Semaphore>>,
}

impl Places {
    fn of(&mut self, upstream: Option<&SharedUpstream>) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(AT_ONCE));
        let Some(upstream) = upstream else {
            return Arc::clone(self.other.get_or_insert_with(new));
        };
        let known = self.shared.iter().find(|(known, _)| known.is(upstream));
        if let Some((_, places)) = known {
            return Arc::clone(places);
        }
        let places = new();
        self.shared.push((upstream.clone(), Arc::clone(&places)));
        places
    }
}
