//! The way of one attempt: first the means to send, then the sending.
//!
//! Between the two stands the budget: what was decided is paid for when nothing but the first byte
//! is missing. Two ways are there: a service of somebody's ([`super::layer`]) and the pool
//! ([`super::over_pool`]).

use http::{Request, Response};
use http_body::Body;
use steadfast_core::time::MonoTime;

use super::evidence::Seen;
use super::request_body::AttemptBody;
use crate::body::BoxError;

/// How one attempt is made.
pub(super) trait Way: Send {
    /// The means to send one request.
    type Ready: Send;
    /// The body of an answer.
    type Body: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin;

    /// Gets the means. Nothing is sent yet, so every failure is proof of that.
    fn ready(&mut self, ends: MonoTime) -> impl Future<Output = Result<Self::Ready, Seen>> + Send;

    /// Sends once, and waits for the head of the answer.
    fn send(
        &mut self,
        ready: Self::Ready,
        request: Request<AttemptBody>,
        ends: MonoTime,
    ) -> impl Future<Output = Result<Came<Self::Body>, Fell>> + Send;
}

/// The head of an answer came.
pub(super) struct Came<B> {
    pub(super) answer: Response<B>,
    /// The whole request had been written before.
    pub(super) request_written: bool,
}

/// No answer came.
pub(super) struct Fell {
    pub(super) seen: Seen,
    /// By the request's own fault.
    pub(super) own_fault: bool,
}

impl From<Seen> for Fell {
    fn from(seen: Seen) -> Fell {
        Fell {
            seen,
            own_fault: false,
        }
    }
}
