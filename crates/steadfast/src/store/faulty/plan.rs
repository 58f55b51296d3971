//! Which call meets which fault, as a value and as text.
//!
//! ```text
//! plan   = fault *("," fault)
//! fault  = action ":" point [":" kind] ":" calls
//! action = "fail" / "full" / "hang" / "hold" / "crash"
//! point  = "before" / "after"
//! kind   = "write" (the default) / "insert" / "replace" / "remove" / "expire" / a state's name
//!        / "read" / "get" / "by-id" / "scan" / "due" / "count" / "now" / "secrets" / "changed"
//!        / "status"
//! calls  = number / number "+"
//! ```
//! `crash:before:3` ends the process before its third write; `fail:after:replace:2` performs the
//! second replacement and loses its reply; `hold:before:completed:1` holds the first write of a
//! completed row until it is released; `fail:before:read:1+` fails every read.

use std::fmt;
use std::str::FromStr;

use steadfast_core::record::State;

/// The faults of one store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Each counts its own calls. Where two meet at one point, the first acts.
    pub faults: Vec<Fault>,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happens.
    pub action: Action,
    /// Where.
    pub point: Point,
    /// To calls of this kind.
    pub kind: Kind,
    /// To which of them.
    pub calls: Calls,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The call fails: the store is unavailable. After the store acted, that is a lost reply.
    Fail,
    /// The call fails: no room is left.
    Full,
    /// The call never ends: a reply that never comes.
    Hang,
    /// The call waits until it is released.
    Hold,
    /// The process ends.
    Crash,
}

/// Before or after the store behind acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// It did not act.
    Before,
    /// It did.
    After,
}

/// Kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any write.
    Write,
    /// An insert.
    Insert,
    /// A replacement.
    Replace,
    /// A removal.
    Remove,
    /// An expiry.
    Expire,
    /// An insert or a replacement that writes this state.
    To(State),
    /// Any read.
    Read,
    /// A read by scope.
    Get,
    /// A read by id.
    ById,
    /// A scan.
    Scan,
    /// A read of due rows.
    Due,
    /// A count of a principal's rows.
    Count,
    /// The store's date.
    Now,
    /// The store's secrets.
    Secrets,
    /// A wait for a change.
    Changed,
    /// The store's status.
    Status,
}

/// Which calls, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// This one only.
    Only(u64),
    /// This one and all after it.
    From(u64),
}

impl Calls {
    pub(super) fn contain(self, call: u64) -> bool {
        match self {
            Calls::Only(only) => call == only,
            Calls::From(first) => call >= first,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Point::Before => "before",
            Point::After => "after",
        })
    }
}

/// The text is not a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a fault; write one as crash:before:3",
            self.0
        )
    }
}

impl std::error::Error for PlanError {}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Plan, PlanError> {
        let faults = text.split(',').filter(|fault| !fault.is_empty());
        let fault = |text: &str| fault(text).ok_or_else(|| PlanError(text.to_owned()));
        Ok(Plan {
            faults: faults.map(fault).collect::<Result<_, _>>()?,
        })
    }
}

fn fault(text: &str) -> Option<Fault> {
    let parts: Vec<&str> = text.split(':').collect();
    let (action, point, kind, calls) = match parts.as_slice() {
        [action, point, calls] => (action, point, "write", calls),
        [action, point, kind, calls] => (action, point, *kind, calls),
        _ => return None,
    };
    Some(Fault {
        action: match *action {
            "fail" => Action::Fail,
            "full" => Action::Full,
            "hang" => Action::Hang,
            "hold" => Action::Hold,
            "crash" => Action::Crash,
            _ => return None,
        },
        point: match *point {
            "before" => Point::Before,
            "after" => Point::After,
            _ => return None,
        },
        kind: self::kind(kind)?,
        calls: match calls.strip_suffix('+') {
            Some(first) => Calls::From(count(first)?),
            None => Calls::Only(count(calls)?),
        },
    })
}

fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|count| *count > 0)
}

fn kind(word: &str) -> Option<Kind> {
    Some(match word {
        "write" => Kind::Write,
        "insert" => Kind::Insert,
        "replace" => Kind::Replace,
        "remove" => Kind::Remove,
        "expire" => Kind::Expire,
        "read" => Kind::Read,
        "get" => Kind::Get,
        "by-id" => Kind::ById,
        "scan" => Kind::Scan,
        "due" => Kind::Due,
        "count" => Kind::Count,
        "now" => Kind::Now,
        "secrets" => Kind::Secrets,
        "changed" => Kind::Changed,
        "status" => Kind::Status,
        state => Kind::To(State::parse(state)?),
    })
}
