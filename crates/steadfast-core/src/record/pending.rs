//! What is kept of an operation that is not at its end, and when its next step is due.

use std::fmt;

use bytes::Bytes;
use http::HeaderMap;

use super::{Owner, Record};
use crate::policy::OnUnknown;
use crate::time::WallTime;

/// What is still to be done about a record that nobody holds, and what was done about it so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Not before this date of the store is the next step due; `None`: none is.
    pub due_at: Option<WallTime>,
    /// Runs of the queue that did not end it, or look-ups.
    pub steps: u32,
    /// How many look-ups in a row, up to the latest, found nothing and count.
    pub absent: u32,
    /// Since when the outcome is unknown: the last byte of an attempt went out before.
    pub unknown_at: Option<WallTime>,
    /// A compensation was begun, so that what it undoes must not be taken for done.
    pub undoing: bool,
    /// Who asks for the outcome just now.
    pub asking: Option<Asking>,
}

/// A look-up or a compensation on its way: one at a time, and no longer than its lease. It is no
/// hold: the attempt whose outcome is asked for may still complete the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Its token, drawn for it alone.
    pub by: Owner,
    /// Until when it counts.
    pub until: WallTime,
}

/// What is kept of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// All of it, for the queue.
    pub request: Option<KeptRequest>,
    /// What a look-up or a compensation takes from its body: JSON pointer and text.
    pub values: Vec<(String, String)>,
}

impl Kept {
    /// What is kept of an operation that goes again: `first` is the record's, `second` the new
    /// request's, which is the same request.
    pub(super) fn merged(first: Option<&Kept>, second: Option<&Kept>) -> Option<Box<Kept>> {
        let (Some(first), Some(second)) = (first, second) else {
            return first.or(second).cloned().map(Box::new);
        };
        let values = match first.values.is_empty() {
            true => &second.values,
            false => &first.values,
        };
        Some(Box::new(Kept {
            request: first.request.clone().or_else(|| second.request.clone()),
            values: values.clone(),
        }))
    }
}

/// A request that is sent later, without its caller (U3). Its key is the record's.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptRequest {
    /// Scheme and authority, where it is not its route's to say.
    pub to: Option<String>,
    /// Path and query, byte for byte.
    pub target: String,
    /// The fields that are sent; no credential unless the route says so.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
    /// When it is given up.
    pub give_up_at: WallTime,
}

impl fmt::Debug for KeptRequest {
    /// Length and date only: no target, field or body (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptRequest")
            .field("body_bytes", &self.body.len())
            .field("give_up_at", &self.give_up_at)
            .finish_non_exhaustive()
    }
}

/// What is to be done about `row` from the moment on that its outcome is unknown. `later` is when
/// the queue would run it again.
pub(super) fn unknown_from(row: &Record, later: Option<WallTime>, now: WallTime) -> Pending {
    let standing = &row.standing;
    let repeats = standing.on_unknown == OnUnknown::Repeat || standing.honours_key;
    let due_at = match standing.on_unknown {
        _ if repeats && row.request().is_some() => Some(later.unwrap_or(now)),
        OnUnknown::Lookup => Some(now),
        OnUnknown::Hold if standing.compensates => Some(now),
        OnUnknown::Hold | OnUnknown::Repeat => None,
    };
    Pending {
        due_at,
        steps: standing.pending.steps,
        absent: 0,
        unknown_at: Some(now),
        undoing: false,
        asking: None,
    }
}
