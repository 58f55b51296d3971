//! The server decision: every transition of a keyed request's record.
//!
//! Decides who may start, who must wait, what stands, what a lost lease means and what may be
//! written over what. Refuses to know clocks, stores, sockets and how an answer is rendered: it is
//! given a row, the date, and what was seen, and gives the next row with the guard under which it
//! may replace the standing one. No other place changes a [`State`].
//!
//! ```text
//!             ┌────────────── released ◄──────────────┐
//! reserved ──►dispatched ──► completed                │
//!    │            └────────► unknown ──► completed / released
//!    └──────► deferred ──► dispatched …
//! ```
//!
//! Source: docs/keyed-requests.md, from "States" on; requirements I3 to I9, U1, U2.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::effect::{Earlier, Effect};
use crate::fingerprint::Fingerprint;
use crate::key::{Key, Operation, ScopeHash, Tenant};
use crate::policy::OnUnknown;
use crate::time::WallTime;

mod admit;
mod again;
mod body;
mod lease;
mod operator;
mod settle;

pub use admit::{
    Admission, Joining, Request, Sameness, Start, admit, dispatch, join, may_be_learnt, reserve,
};
pub use again::again;
pub use body::forget_body;
pub use lease::{Change, may_start, read_back, recover, renew, withdraw};
pub use operator::{NotSettleable, release, resolve};
pub use settle::{Ended, Settle, settle};

/// Events kept in one record's history. The first and the latest are what a person asks for; a key
/// that is repeated for days would otherwise grow its row without bound.
pub const HISTORY_MAX: usize = 64;

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The final answer of the operation is known.
    Completed,
    /// The request is kept and will be sent later.
    Deferred,
    /// The request may have been sent; its holder is at work.
    Dispatched,
    /// Known not executed; only the same request may go again.
    Released,
    /// Held by one holder; nothing has been sent.
    Reserved,
    /// Sent, and it is not known whether it was executed.
    Unknown,
}

impl State {
    /// All states.
    pub const ALL: [State; 6] = [
        State::Completed,
        State::Deferred,
        State::Dispatched,
        State::Released,
        State::Reserved,
        State::Unknown,
    ];

