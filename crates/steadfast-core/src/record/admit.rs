//! Who may start, who waits, and what a duplicate is given.

use std::time::Duration;

use super::lease::{Change, recover};
use super::{Answer, Event, Guard, Hold, OperationId, Owner, Record, Standing, State};
use crate::effect::Effect;
use crate::fingerprint::Fingerprint;
use crate::key::{Key, Operation, ScopeHash, Tenant};
use crate::policy::OnUnknown;
use crate::time::WallTime;

/// A keyed request that asks to be executed, by the hold it would take.
#[derive(Clone, Debug)]
pub struct Request {
    /// Under what its record is looked up.
    pub scope: ScopeHash,
    /// The name its record would get.
    pub id: OperationId,
    /// The hashed principal.
    pub tenant: Tenant,
    /// Which rule found the principal.
    pub principal_rule: String,
    /// Method and path.
    pub operation: Operation,
    /// The caller's key.
    pub key: Key,
    /// What the request is.
    pub fingerprint: Fingerprint,
    /// The route's present way out.
    pub on_unknown: OnUnknown,
    /// How long a hold lasts without renewal.
    pub lease: Duration,
    /// How long the record is kept from the moment it becomes final.
    pub retention: Duration,
    /// How long the body of its answer is kept from that moment.
    pub body_retention: Duration,
    /// The token of the hold it would take.
    pub owner: Owner,
}

/// How a hold begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With a connection in hand: the insert is the dispatch mark.
    Dispatched,
    /// Without one yet: nothing may be sent before [`dispatch`].
    Reserved,
}

/// Whether the request is the one that a row was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// Another request: 422, whatever the state.
    Different,
    /// The same.
    Same,
    /// The row's fingerprint cannot be read here: 503, never executed.
    Unreadable,
}

/// What a request meets when a row stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is kept for later: 202 with the status address.
    Deferred,
    /// Somebody is at work.
    InFlight,
    /// The same key, another request: 422.
    Mismatch,
    /// Finished, and the answer was not kept, or its body is past its retention.
    NotStored,
    /// A lost lease must be written down first; then ask again.
    Recover(Change),
    /// The stored answer, with the row's effect.
    Replay,
    /// The request may start, by replacing the row under the guard. The store draws the fence.
    TakeOver(Box<Record>, Guard),
    /// Outcome unknown, without an answer, and the way out is not this request's.
    Unknown,
    /// The row's fingerprint cannot be read here.
    Unreadable,
}

/// The first row of `request`; the store draws its fence.
pub fn reserve(request: &Request, start: Start, now: WallTime) -> Record {
    let mut record = Record {
        scope: request.scope,
        id: request.id,
        tenant: request.tenant.clone(),
        principal_rule: request.principal_rule.clone(),
        operation: request.operation.clone(),
        key: request.key.clone(),
        created_at: now,
        updated_at: now,
        version: 1,
        standing: held(request, start, now, None),
        before: None,
        history: Vec::new(),
    };
    record.push(started(request, start, now));
    record
}

/// What `request` meets at `row`. `unrenewed_for` is how long the observer has seen this very
/// version on its monotonic clock; `expiry` is false while the store's clock is not to be trusted
/// for expiry.
pub fn admit(
    row: &Record,
    request: &Request,
    same: Sameness,
    start: Start,
    now: WallTime,
    unrenewed_for: Duration,
    expiry: bool,
) -> Admission {
    if expiry && row.is_expired(now) {
        return take_over_expired(row, request, start, now);
    }
    // A lost reservation hinders nobody: what stood before it stands again, or nothing does.
    if row.standing.state == State::Reserved
        && let Some(change) = recover(row, now, unrenewed_for)
    {
        return Admission::Recover(change);
    }
    match same {
        Sameness::Unreadable => return Admission::Unreadable,
        Sameness::Different => return Admission::Mismatch,
        Sameness::Same => {}
    }
    match row.standing.state {
        State::Completed => finished(row, now, expiry),
        State::Deferred => Admission::Deferred,
        State::Released => take_over(row, request, start, now),
        State::Unknown if may_repeat(row, request) => take_over(row, request, start, now),
        State::Unknown if row.standing.answer == Answer::None => Admission::Unknown,
        State::Unknown => finished(row, now, expiry),
        State::Reserved | State::Dispatched => match recover(row, now, unrenewed_for) {
            Some(change) => Admission::Recover(change),
            None => Admission::InFlight,
        },
    }
}

fn finished(row: &Record, now: WallTime, expiry: bool) -> Admission {
    match row.standing.answer {
        Answer::Stored(_) if expiry && row.standing.body_is_over(now) => Admission::NotStored,
        Answer::Stored(_) => Admission::Replay,
        Answer::None | Answer::NotStored(_) => Admission::NotStored,
    }
}

/// The stricter of the record's and the current way out holds. An upstream that showed that it
/// honours the key may be asked again whatever the way out.
fn may_repeat(row: &Record, request: &Request) -> bool {
    let stricter = row.standing.on_unknown.min(request.on_unknown);
    stricter == OnUnknown::Repeat || row.standing.honours_key
}

/// Whether the same request sent again may bring an unknown outcome to an end (`retryable`): by
/// another attempt or by a look-up. `present` is the way out of the request's route now, and the
/// stricter of it and the record's holds.
pub fn may_be_learnt(standing: &Standing, present: OnUnknown) -> bool {
    let stricter = standing.on_unknown.min(present);
    stricter != OnUnknown::Hold || standing.honours_key
}

