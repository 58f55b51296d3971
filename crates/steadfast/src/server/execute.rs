//! The way to an effect: what the server layer asks of whoever performs it.
//!
//! Two implementations earn the trait its place: a tower service, for which the call itself is the
//! dispatch, and the gateway's upstream, for which a connection comes first.

use std::future::Future;
use std::marker::PhantomData;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use tower::{Service, ServiceExt};

use crate::attempts::SharedUpstream;
use crate::body::{Body, BoxError};

/// An attempt that brought no whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// In which phase, as evidence.
    pub failure: Failure,
    /// What was seen, for the record's history. No body, key or credential.
    pub detail: String,
}

/// An answer's head, with its body to be read.
pub struct Executed {
    /// The answer. Its body says by [`crate::body::Cut`] how it was cut.
    pub response: Response<Body>,
    /// All bytes of the request had been written when the answer came.
    pub request_written: bool,
}

/// The number of a request's attempt, from 1 on, among its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptNumber(pub u32);

/// Performs one operation, at most once per [`Execute::run`].
pub trait Execute: Clone + Send + Sync + 'static {
    /// What must be in hand before the dispatch mark is written, such as a connection. Dropped
    /// unused when the mark comes to nothing.
    type Ready: Send + 'static;

    /// Breaker and budget of the upstream behind it, where an operation may be sent to it more than
    /// once. None means a single attempt: that a handler be called twice is never decided here.
    fn upstream(&self) -> Option<&SharedUpstream> {
        None
    }

    /// A layer before this one repeats already: only what was never sent goes again here (R8).
    fn only_unsent(&self) -> bool {
        false
    }

    /// `ready` was used before, so that its other end may have ended it just now.
    fn is_reused(_: &Self::Ready) -> bool {
        false
    }

    /// Makes one that was never used before, as [`Execute::prepare`] does.
    fn prepare_new(
        &self,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Self::Ready, Failed>> + Send {
        self.prepare(deadline)
    }

    /// Gives it where it is at hand, without waiting: then the insert is the dispatch mark.
    fn at_hand(&self) -> Option<Self::Ready>;

    /// Makes it. Nothing of the request is sent. A failure must be one that was never sent.
    fn prepare(
        &self,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Self::Ready, Failed>> + Send;

    /// Sends the request, once. A panic in it, or in the answer's body, leaves the effect unknown.
    fn run(
        &self,
        ready: Self::Ready,
        request: Request<Bytes>,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Executed, Failed>> + Send;
}

/// A tower service as the way: calling it is the dispatch, so that a service that is not ready has
/// not been reached. `B` is the body that its requests have.
pub struct Handler<S, B> {
    service: S,
    body: PhantomData<fn(Bytes) -> B>,
}

impl<S, B> Handler<S, B> {
    /// The way through `service`.
    pub fn new(service: S) -> Handler<S, B> {
        Handler {
            service,
            body: PhantomData,
        }
    }
}

impl<S: Clone, B> Clone for Handler<S, B> {
    fn clone(&self) -> Self {
        Handler::new(self.service.clone())
    }
}

impl<S, B, R> Execute for Handler<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: From<Bytes> + Send + 'static,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Ready = S;

    fn at_hand(&self) -> Option<S> {
        let mut service = self.service.clone();
        let mut nobody = Context::from_waker(Waker::noop());
        match service.poll_ready(&mut nobody) {
            Poll::Ready(Ok(())) => Some(service),
            // [`Execute::prepare`] waits for it, or is told its failure.
            Poll::Ready(Err(_)) | Poll::Pending => None,
        }
    }

    async fn prepare(&self, _: Deadline) -> Result<S, Failed> {
        let mut service = self.service.clone();
        match service.ready().await {
            Ok(_) => Ok(service),
            Err(_) => Err(Failed {
                failure: Failure::NotWritten,
                detail: "the service is not ready".to_owned(),
            }),
        }
    }

    async fn run(
        &self,
        mut service: S,
        request: Request<Bytes>,
        _: Deadline,
    ) -> Result<Executed, Failed> {
        match service.call(request.map(B::from)).await {
            Ok(response) => Ok(Executed {
                response: response.map(Body::new),
                request_written: true,
            }),
            // An error of the handler says nothing of its effect, and its text is not ours to
            // repeat.
            Err(_) => Err(Failed {
                failure: Failure::Abandoned,
                detail: "the handler failed".to_owned(),
            }),
        }
    }
}
