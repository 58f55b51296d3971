//! The ways out of an unknown outcome, and the queue's way in: what is due, and what it brought.

use std::time::Duration;

use http::StatusCode;

use super::{
    Answer, Asking, Event, OnUnknown, Owner, Pending, Record, Standing, State, StoredAnswer,
};
use crate::effect::Effect;
use crate::time::WallTime;

/// What a record's route knows to do about it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// The route's way out now; the stricter of it and the record's holds.
    pub on_unknown: OnUnknown,
    /// A look-up can be made: it is configured, and there is a credential for it.
    pub can_look: bool,
    /// A compensation can be made, so long after the last byte of an attempt went out.
    pub compensates_after: Option<Duration>,
    /// The queue can send the request.
    pub can_run: bool,
}

/// The next step of a record that nobody holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the compensating request, after [`ask`].
    Compensate,
    /// Its time in the queue is over: [`give_up`].
    GiveUp,
    /// Ask for the outcome, after [`ask`].
    Look,
    /// None that anybody but an operator, a late holder or a caller could take.
    Nothing,
    /// Send the request, after [`run`].
    Run,
    /// Nothing before this date.
    Wait(WallTime),
}

/// What is to be done about `row` at `now`, as the store counts time.
pub fn step(row: &Record, ways: Ways, now: WallTime) -> Step {
    let pending = &row.standing.pending;
    let is_given_up = row.request().is_some_and(|r| r.give_up_at <= now);
    match row.standing.state {
        State::Deferred | State::Unknown if is_asking(row, now) => {
            Step::Wait(pending.asking.as_ref().map_or(now, |asking| asking.until))
        }
        State::Deferred | State::Unknown if is_given_up => Step::GiveUp,
        State::Deferred if ways.can_run => after(pending.due_at, Step::Run, now),
        State::Unknown => match way_out(row, ways) {
            Some(Step::Compensate) => {
                let settle = ways.compensates_after.unwrap_or_default();
                let settled = pending.unknown_at.map(|at| at.plus(settle));
                after(pending.due_at.max(settled), Step::Compensate, now)
            }
            Some(step) => after(pending.due_at, step, now),
            None => Step::Nothing,
        },
        _ => Step::Nothing,
    }
}

fn after(due_at: Option<WallTime>, step: Step, now: WallTime) -> Step {
    match due_at {
        Some(at) if at > now => Step::Wait(at),
        _ => step,
    }
}

/// By which step an unknown outcome may come to its end without an operator.
fn way_out(row: &Record, ways: Ways) -> Option<Step> {
    let standing = &row.standing;
    let stricter = standing.on_unknown.min(ways.on_unknown);
    let repeats = stricter == OnUnknown::Repeat || standing.honours_key;
    let compensates = standing.compensates && ways.compensates_after.is_some();
    match stricter {
        _ if repeats && row.request().is_some() && ways.can_run => Some(Step::Run),
        OnUnknown::Lookup if ways.can_look => Some(Step::Look),
        OnUnknown::Hold if compensates => Some(Step::Compensate),
        OnUnknown::Hold | OnUnknown::Lookup | OnUnknown::Repeat => None,
    }
}

/// Who asks for the outcome just now, their time not being over.
pub fn asker(row: &Record, now: WallTime) -> Option<&Asking> {
    let asking = row.standing.pending.asking.as_ref();
    asking.filter(|asking| row.standing.state == State::Unknown && asking.until > now)
}

fn is_asking(row: &Record, now: WallTime) -> bool {
    asker(row, now).is_some()
}

/// Takes the turn to ask for the outcome, by look-up or by compensation, for `lease`. `None` where
/// the outcome is not unknown, or somebody asks already. Owner and fence stay, so that a late
/// holder may complete the record meanwhile.
pub fn ask(row: &Record, token: Owner, lease: Duration, now: WallTime) -> Option<Record> {
    if row.standing.state != State::Unknown || is_asking(row, now) {
        return None;
    }
    let mut next = row.clone();
    next.version += 1;
    next.updated_at = now;
    next.standing.pending.asking = Some(Asking {
        by: token,
        until: now.plus(lease),
    });
    Some(next)
}

/// The same for a compensation. It is written down that one begins: from here on a late success of
/// what it undoes must not be given as the outcome.
pub fn compensate(row: &Record, token: Owner, lease: Duration, now: WallTime) -> Option<Record> {
    let asked = ask(row, token, lease, now)?;
    let mut standing = asked.standing;
    standing.pending.undoing = true;
    let event = Event {
        at: now,
        event: "compensating",
        by: token.to_string(),
        detail: String::new(),
    };
    Some(row.next(standing, row.before.clone(), event))
}

