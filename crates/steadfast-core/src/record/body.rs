//! How long an answer's body is kept: as long as its record, or shorter where the route says so.
//!
//! Decides from when on a stored answer counts as one that was not stored, and what a row is
//! without its body. Removing it is a driver's; until then nobody is given it any more, but
//! those who waited for it. Source: docs/keyed-requests.md, "Retention and expiry".

use super::{Answer, Record, Standing};
use crate::time::WallTime;

impl Standing {
    /// When the body of the stored answer is to go; `None` where none is kept, or where it goes
    /// with the record.
    pub fn body_ends_at(&self) -> Option<WallTime> {
        let is_kept = matches!(self.answer, Answer::Stored(_));
        let is_shorter = self.body_retention < self.retention;
        let ends = self.final_at?.plus(self.body_retention);
        (is_kept && is_shorter).then_some(ends)
    }

    /// A stored answer's body is past its retention at `now`, so that it counts as not stored.
    pub fn body_is_over(&self, now: WallTime) -> bool {
        self.body_ends_at().is_some_and(|ends| ends <= now)
    }

    /// The same, with no more of a stored answer than its status.
    pub fn without_body(&self) -> Standing {
        let answer = match &self.answer {
            Answer::Stored(answer) => Answer::NotStored(answer.status),
            other => other.clone(),
        };
        Standing {
            answer,
            ..self.clone()
        }
    }
}

impl Record {
    /// When the first of its bodies is to go: that of its answer, or of the one that stood before.
    /// `None` while somebody is at work on it, whose writes go by the version that stands.
    pub fn body_ends_at(&self) -> Option<WallTime> {
        if self.is_held() {
            return None;
        }
        let before = self.before.as_deref().and_then(Standing::body_ends_at);
        let ends = self.standing.body_ends_at().into_iter().chain(before);
        ends.min()
    }
}

/// The next version of `row`, without the bodies that are past their retention at `now`, to be
/// written under the guard of `row`. `None` where there is none. Nothing else changes, and
/// the history gets no line: who asks for the answer is told that it was not kept.
///
/// Not to be called while the store's clock is not to be trusted for expiry: what is removed does
/// not come back.
pub fn forget_body(row: &Record, now: WallTime) -> Option<Record> {
    let ends = row.body_ends_at()?;
    if ends > now {
        return None;
    }
    let kept = |standing: &Standing| match standing.body_is_over(now) {
        true => standing.without_body(),
        false => standing.clone(),
    };
    Some(Record {
        standing: kept(&row.standing),
        before: row.before.as_deref().map(|before| Box::new(kept(before))),
        version: row.version + 1,
        updated_at: now,
        ..row.clone()
    })
}
