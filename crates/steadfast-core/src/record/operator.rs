//! What a person may decide about a record (U2, O2).

use super::{Answer, Event, Owner, Pending, Record, Standing, State, StoredAnswer};
use crate::effect::Effect;
use crate::time::WallTime;

/// The record is in a state that nobody may settle by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSettleable(pub State);

/// The operator gives the answer: every duplicate will be given it. `token` is a fresh owner, so
/// that no holder can write any more.
pub fn resolve(
    row: &Record,
    answer: StoredAnswer,
    token: Owner,
    by: &str,
    now: WallTime,
) -> Result<Record, NotSettleable> {
    let detail = format!("status {}", answer.status.as_u16());
    // The same statuses that tell it of an attempt (docs/keyed-requests.md, "What an attempt's end
    // means").
    let effect = match answer.status.as_u16() {
        200..=299 | 303 => Effect::Applied,
        _ => Effect::None,
    };
    let standing = Standing {
        state: State::Completed,
        effect,
        ambiguous: false,
        answer: Answer::Stored(answer),
        ..settled(row, token, "resolved", now)?
    };
    let event = Event {
        at: now,
        event: "resolved",
        by: by.to_owned(),
        detail,
    };
    Ok(row.next(standing, None, event))
}

/// The operator knows that nothing was executed: attempts so far count as none, and the same
/// request may go again.
pub fn release(
    row: &Record,
    token: Owner,
    by: &str,
    now: WallTime,
) -> Result<Record, NotSettleable> {
    let standing = Standing {
        state: State::Released,
        effect: Effect::None,
        ambiguous: false,
        honours_key: false,
        answer: Answer::None,
        ..settled(row, token, "operator-released", now)?
    };
    let detail = "attempts so far count as none".to_owned();
    let event = Event {
        at: now,
        event: "operator-released",
        by: by.to_owned(),
        detail,
    };
    Ok(row.next(standing, None, event))
}

/// Why a record was not dropped from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDroppable {
    /// It was sent, or may have been: what it did would be forgotten.
    Sent(State),
    /// It is not in the queue.
    NotDeferred(State),
}

/// The operator takes the operation out of the queue: `answer` (410 `dropped`) is what every
/// duplicate is given. Only what was never executed can be dropped; anything else is to be resolved
/// or released.
pub fn discard(
    row: &Record,
    answer: StoredAnswer,
    token: Owner,
    by: &str,
    now: WallTime,
) -> Result<Record, NotDroppable> {
    let state = row.standing.state;
    let open = match state {
        State::Deferred => !row.standing.ambiguous && row.standing.effect == Effect::None,
        // At work on what the queue keeps, or of unknown outcome.
        State::Dispatched | State::Reserved | State::Unknown if row.request().is_some() => false,
        other => return Err(NotDroppable::NotDeferred(other)),
    };
    if !open {
        return Err(NotDroppable::Sent(state));
    }
    let standing = Standing {
        state: State::Completed,
        answer: Answer::Stored(answer),
        ..settled(row, token, "dropped", now).map_err(|refused| NotDroppable::Sent(refused.0))?
    };
    let event = Event {
        at: now,
        event: "dropped",
        by: by.to_owned(),
        detail: "it was never executed".to_owned(),
    };
    Ok(row.next(standing, None, event))
}

fn settled(
    row: &Record,
    token: Owner,
    reason: &str,
    now: WallTime,
) -> Result<Standing, NotSettleable> {
    match row.standing.state {
        State::Unknown | State::Deferred => Ok(Standing {
            owner: token,
            reason: reason.to_owned(),
            locked_until: None,
            final_at: Some(now),
            expires_at: Some(now.plus(row.standing.retention)),
            pending: Pending::default(),
            ..row.standing.clone()
        }),
        other => Err(NotSettleable(other)),
    }
}
