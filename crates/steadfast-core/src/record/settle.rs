//! What an attempt's end writes, and over what it may be written.

use super::pending::unknown_from;
use super::{Answer, Event, Guard, Hold, Kept, KeptRequest, Pending, Record, Standing, State};
use crate::effect::{Effect, Verdict};
use crate::policy::Meaning;
use crate::time::WallTime;

/// The end of a hold.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it means.
    pub verdict: Verdict,
    /// What is kept of the answer.
    pub answer: Answer,
    /// The slug of the end, such as `201` or `read-timeout`.
    pub reason: String,
    /// The evidence proves that nothing was sent under this hold.
    pub nothing_sent: bool,
    /// It is to go again later, from the queue, where it was not executed (U3); where the outcome
    /// is unknown and the same request may bring it, likewise.
    pub later: Option<Later>,
}

/// When an operation goes again without its caller.
#[derive(Clone, Debug)]
pub struct Later {
    /// Not before this date of the store.
    pub at: WallTime,
    /// The request, where the record does not keep it yet.
    pub request: Option<Box<KeptRequest>>,
}

/// What settling comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settle {
    /// Nothing needs writing: the row says so already, or knows more.
    Already,
    /// Another holds a newer fence, or an operator has settled it: what stands, stands.
    Lost,
    /// Write this under the guard.
    Put(Box<Record>, Guard),
}

/// Whether and how `mine` may write its end over the row that stands. A completed record is never
/// overwritten. The holder under whose owner and fence the row stands may complete it even after
/// its lease; a holder that lost it may only bring a success to a row that ended unknown, which
/// makes the row its own, under the newer fence.
pub fn settle(stands: &Record, mine: Hold, end: &Ended, now: WallTime) -> Settle {
    if stands.id != mine.id {
        return Settle::Lost;
    }
    let holds = stands.standing.owner == mine.owner && stands.standing.fence == mine.fence;
    let success = end.verdict.effect == Effect::Applied && end.verdict.meaning == Meaning::Final;
    match stands.standing.state {
        State::Reserved | State::Dispatched if holds => put(stands, mine, end, now),
        State::Unknown if holds && end.nothing_sent && stands.before.is_some() => {
            put(stands, mine, end, now)
        }
        State::Unknown if holds && end.verdict.meaning == Meaning::Unknown => {
            late_unknown(stands, mine, end, now)
        }
        State::Unknown if holds || success => put(stands, mine, end, now),
        State::Released if holds && success => put(stands, mine, end, now),
        State::Released if holds => Settle::Already,
        State::Completed if stands.standing.owner == mine.owner => Settle::Already,
        _ => Settle::Lost,
    }
}

/// A late holder that does not know either only adds what it learnt: an answer to keep, or that the
/// upstream honours the key.
fn late_unknown(stands: &Record, mine: Hold, end: &Ended, now: WallTime) -> Settle {
    let learnt = end.verdict.honours_key && !stands.standing.honours_key;
    if stands.standing.answer == Answer::None && (end.verdict.keep_answer || learnt) {
        put(stands, mine, end, now)
    } else {
        Settle::Already
    }
}

fn put(stands: &Record, mine: Hold, end: &Ended, now: WallTime) -> Settle {
    let by = mine.owner.to_string();
    if let Some(next) = deferred(stands, mine, end, now) {
        return Settle::Put(Box::new(next), stands.guard());
    }
    if let (true, Some(before)) = (end.nothing_sent, &stands.before) {
        // A hold that came to nothing must not make an earlier unknown outcome look settled.
        let event = Event {
            at: now,
            event: "withdrawn",
            by,
            detail: end.reason.clone(),
        };
        let next = stands.next((**before).clone(), None, event);
        return Settle::Put(Box::new(next), stands.guard());
    }
    let verdict = end.verdict;
    let (state, event) = match verdict.meaning {
        Meaning::Final => (State::Completed, "completed"),
        Meaning::Released => (State::Released, "released"),
        Meaning::Unknown => (State::Unknown, "unknown"),
    };
    let answer = if verdict.keep_answer {
        end.answer.clone()
    } else {
        Answer::None
    };
    // An unknown outcome without an upstream answer is nobody's to forget.
    let is_final = state != State::Unknown || answer != Answer::None;
    let standing = Standing {
        state,
        effect: verdict.effect,
        ambiguous: state == State::Unknown,
        honours_key: verdict.honours_key || stands.standing.honours_key,
        // Whoever wrote it is its owner, so that the holder it overtook is told what stands.
        owner: mine.owner,
        answer,
        reason: end.reason.clone(),
        locked_until: None,
        final_at: is_final.then_some(now),
        expires_at: is_final.then(|| now.plus(stands.standing.retention)),
        pending: match state {
            State::Unknown => unknown_from(stands, end.later.as_ref().map(|later| later.at), now),
            _ => Pending::default(),
        },
        ..stands.standing.clone()
    };
    let event = Event {
        at: now,
        event,
        by,
        detail: end.reason.clone(),
    };
    Settle::Put(Box::new(stands.next(standing, None, event)), stands.guard())
}

/// What was not executed waits in the queue for its next run. `None` where it is not to go again,
/// or where no request is kept that could. A hold under which nothing was sent says nothing new of
/// the attempts before it: what they may have done stays (U1).
fn deferred(stands: &Record, mine: Hold, end: &Ended, now: WallTime) -> Option<Record> {
    let later = end.later.as_ref()?;
    if !end.nothing_sent && end.verdict.meaning != Meaning::Released {
        return None;
    }
    let request = stands.request().or(later.request.as_deref())?.clone();
    let before = stands.before.as_deref().filter(|_| end.nothing_sent);
    let ambiguous = match before {
        Some(before) => before.ambiguous || before.state == State::Unknown,
        None => stands.standing.ambiguous && end.nothing_sent,
    };
    let standing = Standing {
        state: State::Deferred,
        effect: match ambiguous {
            true => Effect::Unknown,
            false => Effect::None,
        },
        ambiguous,
        honours_key: end.verdict.honours_key || stands.standing.honours_key,
        owner: mine.owner,
        answer: Answer::None,
        reason: end.reason.clone(),
        locked_until: None,
        final_at: None,
        expires_at: None,
        pending: Pending {
            due_at: Some(later.at),
            steps: stands.standing.pending.steps.saturating_add(1),
            ..Pending::default()
        },
        ..stands.standing.clone()
    };
    let event = Event {
        at: now,
        event: "deferred",
        by: mine.owner.to_string(),
        detail: format!("{}, again at {}", end.reason, later.at.rfc3339()),
    };
    let mut next = stands.next(standing, None, event);
    let values = stands.kept.as_ref().map(|kept| kept.values.clone());
    next.kept = Some(Box::new(Kept {
        request: Some(request),
        values: values.unwrap_or_default(),
    }));
    Some(next)
}