    /// The word in records, commands and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Completed => "completed",
            State::Deferred => "deferred",
            State::Dispatched => "dispatched",
            State::Released => "released",
            State::Reserved => "reserved",
            State::Unknown => "unknown",
        }
    }

    /// The state that a word names.
    pub fn parse(word: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who holds a record: 128 bits, drawn anew for every hold. The upper 48 bits are the process's, so
/// that an operator can see which instance lost its leases; the lower 80 are random.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u128);

impl Owner {
    /// The owner with `instance` (its lower 48 bits count) and `token` (its lower 80 bits count).
    pub fn new(instance: u64, token: u128) -> Owner {
        Owner((u128::from(instance) << 80) | (token & ((1 << 80) - 1)))
    }

    /// The process part, as twelve hex digits.
    pub fn instance(self) -> String {
        format!("{:012x}", self.0 >> 80)
    }

    /// Reads what [`fmt::Display`] wrote.
    pub fn parse(text: &str) -> Option<Owner> {
        let (instance, token) = text.split_once('-')?;
        let lower = |t: &str| {
            t.bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let sound = instance.len() == 12 && token.len() == 20 && lower(instance) && lower(token);
        let value = |hex| u128::from_str_radix(hex, 16).ok();
        sound.then_some(Owner((value(instance)? << 80) | value(token)?))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}-{:020x}", self.0 >> 80, self.0 & ((1 << 80) - 1))
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of an operation to people and in the status address: 128 random bits, behind the
/// place under which a store finds it, as 48 hex digits.
///
/// The place is the beginning of the scope hash, so that a store needs no index of random ids
/// beside that of scopes: each would cost a page of its own with every insert. It tells nothing,
/// since scopes are hashed with a secret. Ids that were made before have none, and 32 digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId {
    place: Option<[u8; PLACE]>,
    bits: u128,
}

/// Bytes of a place: enough that a look-up by it meets one row.
const PLACE: usize = 8;

impl OperationId {
    /// The id of these random bits, of an operation under `scope`.
    pub fn new(scope: &ScopeHash, bits: u128) -> OperationId {
        let place = scope.as_bytes().first_chunk().copied();
        OperationId { place, bits }
    }

    /// The id of these random bits, without a place.
    pub fn from_bits(bits: u128) -> OperationId {
        OperationId { place: None, bits }
    }

    /// The random bits.
    pub fn bits(self) -> u128 {
        self.bits
    }

    /// How the hash of its scope begins, where the id tells it.
    pub fn place(&self) -> Option<&[u8]> {
        self.place.as_ref().map(|place| &place[..])
    }

    /// The bytes that a store keeps: the place, if there is one, and the bits.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PLACE + 16);
        bytes.extend_from_slice(self.place().unwrap_or_default());
        bytes.extend_from_slice(&self.bits.to_be_bytes());
        bytes
    }

    /// Reads what [`OperationId::to_bytes`] wrote; `None` where it is something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<OperationId> {
        let (place, bits) = bytes.split_last_chunk::<16>()?;
        let place = match place {
            [] => None,
            place => Some(place.try_into().ok()?),
        };
        let bits = u128::from_be_bytes(*bits);
        Some(OperationId { place, bits })
    }

    /// Reads 48 or 32 lower-case hex digits.
    pub fn parse(text: &str) -> Option<OperationId> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if !text.bytes().all(hex) {
            return None;
        }
        let (place, bits) = match text.len() {
            32 => (None, text),
            48 => text.split_at_checked(16).map(|(p, b)| (Some(p), b))?,
            _ => return None,
        };
        let place = match place {
            Some(place) => Some(u64::from_str_radix(place, 16).ok()?.to_be_bytes()),
            None => None,
        };
        let bits = u128::from_str_radix(bits, 16).ok()?;
        Some(OperationId { place, bits })
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{:016x}", u64::from_be_bytes(place))?;
        }
        write!(f, "{:032x}", self.bits)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An answer as it is kept: exactly what a duplicate will be given, less what [`crate::replay`]
/// strips.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The upstream's status.
    pub status: StatusCode,
    /// Its headers, stripped already.
    pub headers: HeaderMap,
    /// Its body, byte for byte.
    pub body: Bytes,
}

impl fmt::Debug for StoredAnswer {
    /// Status and length only: no body, no header value (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredAnswer")
            .field("status", &self.status.as_u16())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// What is kept of an upstream's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// There was none.
    #[default]
    None,
    /// All of it.
    Stored(StoredAnswer),
    /// There was one; its status alone is kept (too large, or streamed).
    NotStored(StatusCode),
}

impl Answer {
    /// The status, where there was an answer.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Answer::None => None,
            Answer::Stored(answer) => Some(answer.status),
            Answer::NotStored(status) => Some(*status),
        }
    }
}

/// One line of a record's history (U2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the store's clock.
    pub at: WallTime,
    /// What: a stable word, such as `dispatched`, `lease-over`, `resolved`.
    pub event: &'static str,
    /// Who: an owner, `sweeper`, or the operator's name.
    pub by: String,
    /// What was seen.
    pub detail: String,
}

/// The words that [`Event::event`] may be, so that a stored one is read back as what it was.
pub const EVENTS: [&str; 12] = [
    "completed",
    "deferred",
    "dispatched",
    "lease-over",
    "operator-released",
    "released",
    "reserved",
    "resolved",
    "taken-over",
    "unknown",
    "withdrawn",
    "expired",
];