/// Whether a request that meets this asks for the outcome first, by a look-up; `present` is its
/// route's way out now.
pub fn asks_first(standing: &Standing, present: OnUnknown) -> bool {
    let stricter = standing.on_unknown.min(present);
    let by_lookup = stricter == OnUnknown::Lookup && !standing.honours_key;
    standing.state == State::Unknown && by_lookup
}

/// What a look-up's answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The operation is not there.
    Absent,
    /// It is there, and this is the answer to give.
    Found(StoredAnswer),
    /// It does not tell.
    Unclear,
}

/// A look-up at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// What it means.
    pub seen: Seen,
    /// What was seen, for the history: no body, key or credential.
    pub detail: String,
    /// Who asked: `sweeper`, or the one whose request came again.
    pub by: String,
    /// So long after the last byte of an attempt went out does absence count.
    pub settle: Duration,
    /// After an answer that ended nothing the next look-up is due after this.
    pub pause: Duration,
}

/// Absences in a row that make it certain.
const ABSENCES: u32 = 2;

/// What the look-up under `token` writes. `None` where the turn is not its own any more, or the
/// outcome became known meanwhile: what stands, stands.
///
/// Absence counts only once an attempt's last byte had the time to settle, and twice in a row: a
/// slow upstream may execute later what it does not know yet. What was released so keeps owner and
/// fence, so that a late success completes it while nobody newer stands.
pub fn looked(row: &Record, token: Owner, looked: &Looked, now: WallTime) -> Option<Record> {
    if !has_turn(row, token) {
        return None;
    }
    let event = |what: &str| Event {
        at: now,
        event: "looked-up",
        by: looked.by.clone(),
        detail: format!("{}: {what}", looked.detail),
    };
    let pending = &row.standing.pending;
    let counts = pending
        .unknown_at
        .is_none_or(|at| now >= at.plus(looked.settle));
    let absent = match looked.seen {
        Seen::Absent if counts => pending.absent + 1,
        _ => 0,
    };
    let (standing, what) = match &looked.seen {
        Seen::Found(answer) => (found(row, answer.clone(), token, now), "found"),
        Seen::Absent if absent >= ABSENCES => (not_executed(row, now), "absent again, so released"),
        Seen::Absent if counts => (unclear(row, absent, looked.pause, now), "absent"),
        Seen::Absent => (
            unclear(row, 0, looked.pause, now),
            "absent, too early to count",
        ),
        Seen::Unclear => (unclear(row, 0, looked.pause, now), "not clear"),
    };
    let before = row
        .before
        .clone()
        .filter(|_| standing.state == State::Unknown);
    Some(row.next(standing, before, event(what)))
}

fn has_turn(row: &Record, token: Owner) -> bool {
    let asking = row.standing.pending.asking.as_ref();
    row.standing.state == State::Unknown && asking.is_some_and(|asking| asking.by == token)
}

/// The token becomes the owner, so that a late holder is given what stands.
fn found(row: &Record, answer: StoredAnswer, token: Owner, now: WallTime) -> Standing {
    Standing {
        state: State::Completed,
        effect: Effect::Applied,
        ambiguous: false,
        answer: Answer::Stored(answer),
        reason: "looked-up".to_owned(),
        owner: token,
        final_at: Some(now),
        expires_at: Some(now.plus(row.standing.retention)),
        pending: Pending::default(),
        ..row.standing.clone()
    }
}

/// The attempts so far count as none. What the queue keeps goes back to it.
fn not_executed(row: &Record, now: WallTime) -> Standing {
    let is_queued = row.request().is_some();
    Standing {
        state: match is_queued {
            true => State::Deferred,
            false => State::Released,
        },
        effect: Effect::None,
        ambiguous: false,
        answer: Answer::None,
        reason: "looked-up".to_owned(),
        final_at: (!is_queued).then_some(now),
        expires_at: (!is_queued).then(|| now.plus(row.standing.retention)),
        pending: Pending {
            due_at: is_queued.then_some(now),
            ..Pending::default()
        },
        ..row.standing.clone()
    }
}

fn unclear(row: &Record, absent: u32, pause: Duration, now: WallTime) -> Standing {
    let mut standing = row.standing.clone();
    standing.pending.absent = absent;
    standing.pending.steps = standing.pending.steps.saturating_add(1);
    standing.pending.due_at = Some(now.plus(pause));
    standing.pending.asking = None;
    standing
}

/// A compensating request at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compensated {
    /// The status that says that it is done; `None` where it is not, or not known to be.
    pub done: Option<StatusCode>,
    /// What was seen, for the history.
    pub detail: String,
    /// After one that is not done the next is due after this: under the same key.
    pub pause: Duration,
}