/// The same operation goes again: its row keeps its id and history, and what stood before is kept
/// to be put back.
fn take_over(row: &Record, request: &Request, start: Start, now: WallTime) -> Admission {
    let standing = held(request, start, now, Some(&row.standing));
    let mut event = started(request, start, now);
    if row.standing.state == State::Unknown {
        event.event = "taken-over";
    }
    let before = Some(Box::new(row.standing.clone()));
    Admission::TakeOver(Box::new(row.next(standing, before, event)), row.guard())
}

/// A row past its expiry counts as absent: another operation takes its place, with an id of its
/// own. The version goes on, so that whoever watched the old row sees a change.
fn take_over_expired(row: &Record, request: &Request, start: Start, now: WallTime) -> Admission {
    let next = Record {
        version: row.version + 1,
        ..reserve(request, start, now)
    };
    Admission::TakeOver(Box::new(next), row.guard())
}

fn held(request: &Request, start: Start, now: WallTime, from: Option<&Standing>) -> Standing {
    let may_have_executed = |s: &Standing| s.ambiguous || s.state == State::Unknown;
    Standing {
        state: match start {
            Start::Dispatched => State::Dispatched,
            Start::Reserved => State::Reserved,
        },
        // From the mark on nobody knows, until the end says.
        effect: match start {
            Start::Dispatched => Effect::Unknown,
            Start::Reserved => from.map_or(Effect::None, |s| s.effect),
        },
        ambiguous: from.is_some_and(may_have_executed),
        honours_key: from.is_some_and(|s| s.honours_key),
        attempts: from.map_or(0, |s| s.attempts) + u32::from(start == Start::Dispatched),
        owner: request.owner,
        fence: from.map_or(0, |s| s.fence),
        fingerprint: from.map_or_else(|| request.fingerprint.clone(), |s| s.fingerprint.clone()),
        answer: Answer::None,
        reason: String::new(),
        on_unknown: from.map_or(request.on_unknown, |s| s.on_unknown.min(request.on_unknown)),
        lease: request.lease,
        retention: request.retention,
        body_retention: request.body_retention,
        locked_until: Some(now.plus(request.lease)),
        final_at: None,
        expires_at: None,
    }
}

fn started(request: &Request, start: Start, now: WallTime) -> Event {
    let event = match start {
        Start::Dispatched => "dispatched",
        Start::Reserved => "reserved",
    };
    Event {
        at: now,
        event,
        by: request.owner.to_string(),
        detail: String::new(),
    }
}

/// The dispatch mark: written before the first byte, with a connection in hand. `None` where the
/// row is not the reservation of `mine`: whatever stands there is another's, or has come to rest,
/// and a mark over it would send a second time.
pub fn dispatch(row: &Record, mine: Hold, now: WallTime) -> Option<Record> {
    if row.standing.state != State::Reserved || !row.is_held_by(mine) {
        return None;
    }
    let standing = Standing {
        state: State::Dispatched,
        effect: Effect::Unknown,
        attempts: row.standing.attempts + 1,
        locked_until: Some(now.plus(row.standing.lease)),
        ..row.standing.clone()
    };
    let by = row.standing.owner.to_string();
    let event = Event {
        at: now,
        event: "dispatched",
        by,
        detail: String::new(),
    };
    Some(row.next(standing, row.before.clone(), event))
}

/// What a waiter meets. It never executes, except that under `repeat` it may ask [`admit`] again
/// once the attempt it waited for ended unknown without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joining {
    /// Ask [`admit`] again: the attempt ended unknown without an answer.
    AskAgain,
    /// The row is gone, so the attempt that was waited for never started.
    Gone,
    /// The attempt ended with nothing sent: no answer, effect none.
    NeverSent,
    /// A lost lease must be written down first; then look again.
    Recover(Change),
    /// The settled answer of the attempt that was waited for.
    Settled(Box<Standing>),
    /// Still at work.
    Wait,
}

/// What a waiter for `waited` meets at `row`.
pub fn join(row: Option<&Record>, waited: Hold, now: WallTime, unrenewed_for: Duration) -> Joining {
    let Some(row) = row else { return Joining::Gone };
    if row.id != waited.id {
        return Joining::Gone;
    }
    if !row.is_held() {
        return ended(&row.standing, waited);
    }
    // A newer hold may stand over the end that was waited for.
    let missed = row.before.as_deref().filter(|b| b.fence == waited.fence);
    if let Some(settled) = missed.filter(|b| is_told(b)) {
        return ended(settled, waited);
    }
    match recover(row, now, unrenewed_for) {
        Some(change) => Joining::Recover(change),
        None => Joining::Wait,
    }
}

/// The end is one that its waiters are given, rather than one that they wait on after.
fn is_told(end: &Standing) -> bool {
    end.state == State::Released || end.answer != Answer::None
}

fn ended(standing: &Standing, waited: Hold) -> Joining {
    // An older fence than was waited for: the attempt came to nothing, and what stood before it
    // stands.
    let came_to_nothing = standing.fence < waited.fence;
    match (standing.state, &standing.answer) {
        (State::Released, _) if came_to_nothing => Joining::NeverSent,
        (State::Released, Answer::None) => Joining::NeverSent,
        (State::Unknown, Answer::None) | (State::Deferred, _) => Joining::AskAgain,
        _ => Joining::Settled(Box::new(standing.clone())),
    }
}