/// The part of a record that one hold changes, and that is put back when the hold comes to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The state.
    pub state: State,
    /// What the server may have done.
    pub effect: Effect,
    /// A finished attempt may have executed, whatever comes later.
    pub ambiguous: bool,
    /// The upstream showed that it honours the key.
    pub honours_key: bool,
    /// Dispatches so far.
    pub attempts: u32,
    /// Who holds it, or who held it last.
    pub owner: Owner,
    /// The fence of the latest hold. Only grows.
    pub fence: u64,
    /// What the request was.
    pub fingerprint: Fingerprint,
    /// What is kept of the answer.
    pub answer: Answer,
    /// Why it stands so: the slug of the end that brought it here.
    pub reason: String,
    /// The way out that held when it was reserved.
    pub on_unknown: OnUnknown,
    /// How long a hold lasts without renewal.
    pub lease: Duration,
    /// How long it is kept from the moment it becomes final.
    pub retention: Duration,
    /// How long the body of its answer is kept from then on; as long as the record where this is
    /// not shorter.
    pub body_retention: Duration,
    /// When the hold ends, by the store's clock; `None` where nobody holds it.
    pub locked_until: Option<WallTime>,
    /// When it became final.
    pub final_at: Option<WallTime>,
    /// When it counts as absent; `None` means never.
    pub expires_at: Option<WallTime>,
}

/// One keyed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Under what it is looked up.
    pub scope: ScopeHash,
    /// Its name to people.
    pub id: OperationId,
    /// The hashed principal.
    pub tenant: Tenant,
    /// Which rule found the principal, so that the status address can apply it again.
    pub principal_rule: String,
    /// Method and path.
    pub operation: Operation,
    /// The caller's key.
    pub key: Key,
    /// When it was first reserved.
    pub created_at: WallTime,
    /// When it was last written.
    pub updated_at: WallTime,
    /// Grows by one with every write; together with the owner it guards the next one.
    pub version: u64,
    /// How it stands.
    pub standing: Standing,
    /// How it stood before the present hold, to be put back if the hold comes to nothing.
    pub before: Option<Box<Standing>>,
    /// What happened, oldest first; at most [`HISTORY_MAX`].
    pub history: Vec<Event>,
}

/// Under which a row may be replaced or removed: it must still carry this owner and this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The owner that stands.
    pub owner: Owner,
    /// The version that stands.
    pub version: u64,
}

/// One hold of a record: what its holder must still be to write a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The operation.
    pub id: OperationId,
    /// The token of this hold.
    pub owner: Owner,
    /// Its fence.
    pub fence: u64,
}

impl Record {
    /// The guard under which this row may be replaced.
    pub fn guard(&self) -> Guard {
        Guard {
            owner: self.standing.owner,
            version: self.version,
        }
    }

    /// The hold that this row shows.
    pub fn hold(&self) -> Hold {
        Hold {
            id: self.id,
            owner: self.standing.owner,
            fence: self.standing.fence,
        }
    }

    /// It is past its expiry at `now`, so it counts as absent, swept or not.
    pub fn is_expired(&self, now: WallTime) -> bool {
        self.standing.expires_at.is_some_and(|at| at <= now)
    }

    /// When somebody must look at it again, for the store's due index: the end of its lease.
    pub fn due_at(&self) -> Option<WallTime> {
        self.standing.locked_until
    }

    /// Somebody is at work on it.
    pub fn is_held(&self) -> bool {
        matches!(self.standing.state, State::Reserved | State::Dispatched)
    }

    /// `mine` is at work on it: the hold has not been lost, taken over or settled.
    pub fn is_held_by(&self, mine: Hold) -> bool {
        self.is_held() && self.hold() == mine
    }

    /// What the attempts so far mean for the next one's verdict. A repeat is only made where the
    /// upstream honours the key, by the route's word or by its own.
    pub fn earlier(&self) -> Earlier {
        let key_honoured =
            self.standing.on_unknown == OnUnknown::Repeat || self.standing.honours_key;
        Earlier {
            ambiguous: self.standing.ambiguous,
            key_honoured,
        }
    }

    /// The next version of this row, standing as `standing`, with one line more of history.
    fn next(&self, standing: Standing, before: Option<Box<Standing>>, event: Event) -> Record {
        let mut next = Record {
            standing,
            before,
            ..self.clone()
        };
        next.version += 1;
        next.updated_at = event.at;
        next.push(event);
        next
    }

    /// Adds a line; beyond the bound the oldest but the first goes.
    fn push(&mut self, event: Event) {
        if self.history.len() >= HISTORY_MAX {
            self.history.remove(1);
        }
        self.history.push(event);
    }
}

#[cfg(test)]
mod tests;
