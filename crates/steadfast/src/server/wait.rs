//! A duplicate that meets an operation at work: it waits, is refused, or is sent to the status
//! address.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use steadfast_core::key::ScopeHash;
use steadfast_core::prefer::{self, Meeting, Then};
use steadfast_core::problem::Problem;
use steadfast_core::record::{self, Joining, Record};
use steadfast_core::time::MonoTime;

use super::caller::Given;
use super::{Asked, Server, reply, withdraw};
use crate::clock;
use crate::event::{Event, Observer};
use crate::store::StoreError;

/// How often one duplicate may ask again for the operation to be started anew: each time another
/// was faster and ended unknown as well.
const ASKS_MAX: u32 = 16;

/// What waiting came to.
pub(super) enum Waited {
    Answer(Box<Given>),
    /// The attempt ended unknown without an answer: ask to be admitted again.
    AskAgain,
}

/// Who waits, by key and in all.
pub(super) struct Waiting {
    most: usize,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    all: usize,
    by_scope: HashMap<ScopeHash, usize>,
}

/// A place among the waiters. Dropping it gives the place up.
struct Place<'a> {
    waiting: &'a Waiting,
    scope: ScopeHash,
}

impl Waiting {
    pub(super) fn new(most: usize) -> Waiting {
        Waiting {
            most,
            places: Mutex::default(),
        }
    }

    /// A place, unless `per_key` wait for this key already, or too many in all.
    fn enter(&self, scope: ScopeHash, per_key: usize) -> Option<Place<'_>> {
        let mut places = self.lock();
        let here = places.by_scope.get(&scope).copied().unwrap_or(0);
        if here >= per_key || places.all >= self.most {
            return None;
        }
        places.by_scope.insert(scope, here + 1);
        places.all += 1;
        Some(Place {
            waiting: self,
            scope,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Places> {
        self.places
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut places = self.waiting.lock();
        places.all -= 1;
        match places.by_scope.get_mut(&self.scope) {
            Some(here) if *here > 1 => *here -= 1,
            _ => {
                places.by_scope.remove(&self.scope);
            }
        }
    }
}

/// What the duplicate of `met`, which is at work, is given. `waited` is what it has waited so far,
/// in `asks` earlier rounds. Its caller's `Prefer` goes before the route's `in_flight`.
pub(super) async fn duplicate(
    server: &Server,
    asked: &Asked,
    met: &Record,
    waited: Duration,
    asks: u32,
) -> Waited {
    let rules = &asked.policy.idempotency;
    let meeting = asked.preference.at_work(rules.in_flight, rules.wait_limit);
    if meeting.wait.is_zero() {
        return waits_no_longer(&meeting, met);
    }
    let now = clock::mono_now();
    let limit = meeting.wait.saturating_sub(waited);
    let limit = limit.min(asked.deadline.remaining(now));
    let place = server
        .inner
        .waiting
        .enter(asked.scope, rules.waiters_per_key);
    if place.is_none() || asks >= ASKS_MAX {
        return answer(&reply::in_progress(met.id));
    }
    let _waiting = Waits::begin(&*server.inner.observer);
    // Bounded as a whole as well, since a store may say nothing at all.
    match clock::within(limit, wait(server, asked, met, now.plus(limit))).await {
        Ok(Ok(Some(Waited::Answer(given)))) => applied(given, &meeting, false),
        Ok(Ok(Some(Waited::AskAgain))) => Waited::AskAgain,
        Ok(Ok(None)) | Err(clock::Elapsed) => waits_no_longer(&meeting, met),
        Ok(Err(_)) => answer(&asked.store_unavailable()),
    }
}

/// What is given where there is no answer yet and nobody waits for it any longer.
fn waits_no_longer(meeting: &Meeting, met: &Record) -> Waited {
    let given = match meeting.then {
        Then::Accepted => Given::accepted(met),
        Then::InProgress => Given::problem(&reply::in_progress(met.id)),
    };
    applied(Box::new(given), meeting, meeting.then == Then::Accepted)
}

/// `given`, with the preferences that brought it about. What the service itself said that it
/// applied is part of a stored answer and stays.
fn applied(mut given: Box<Given>, meeting: &Meeting, accepted: bool) -> Waited {
    if let Some(value) = meeting.applied(accepted) {
        given.response.headers_mut().append(prefer::APPLIED, value);
    }
    Waited::Answer(given)
}

fn answer(problem: &Problem) -> Waited {
    Waited::Answer(Box::new(Given::problem(problem)))
}

/// A wait, told of when it begins and ends, however it ends.
struct Waits<'a> {
    observer: &'a dyn Observer,
    began: MonoTime,
}

impl Waits<'_> {
    fn begin(observer: &dyn Observer) -> Waits<'_> {
        observer.on(Event::WaitBegan);
        let began = clock::mono_now();
        Waits { observer, began }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let waited = clock::mono_now().since(self.began);
        self.observer.on(Event::WaitEnded(waited));
    }
}

/// Waits for the end of the attempt that `met` shows, until `until`; `None` when that came first.
async fn wait(
    server: &Server,
    asked: &Asked,
    met: &Record,
    until: MonoTime,
) -> Result<Option<Waited>, StoreError> {
    let waited = met.hold();
    let mut row = Some(met.clone());
    loop {
        let now = server.store().now().await?;
        let unrenewed = row
            .as_ref()
            .map_or(Duration::ZERO, |row| server.inner.leases.unrenewed_for(row));
        match record::join(row.as_ref(), waited, now, unrenewed) {
            Joining::Wait => {}
            Joining::Gone => return Ok(Some(answer(&reply::did_not_start()))),
            Joining::AskAgain => return Ok(Some(Waited::AskAgain)),
            Joining::NeverSent => {
                return Ok(Some(answer(&reply::unreachable(Some(waited.id)))));
            }
            Joining::Settled(standing) => {
                let repeats = asked.may_repeat(&standing);
                let given = Given::settled(waited.id, &standing, repeats, true);
                return Ok(Some(Waited::Answer(Box::new(given))));
            }
            Joining::Recover(change) => {
                if let Some(row) = &row {
                    withdraw::recover(server, row, change).await?;
                }
                row = server.store().get(asked.scope).await?;
                continue;
            }
        }
        let Some(seen) = &row else { continue };
        let left = until.since(clock::mono_now());
        if left.is_zero() {
            return Ok(None);
        }
        // A hold whose lease ends meanwhile is met by whoever waits for it (I9).
        let lease_left = seen.standing.locked_until.map_or(left, |at| at.since(now));
        let look = left.min(lease_left.max(LOOK_MIN));
        row = match clock::within(look, server.store().changed(asked.scope, seen.guard())).await {
            Ok(changed) => changed?,
            Err(clock::Elapsed) => server.store().get(asked.scope).await?,
        };
    }
}

/// The shortest pause between two looks at a hold whose lease is about to end.
const LOOK_MIN: Duration = Duration::from_millis(5);
