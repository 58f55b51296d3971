//! Another attempt under the same hold.

use super::{Ended, Event, Hold, Record, Standing, State};
use crate::effect::Effect;
use crate::time::WallTime;

/// The mark of another attempt, written before its first byte; the store draws its fence. `end` is
/// what the attempt before it came to. `None` where the row is not the dispatch of `mine`: whatever
/// stands there is another's, or has come to rest, and a mark over it would send a second time.
///
/// What may have been executed stays so, whatever the next attempt comes to. Once something was
/// sent, what stood before the hold is not put back any more; while nothing was, it still is.
pub fn again(row: &Record, mine: Hold, end: &Ended, now: WallTime) -> Option<Record> {
    if row.standing.state != State::Dispatched || !row.is_held_by(mine) {
        return None;
    }
    let may_have_executed = end.verdict.effect != Effect::None;
    let standing = Standing {
        effect: Effect::Unknown,
        ambiguous: row.standing.ambiguous || may_have_executed,
        honours_key: row.standing.honours_key || end.verdict.honours_key,
        attempts: row.standing.attempts + 1,
        locked_until: Some(now.plus(row.standing.lease)),
        ..row.standing.clone()
    };
    let event = Event {
        at: now,
        event: "dispatched",
        by: mine.owner.to_string(),
        detail: format!("again, after {}", end.reason),
    };
    let before = row.before.clone().filter(|_| end.nothing_sent);
    Some(row.next(standing, before, event))
}
