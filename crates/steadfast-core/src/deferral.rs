//! Work that outlives its deadline: what goes into the queue, when it is sent, and with what (U3).
//!
//! Decides whether a keyed request is sent later, from the durable queue; when its next run is due;
//! and which of its header fields are kept and sent then. Refuses to know the record, whose
//! transitions are [`crate::record`]'s, clocks, stores and sockets. Source:
//! docs/keyed-requests.md, "Deferral"; requirements U3, R5.

use std::fmt;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName};

use crate::backoff::{Backoff, Curve, Jitter};
use crate::deadline::{ENVOY_EXPECTED_MS, GRPC_TIMEOUT, REQUEST_TIMEOUT_MS};
use crate::fields;
use crate::policy::Meaning;
use crate::retry::{Decision, Next, Reason};
use crate::time::{Draw, WallTime};

#[cfg(test)]
mod tests;

/// Whether keyed requests of a route may be sent later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defer {
    /// Each is sent while its caller waits, or not at all.
    #[default]
    Never,
    /// One whose caller asks for it, or which does not come to its end in time, goes into the
    /// queue.
    Allowed,
    /// All go into the queue.
    Always,
}

impl Defer {
    /// The word in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Defer::Never => "off",
            Defer::Allowed => "allowed",
            Defer::Always => "always",
        }
    }
}

/// How the queue sends what it keeps.
#[derive(Clone)]
pub struct Deferral {
    /// After this time in the queue an operation is given up.
    pub max_age: Duration,
    /// The waits between its runs.
    pub backoff: Backoff,
    /// Runs at once to one upstream.
    pub concurrency: usize,
    /// Fields that every run is sent with, credentials among them. Never stored.
    pub headers: HeaderMap,
    /// The caller's own credentials are kept with the request.
    pub keep_credential: bool,
}

impl Default for Deferral {
    fn default() -> Self {
        let (base, cap) = (Duration::from_secs(1), Duration::from_secs(300));
        Deferral {
            max_age: Duration::from_secs(24 * 3600),
            backoff: waits(base, cap).unwrap_or_default(),
            concurrency: 16,
            headers: HeaderMap::new(),
            keep_credential: false,
        }
    }
}

impl fmt::Debug for Deferral {
    /// The names of fields only: their values are credentials (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferral")
            .field("max_age", &self.max_age)
            .field("backoff", &self.backoff)
            .field("concurrency", &self.concurrency)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("keep_credential", &self.keep_credential)
            .finish()
    }
}

/// The waits between runs: each up to twice the one before, from `base` to `cap`, spread over the
/// whole, so that what failed together does not come back together. `None` where the cap is below
/// the base.
pub fn waits(base: Duration, cap: Duration) -> Option<Backoff> {
    Backoff::new(Curve::Exponential, base, cap, Jitter::Full).ok()
}

/// How an operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// At once, while its caller waits.
    Now,
    /// In the queue.
    Queued(Why),
}

/// Why an operation is in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its route sends everything from the queue.
    Always,
    /// Its caller prefers not to wait.
    Asked,
    /// The service asked for a wait that does not fit the deadline.
    RetryAfter,
    /// The service could not be reached, and no attempt is left that could end in time.
    Unreachable,
}

impl Why {
    /// The word in a record's history.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::Always => "always",
            Why::Asked => "respond-async",
            Why::RetryAfter => "retry-after",
            Why::Unreachable => "unreachable",
        }
    }
}

/// How a keyed request begins on a route that defers so. `prefers_async`: its caller would rather
/// not wait (`Prefer: respond-async`). `is_shut`: its service is not asked now, so that nothing
/// could be sent.
pub fn begins(defer: Defer, prefers_async: bool, is_shut: bool) -> Begins {
    match defer {
        Defer::Always => Begins::Queued(Why::Always),
        Defer::Allowed if prefers_async => Begins::Queued(Why::Asked),
        Defer::Allowed if is_shut => Begins::Queued(Why::Unreachable),
        Defer::Allowed | Defer::Never => Begins::Now,
    }
}

/// How the last attempt of an operation ended whose caller still waits, and what was decided.
#[derive(Clone, Copy, Debug)]
pub struct Last<'a> {
    /// The decision: nothing follows it now.
    pub decision: &'a Decision,
    /// What the end means for the record.
    pub meaning: Meaning,
    /// Nothing of the operation was sent under this hold.
    pub never_sent: bool,
    /// Earlier attempts may have been executed.
    pub ambiguous: bool,
    /// The valid `Retry-After` of its answer.
    pub retry_after: Option<Duration>,
    /// What is left of the caller's deadline.
    pub remaining: Duration,
}

/// Where an operation goes on that cannot come to its end inside its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoesOn {
    /// Nowhere: the end stands, and its caller is given it.
    NotLater,
    /// In the queue, and not before this time from now.
    Later(Why, Duration),
}

