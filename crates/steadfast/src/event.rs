//! What happens, in one enum. Metrics and logs render it; nobody else reports a decision.
//!
//! An event holds no key, credential, path, query or body, so that no rendering of it can show one
//! (S2). It borrows what it tells: making one allocates nothing.

mod attempt;
mod outcome;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use steadfast_core::attempt::Failure;
use steadfast_core::effect::Effect;
use steadfast_core::record::{OperationId, Owner};
use steadfast_core::retry::Reason;
use steadfast_core::trace_context::TraceId;

pub use attempt::{Attempt, Leaving, Watched};
pub use outcome::{KeyedOutcome, RequestOutcome};

/// A route, by the number that its assembler gave it. A library with one policy has route 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteId(pub u32);

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An attempt ended.
    Attempt(&'a AttemptEnded<'a>),
    /// A request with a key was answered.
    Keyed(&'a KeyedAnswered<'a>),
    /// A request was answered, or its caller left before it was.
    Request {
        /// Its route.
        route: RouteId,
        /// What its caller was given.
        outcome: RequestOutcome,
        /// From its head to the head of its answer.
        took: Duration,
    },
    /// An attempt that was to follow another did not go out after all.
    NotRepeated {
        /// The request's route.
        route: RouteId,
        /// Why.
        reason: Reason,
    },
    /// A keyed request went out without a record, its store having failed.
    Unprotected(RouteId),
    /// A lease ended without its holder; the record was written down as that.
    LeaseExpired(Owner),
    /// A duplicate began to wait for the operation at work under its key.
    WaitBegan,
    /// It waits no more.
    WaitEnded(Duration),
    /// A record was held for so long, from its claim until its end was on record.
    HoldEnded(Duration),
    /// The store was asked, and gave an answer, failed, or was not waited for any longer.
    Store {
        /// What was asked.
        operation: StoreOperation,
        /// How long it took.
        took: Duration,
    },
    /// A message was refused for its framing, before it was anybody's.
    Malformed,
    /// So many records were past their expiry and were removed.
    Expired(u32),
}

/// How an attempt ended, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct AttemptEnded<'a> {
    /// The request's route.
    pub route: RouteId,
    /// Its number among the attempts of this request, from 1 on.
    pub number: u32,
    /// The request's method.
    pub method: &'a Method,
    /// The operation and the attempt's fence, where it has a record.
    pub operation: Option<(OperationId, u64)>,
    /// The trace that the request belongs to.
    pub trace: Option<TraceId>,
    /// How it ended.
    pub end: End,
    /// What the server may have done.
    pub effect: Effect,
    /// Why it is not followed by another; `None` where an answer stands.
    pub skipped: Option<Reason>,
    /// Until the head of the answer came; `None` where none did.
    pub to_head: Option<Duration>,
    /// Until its end, the answer's body included.
    pub took: Duration,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// An answer with this status, which the upstream did not cut.
    Answered(StatusCode),
    /// No whole answer.
    Failed(Failure),
    /// The caller left before a head came, or its own body failed.
    CallerLeft,
}

/// What the caller of a keyed request was given.
#[derive(Clone, Copy, Debug)]
pub struct KeyedAnswered<'a> {
    /// The request's route.
    pub route: RouteId,
    /// Its method.
    pub method: &'a Method,
    /// The operation, where the answer speaks of one.
    pub operation: Option<OperationId>,
    /// The trace that the request belongs to.
    pub trace: Option<TraceId>,
    /// What came of it.
    pub outcome: KeyedOutcome,
    /// The answer's status.
    pub status: StatusCode,
    /// The answer is that of this request's own attempt, which has been told of.
    pub own_attempt: bool,
    /// From the request's coming under its key to the answer.
    pub took: Duration,
}

/// What a store was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "as the calls and writes of the trait are named"
)]
pub enum StoreOperation {
    Insert,
    Replace,
    Remove,
    Expire,
    Get,
    ById,
    Scan,
    Due,
    Count,
    Status,
}

impl StoreOperation {
    /// All of them, in the order of their numbers.
    pub const ALL: [StoreOperation; 10] = [
        StoreOperation::Insert,
        StoreOperation::Replace,
        StoreOperation::Remove,
        StoreOperation::Expire,
        StoreOperation::Get,
        StoreOperation::ById,
        StoreOperation::Scan,
        StoreOperation::Due,
        StoreOperation::Count,
        StoreOperation::Status,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            StoreOperation::Insert => "insert",
            StoreOperation::Replace => "replace",
            StoreOperation::Remove => "remove",
            StoreOperation::Expire => "expire",
            StoreOperation::Get => "get",
            StoreOperation::ById => "by-id",
            StoreOperation::Scan => "scan",
            StoreOperation::Due => "due",
            StoreOperation::Count => "count",
            StoreOperation::Status => "status",
        }
    }
}

/// Is told what happens, on the task to which it happens: it must not wait.
pub trait Observer: Send + Sync + 'static {
    /// Takes note of `event`.
    fn on(&self, event: Event<'_>);
}

/// Takes note of nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    fn on(&self, _: Event<'_>) {}
}

/// Nobody who could be told.
pub fn nobody() -> Arc<dyn Observer> {
    Arc::new(Nobody)
}
