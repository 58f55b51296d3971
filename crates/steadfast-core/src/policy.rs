//! What an operator may decide, as values that cannot be wrong, each with its default.
//!
//! Decides nothing itself. The reason for every number is in `docs/defaults.md`, and a test there
//! pins it. Text is parsed into these types at the edge; nothing inside checks them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode};

use crate::breaker::BreakerPolicy;
use crate::budget::BudgetPolicy;
use crate::fingerprint::FingerprintOptions;
use crate::key::{ForwardAs, KeyRules, ScopeKind};
use crate::retry::RetryPolicy;
use crate::timeouts::Timeouts;

/// Everything one route decides.
#[derive(Clone, Debug)]
pub struct RoutePolicy {
    /// The ceiling of every caller's deadline, and the bound of dispatched keyed work.
    pub deadline: Duration,
    /// Taken off the deadline that travels upstream (T4).
    pub margin: Duration,
    /// Limits of one attempt.
    pub timeouts: Timeouts,
    /// What is repeated, how often and after which waits.
    pub retry: Arc<RetryPolicy>,
    /// How many retries its upstream's callers may add to the traffic.
    pub budget: BudgetPolicy,
    /// When its upstream is not asked any more.
    pub breaker: BreakerPolicy,
    /// From an incoming attempt count of 2 on, only what was never sent is repeated (R8).
    pub honor_attempts: bool,
    /// Keyed requests.
    pub idempotency: Idempotency,
    /// A larger request body is refused where a rule needs the body. Bytes.
    pub body_limit: usize,
    /// A larger keyed answer is passed on and not kept. Bytes.
    pub response_limit: usize,
}

impl Default for RoutePolicy {
    fn default() -> Self {
        RoutePolicy {
            deadline: Duration::from_secs(30),
            margin: Duration::from_millis(5),
            timeouts: Timeouts::default(),
            retry: Arc::default(),
            budget: BudgetPolicy::default(),
            breaker: BreakerPolicy::default(),
            honor_attempts: false,
            idempotency: Idempotency::default(),
            body_limit: 1024 * 1024,
            response_limit: 1024 * 1024,
        }
    }
}

/// Which requests must carry a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMode {
    /// A key is honoured where it is sent.
    Optional,
    /// A request without one is refused (`key-missing`).
    Required,
    /// Refused without one when its attempt count is above one.
    RequiredOnRetry,
    /// The field is forwarded, not validated, not honoured.
    Off,
}

/// What a duplicate gets while the first runs (I6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// It waits, up to `wait_limit` and its own deadline.
    Wait,
    /// 409 `in-progress` at once.
    Conflict,
    /// 202 with the status address.
    Accept,
}

/// The way out of an unknown outcome (U2), from the strictest on: the order is the rule that the
/// stricter of a record's and the current setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnUnknown {
    /// A late holder or an operator.
    Hold,
    /// A status request by business identifier.
    Lookup,
    /// The same request again, with a new fence: the upstream honours the same key.
    Repeat,
}

impl OnUnknown {
    /// The word in configuration and records.
    pub fn as_str(self) -> &'static str {
        match self {
            OnUnknown::Hold => "hold",
            OnUnknown::Lookup => "lookup",
            OnUnknown::Repeat => "repeat",
        }
    }

    /// The way that a word names.
    pub fn parse(word: &str) -> Option<OnUnknown> {
        [OnUnknown::Hold, OnUnknown::Lookup, OnUnknown::Repeat]
            .into_iter()
            .find(|way| way.as_str() == word)
    }
}

/// What happens to a keyed request whose store fails (I12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// 503 `store-unavailable`, effect none.
    Refuse,
    /// Sent on unprotected, without `Idempotent-Replayed`, and counted.
    Pass,
}

/// The rules of keyed requests on a route.
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// Which requests must carry a key.
    pub mode: KeyMode,
    /// Methods whose key is honoured.
    pub methods: Vec<Method>,
    /// The field that carries the key.
    pub header: HeaderName,
    /// Syntax bounds and strength.
    pub key: KeyRules,
    /// What a key is unique within, besides the principal.
    pub scope: ScopeKind,
    /// The one spelling in which the key goes upstream.
    pub forward_as: ForwardAs,
    /// What a duplicate gets while the first runs.
    pub in_flight: InFlight,
    /// The longest wait of a duplicate.
    pub wait_limit: Duration,
    /// Duplicates that may wait for one key; beyond, 409 at once.
    pub waiters_per_key: usize,
    /// How long ownership lasts without renewal.
    pub lease: Duration,
    /// How long a final record is kept, from the moment it became final.
    pub retention: Duration,
    /// How long the body of its answer is kept from that moment; as long as the record where there
    /// is none, or a longer one.
    pub body_retention: Option<Duration>,
    /// The way out of an unknown outcome.
    pub on_unknown: OnUnknown,
    /// Which statuses are final, released, unknown, where they differ from the table.
    pub statuses: Arc<Statuses>,
    /// What makes two requests the same.
    pub fingerprint: FingerprintOptions,
    /// What a failing store means for a keyed request.
    pub on_store_failure: OnStoreFailure,
    /// How long a keyed request waits for its store.
    pub store_timeout: Duration,
}

impl Default for Idempotency {
    fn default() -> Self {
        Idempotency {
            mode: KeyMode::Optional,
            methods: vec![Method::POST, Method::PATCH],
            header: HeaderName::from_static("idempotency-key"),
            key: KeyRules::default(),
            scope: ScopeKind::Operation,
            forward_as: ForwardAs::Bare,
            in_flight: InFlight::Wait,
            wait_limit: Duration::from_secs(10),
            waiters_per_key: 256,
            lease: Duration::from_secs(30),
            retention: Duration::from_secs(24 * 3600),
            body_retention: None,
            on_unknown: OnUnknown::Hold,
            statuses: Arc::default(),
            fingerprint: FingerprintOptions::default(),
            on_store_failure: OnStoreFailure::Refuse,
            store_timeout: Duration::from_secs(2),
        }
    }
}

impl Idempotency {
    /// How long the body of an answer is kept, from the moment its record became final.
    pub fn kept_body(&self) -> Duration {
        let kept = self.body_retention.unwrap_or(self.retention);
        kept.min(self.retention)
    }
}

/// Statuses that an operator moved out of the table of docs/keyed-requests.md, "What an attempt's
/// end means".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statuses {
    overrides: BTreeMap<u16, Meaning>,
}

/// What a status says about the operation that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It is the operation's end: stored and replayed.
    Final,
    /// The operation was not executed: the key is free again.
    Released,
    /// It is not known whether the operation was executed.
    Unknown,
}

/// Two of the three sets name the same status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction(pub u16);

impl Statuses {
    /// The three sets of the configuration. Fails with a status that stands in two of them.
    pub fn new(
        finals: &[StatusCode],
        released: &[StatusCode],
        unknown: &[StatusCode],
    ) -> Result<Statuses, Contradiction> {
        let mut overrides = BTreeMap::new();
        let sets = [
            (finals, Meaning::Final),
            (released, Meaning::Released),
            (unknown, Meaning::Unknown),
        ];
        for (set, meaning) in sets {
            for status in set.iter().map(StatusCode::as_u16).collect::<BTreeSet<_>>() {
                if overrides.insert(status, meaning).is_some() {
                    return Err(Contradiction(status));
                }
            }
        }
        Ok(Statuses { overrides })
    }

    /// What the operator decided for `status`, if anything.
    pub fn get(&self, status: StatusCode) -> Option<Meaning> {
        self.overrides.get(&status.as_u16()).copied()
    }
}