/// Whether the operation goes on in the queue. Only what was surely not executed does: what may
/// have been has its own ways out, and its caller must hear of it. What was refused for what it is
/// (an identity, a policy) does not either.
pub fn on_the_way(defer: Defer, last: &Last<'_>) -> GoesOn {
    let harmless = last.never_sent || last.meaning == Meaning::Released;
    if defer == Defer::Never || !harmless || last.ambiguous {
        return GoesOn::NotLater;
    }
    if let Next::Defer { not_before } = last.decision.next {
        let why = match last.retry_after {
            Some(_) => Why::RetryAfter,
            None => Why::Unreachable,
        };
        return GoesOn::Later(why, not_before);
    }
    // Whether a status lets the operation go again at once is the retry's to say; a wait that is
    // longer than the deadline is an answer for the queue all the same.
    match last.retry_after {
        Some(wait) if wait >= last.remaining => return GoesOn::Later(Why::RetryAfter, wait),
        _ => {}
    }
    let spent = matches!(
        last.decision.reason,
        Reason::AttemptsUsed | Reason::Budget | Reason::CircuitOpen | Reason::Deadline
    );
    match last.never_sent && spent {
        true => GoesOn::Later(Why::Unreachable, Duration::ZERO),
        false => GoesOn::NotLater,
    }
}

/// When the next run is due, after `runs` that did not end the operation, the last at `now`. The
/// service's own wait is obeyed in full, and an open breaker's time is waited for. Never after
/// `give_up_at`: the operation is given up then, and not later.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::deferral::{Deferral, due};
/// use steadfast_core::time::{Draw, WallTime};
///
/// let (rules, half) = (Deferral::default(), Draw::from_bits(1 << 63));
/// let (now, never) = (WallTime::from_unix_ms(0), WallTime::from_unix_ms(u64::MAX));
/// // Between nothing and 4 s after the third run; the middle of it here.
/// assert_eq!(due(&rules, 3, None, half, now, never).unix_ms(), 2_000);
/// let asked = Some(Duration::from_secs(120));
/// assert_eq!(due(&rules, 3, asked, half, now, never).unix_ms(), 120_000);
/// ```
pub fn due(
    rules: &Deferral,
    runs: u32,
    not_before: Option<Duration>,
    draw: Draw,
    now: WallTime,
    give_up_at: WallTime,
) -> WallTime {
    let own = rules.backoff.wait(runs.max(1), Duration::ZERO, draw);
    let wait = own.max(not_before.unwrap_or_default());
    now.plus(wait).min(give_up_at)
}

/// Fields by which callers prove who they are, beside the field that the route's own rule reads.
const CREDENTIALS: [&str; 13] = [
    "api-key",
    "apikey",
    "authorization",
    "cookie",
    "ocp-apim-subscription-key",
    "private-token",
    "proxy-authorization",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-goog-api-key",
];

/// Fields that were true of the caller's own request alone: its deadline, what it would rather have
/// than wait, and what is written anew for every attempt.
const OF_THE_CALL: [&str; 8] = [
    ENVOY_EXPECTED_MS,
    "expect",
    GRPC_TIMEOUT,
    "idempotency-fence",
    "prefer",
    REQUEST_TIMEOUT_MS,
    "steadfast-attempt",
    "date",
];

/// The fields of a request that are kept in the queue: those that go from end to end, without its
/// key, which the record has, and without credentials unless the route keeps them. `principal` is
/// the field that names the caller, where the route has one.
pub fn kept(
    headers: &HeaderMap,
    rules: &Deferral,
    key: &HeaderName,
    principal: Option<&HeaderName>,
) -> HeaderMap {
    let mut kept = headers.clone();
    // As for an answer: who may name which fields was judged when the request came in.
    fields::strip_hop_of_answer(&mut kept);
    for name in OF_THE_CALL {
        kept.remove(name);
    }
    kept.remove(key);
    if !rules.keep_credential {
        for name in CREDENTIALS {
            kept.remove(name);
        }
        if let Some(name) = principal {
            kept.remove(name);
        }
    }
    kept
}

/// The fields of one run: what is kept, under the route's own, which win.
pub fn of_run(kept: &HeaderMap, rules: &Deferral) -> HeaderMap {
    let mut fields = kept.clone();
    for name in rules.headers.keys() {
        fields.remove(name);
    }
    for (name, value) in &rules.headers {
        fields.append(name.clone(), value.clone());
    }
    fields
}

/// Whether a field may stand in `deferral.headers`: not one that frames the message, or that is
/// written anew for every attempt.
pub fn may_be_set(name: &HeaderName) -> bool {
    let written = OF_THE_CALL.contains(&name.as_str());
    let frames = [header::CONTENT_LENGTH, header::HOST].contains(name);
    let of_hop = fields::is_of_hop_or_protected(name.as_str());
    let credential = CREDENTIALS.contains(&name.as_str());
    credential || !(written || frames || of_hop)
}
