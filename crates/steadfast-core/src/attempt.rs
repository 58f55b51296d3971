//! How one attempt ended, as evidence.
//!
//! Decides only one thing: whether the evidence proves that the server cannot have acted
//! ([`AttemptEnd::never_sent`], requirement R3). It refuses to know what the operation was; that is
//! [`crate::effect`]'s and [`crate::retry`]'s. Drivers translate foreign errors into these words at
//! one door and never by an error's text.

use http::StatusCode;

/// The phase in which an attempt failed, in the order in which phases happen. Its words stand in
/// records' histories and in details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The name did not resolve.
    Resolve,
    /// No connection: refused, unreachable, or not within the connect limit.
    Connect,
    /// Waiting for a free connection took longer than the pool limit.
    Pool,
    /// Certificate, hostname or trust failure. Never repeated (R2).
    TlsIdentity,
    /// The TLS handshake was cut or timed out, no identity having been refused.
    TlsHandshake,
    /// The connection ended before a write returned more than zero bytes of this request.
    NotWritten,
    /// A write failed, or took longer than its limit, after the first byte.
    Write,
    /// The request was written, and no whole response head came within its limit.
    ReadTimeout,
    /// The connection ended after the first byte, before a whole response head.
    Reset,
    /// The peer refused the stream before processing it (HTTP/2 REFUSED_STREAM, RFC 9113 8.7).
    RefusedStream,
    /// The stream is above the last one the peer says it may have processed (RFC 9113 6.8).
    AboveGoaway,
    /// The stream is at or below it, so it may have been processed.
    BelowGoaway,
    /// A response body paused for longer than the idle limit.
    Idle,
    /// A response body ended before its announced end.
    Truncated,
    /// The work was stopped from within: the process was shut down, or the handler panicked.
    Abandoned,
}

impl Failure {
    /// Stable slug, for logs, histories and `explain`.
    pub fn slug(self) -> &'static str {
        match self {
            Failure::Resolve => "resolve",
            Failure::Connect => "connect",
            Failure::Pool => "pool",
            Failure::TlsIdentity => "tls",
            Failure::TlsHandshake => "tls-handshake",
            Failure::NotWritten => "not-written",
            Failure::Write => "write",
            Failure::ReadTimeout => "read-timeout",
            Failure::Reset => "reset",
            Failure::RefusedStream => "refused-stream",
            Failure::AboveGoaway => "goaway-unprocessed",
            Failure::BelowGoaway => "goaway-processed",
            Failure::Idle => "idle",
            Failure::Truncated => "truncated",
            Failure::Abandoned => "abandoned",
        }
    }

    /// The server cannot have acted on this attempt (R3).
    pub fn never_sent(self) -> bool {
        matches!(
            self,
            Failure::Resolve
                | Failure::Connect
                | Failure::Pool
                | Failure::TlsIdentity
                | Failure::TlsHandshake
                | Failure::NotWritten
                | Failure::RefusedStream
                | Failure::AboveGoaway
        )
    }
}

/// What an answer says beyond its status, as far as it bears on what happened. Read from the
/// response head by `Answered::read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The final status.
    pub status: StatusCode,
    /// All bytes of the request had been written when the answer came. Decides what a 408 means.
    pub request_written: bool,
    /// The head shows an intermediary that may have sent the request on before it answered 503:
    /// `Via`, a `Server` of a known proxy, or a `Proxy-Status` connection error.
    pub through_intermediary: bool,
    /// The upstream honours keys and says itself that it does not know: `Steadfast-Effect:
    /// unknown`, or a problem `in-progress` or `outcome-unknown`.
    pub says_unknown: bool,
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// A whole final answer came. Informational (1xx) responses are not answers.
    Answered(Answered),
    /// No whole answer.
    Failed(Failure),
}

impl AttemptEnd {
    /// The evidence proves that nothing reached the server.
    pub fn never_sent(&self) -> bool {
        matches!(self, AttemptEnd::Failed(failure) if failure.never_sent())
    }

    /// Stable slug of the end: the failure's, or the status as digits.
    pub fn slug(&self) -> String {
        match self {
            AttemptEnd::Answered(answered) => answered.status.as_u16().to_string(),
            AttemptEnd::Failed(failure) => failure.slug().to_owned(),
        }
    }
}