/// What the compensation under `token` writes: the operation is at its end, without effect. `None`
/// where the turn is not its own any more. What was undone keeps no answer: none of the upstream's
/// would be true.
pub fn compensated(row: &Record, token: Owner, end: &Compensated, now: WallTime) -> Option<Record> {
    if !has_turn(row, token) {
        return None;
    }
    let (event, standing) = match end.done {
        Some(status) => {
            let standing = Standing {
                state: State::Completed,
                effect: Effect::None,
                ambiguous: false,
                answer: Answer::NotStored(status),
                reason: "compensated".to_owned(),
                owner: token,
                final_at: Some(now),
                expires_at: Some(now.plus(row.standing.retention)),
                pending: Pending::default(),
                ..row.standing.clone()
            };
            ("compensated", standing)
        }
        None => ("compensation-failed", unclear(row, 0, end.pause, now)),
    };
    let before = row.before.clone().filter(|_| end.done.is_none());
    let event = Event {
        at: now,
        event,
        by: token.to_string(),
        detail: end.detail.clone(),
    };
    Some(row.next(standing, before, event))
}

/// The queue takes what it keeps: a hold like any other, with nothing sent yet. `present` is the
/// route's way out now. `None` where there is nothing that it may send.
pub fn run(row: &Record, token: Owner, present: OnUnknown, now: WallTime) -> Option<Record> {
    let request = row.request()?;
    let stricter = row.standing.on_unknown.min(present);
    let repeats = stricter == OnUnknown::Repeat || row.standing.honours_key;
    let open = match row.standing.state {
        State::Deferred => true,
        State::Unknown => repeats && !is_asking(row, now),
        State::Completed | State::Dispatched | State::Released | State::Reserved => false,
    };
    if !open || request.give_up_at <= now {
        return None;
    }
    let standing = Standing {
        state: State::Reserved,
        ambiguous: row.standing.ambiguous || row.standing.state == State::Unknown,
        owner: token,
        answer: Answer::None,
        reason: String::new(),
        on_unknown: stricter,
        locked_until: Some(now.plus(row.standing.lease)),
        final_at: None,
        expires_at: None,
        pending: Pending {
            steps: row.standing.pending.steps,
            ..Pending::default()
        },
        ..row.standing.clone()
    };
    let event = Event {
        at: now,
        event: "reserved",
        by: token.to_string(),
        detail: "from the queue".to_owned(),
    };
    let before = Some(Box::new(row.standing.clone()));
    Some(row.next(standing, before, event))
}

/// The queue gives the operation up. What was never executed is at its end, and `answer` (504
/// `deferral-expired`) is what every duplicate is given; anything else is unknown, and not sent
/// any more. `None` where it is not in the queue.
pub fn give_up(row: &Record, answer: StoredAnswer, token: Owner, now: WallTime) -> Option<Record> {
    row.request()?;
    let standing = &row.standing;
    let event = Event {
        at: now,
        event: "deferral-expired",
        by: "queue".to_owned(),
        detail: format!(
            "after {} runs, the last: {}",
            standing.pending.steps, standing.reason
        ),
    };
    let executed_never = !standing.ambiguous && standing.effect == Effect::None;
    let (next, keeps_values) = match standing.state {
        State::Deferred if executed_never => {
            let next = Standing {
                state: State::Completed,
                answer: Answer::Stored(answer),
                reason: "deferral-expired".to_owned(),
                owner: token,
                final_at: Some(now),
                expires_at: Some(now.plus(standing.retention)),
                pending: Pending::default(),
                ..standing.clone()
            };
            (next, false)
        }
        State::Deferred | State::Unknown => {
            let looks = standing.on_unknown == OnUnknown::Lookup;
            let undoes = standing.on_unknown == OnUnknown::Hold && standing.compensates;
            let next = Standing {
                state: State::Unknown,
                effect: Effect::Unknown,
                ambiguous: true,
                reason: "deferral-expired".to_owned(),
                pending: Pending {
                    due_at: (looks || undoes).then_some(now),
                    unknown_at: standing.pending.unknown_at.or(Some(now)),
                    ..Pending::default()
                },
                ..standing.clone()
            };
            (next, true)
        }
        State::Completed | State::Dispatched | State::Released | State::Reserved => return None,
    };
    let mut given_up = row.next(next, row.before.clone(), event);
    if keeps_values && let Some(kept) = &mut given_up.kept {
        kept.request = None;
    }
    Some(given_up)
}

/// Puts the next step of a record that nobody holds off until `due_at`, or for good.
pub fn postpone(row: &Record, due_at: Option<WallTime>, now: WallTime) -> Option<Record> {
    if !matches!(row.standing.state, State::Deferred | State::Unknown) {
        return None;
    }
    let mut next = row.clone();
    next.version += 1;
    next.updated_at = now;
    next.standing.pending.due_at = due_at;
    Some(next)
}
