//! What time does to a hold: renewal, its loss, and its withdrawal.

use std::time::Duration;

use super::pending::unknown_from;
use super::{Answer, Event, Guard, Owner, Record, Standing, State};
use crate::effect::Effect;
use crate::time::WallTime;

/// A guarded change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Replace the row.
    Put(Box<Record>, Guard),
    /// Remove the row: nothing stood before.
    Remove(Guard),
}

/// Who writes a lost lease down, in a history: the sweeper, or whoever met it first in its stead.
const SWEEPER: &str = "sweeper";

/// The hold is over: by the store's clock, or because an observer saw the same version, unrenewed,
/// for the lease's own length on a monotonic clock.
fn is_over(row: &Record, now: WallTime, unrenewed_for: Duration) -> bool {
    row.standing.locked_until.is_some_and(|until| until <= now)
        || unrenewed_for >= row.standing.lease
}

/// What a lost lease means, for whoever meets it (I9). In `reserved` nothing was sent, so what
/// stood before stands again; in `dispatched` the outcome is unknown. An `unknown` row keeps owner
/// and fence, so that a late holder can still complete it: its own attempt does not count as an
/// earlier one, which its answer would have to settle. It keeps what stood before, so that a mark
/// whose store reply was lost can still be withdrawn.
pub fn recover(row: &Record, now: WallTime, unrenewed_for: Duration) -> Option<Change> {
    if !row.is_held() || !is_over(row, now, unrenewed_for) {
        return None;
    }
    if row.standing.state == State::Reserved {
        return Some(put_back(row, "lease-over", SWEEPER, now));
    }
    let standing = Standing {
        state: State::Unknown,
        effect: Effect::Unknown,
        answer: Answer::None,
        reason: "lease-over".to_owned(),
        locked_until: None,
        pending: unknown_from(row, None, now),
        ..row.standing.clone()
    };
    let detail = format!("held by {}", row.standing.owner);
    let event = Event {
        at: now,
        event: "lease-over",
        by: SWEEPER.to_owned(),
        detail,
    };
    Some(Change::Put(
        Box::new(row.next(standing, row.before.clone(), event)),
        row.guard(),
    ))
}

/// What stood before stands again, with its owner, fence, fingerprint and answer.
fn put_back(row: &Record, event: &'static str, by: &str, now: WallTime) -> Change {
    let Some(before) = &row.before else {
        return Change::Remove(row.guard());
    };
    let event = Event {
        at: now,
        event,
        by: by.to_owned(),
        detail: format!("nothing was sent under {}", row.standing.owner),
    };
    Change::Put(
        Box::new(row.next((**before).clone(), None, event)),
        row.guard(),
    )
}

/// The same hold, for a lease more.
pub fn renew(row: &Record, now: WallTime) -> Record {
    let mut next = row.clone();
    next.version += 1;
    next.updated_at = now;
    next.standing.locked_until = Some(now.plus(row.standing.lease));
    next
}

/// Whether a holder whose last renewal is `since_renewed` ago may still start something: it is
/// certain of its hold only for two thirds of the lease (I8).
pub fn may_start(since_renewed: Duration, lease: Duration) -> bool {
    since_renewed < lease.saturating_mul(2) / 3
}

/// Takes back a reservation or a dispatch mark under `token` whose store reply did not arrive.
/// Nothing was sent under it, so what stood before stands again, whatever the lease and even after
/// the sweeper wrote it `unknown`. `None` where the row is not (or no longer) under the token, or
/// is settled.
///
/// A row whose earlier attempts are known but not what stood before (a newer hold took the token's
/// swept row over and came to nothing) stays unknown: removing it would forget them.
pub fn withdraw(row: &Record, token: Owner, now: WallTime) -> Option<Change> {
    let open = row.is_held()
        || (row.standing.state == State::Unknown && row.standing.reason == "lease-over");
    // Of several attempts under one hold the first may have been executed.
    let known = row.before.is_some() || (is_first(row, token) && row.standing.attempts <= 1);
    (row.standing.owner == token && open && known)
        .then(|| put_back(row, "withdrawn", &token.to_string(), now))
}

/// The hold under `token` made the row: the first line of its history, which is never dropped, is
/// that hold's.
fn is_first(row: &Record, token: Owner) -> bool {
    let first = row.history.first();
    first.is_some_and(|event| Owner::parse(&event.by) == Some(token))
}

/// Whether a refused write of `written` was in fact done by an earlier sending of the same call,
/// whose reply was lost. Owner and version alone do not tell: a renewal whose reply was lost, or
/// the sweeper that wrote the lease down as over, leaves the same owner and the same version as the
/// write that it overtook. So what the write was for is compared too; the fence is the store's and
/// is not.
pub fn read_back(written: &Record, stands: &Record) -> bool {
    let act = |standing: &Standing| (standing.state, standing.attempts, standing.locked_until);
    // Look-ups leave owner and fence alone, so their token is all that tells two of them apart.
    let pending = |standing: &Standing| standing.pending.clone();
    written.id == stands.id
        && written.guard() == stands.guard()
        && written.updated_at == stands.updated_at
        && act(&written.standing) == act(&stands.standing)
        && pending(&written.standing) == pending(&stands.standing)
        && written.standing.reason == stands.standing.reason
        && written.standing.answer == stands.standing.answer
        && written.history == stands.history
}
