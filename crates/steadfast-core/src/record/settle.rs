//! What an attempt's end writes, and over what it may be written.

use super::{Answer, Event, Guard, Hold, Record, Standing, State};
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
