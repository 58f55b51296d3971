//! One attempt under way, which is told of once, when it ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use steadfast_core::attempt::{AttemptEnd, Failure};
use steadfast_core::effect::Effect;
use steadfast_core::record::OperationId;
use steadfast_core::repeat::{BodyKind, KeyUse, Operation};
use steadfast_core::retry::{self, Reason};
use steadfast_core::time::MonoTime;
use steadfast_core::trace_context::TraceId;

use super::{AttemptEnded, End, Event, Observer, RouteId};
use crate::body::{BoxError, failure_of};
use crate::clock;

/// An attempt that has begun: with the asking for a connection.
pub struct Attempt {
    observer: Arc<dyn Observer>,
    route: RouteId,
    method: Method,
    number: u32,
    skipped: Option<Reason>,
    keyed: bool,
    operation: Option<(OperationId, u64)>,
    trace: Option<TraceId>,
    began: MonoTime,
    head_at: Option<MonoTime>,
}

impl Attempt {
    /// The first attempt of a request with this method and these fields begins.
    pub fn begin(
        observer: &Arc<dyn Observer>,
        route: RouteId,
        method: &Method,
        headers: &HeaderMap,
    ) -> Attempt {
        Attempt {
            observer: Arc::clone(observer),
            route,
            method: method.clone(),
            number: 1,
            skipped: None,
            keyed: false,
            operation: None,
            trace: TraceId::of(headers),
            began: clock::mono_now(),
            head_at: None,
        }
    }

    /// It is this one among the attempts of its request, from 1 on.
    pub fn numbered(self, number: u32) -> Attempt {
        Attempt { number, ..self }
    }

    /// Should its answer come whole, this is why no other follows; `None` where it simply stands.
    pub fn not_repeated(self, skipped: Option<Reason>) -> Attempt {
        Attempt { skipped, ..self }
    }

    /// It has a record, and this fence.
    pub fn of_operation(self, id: OperationId, fence: u64) -> Attempt {
        Attempt {
            operation: Some((id, fence)),
            ..self.keyed()
        }
    }

    /// Its request has a key, whether it has a record or not.
    pub fn keyed(self) -> Attempt {
        Attempt {
            keyed: true,
            ..self
        }
    }

    /// The head of its answer came.
    pub fn head_came(&mut self) {
        self.head_at = Some(clock::mono_now());
    }

    /// Tells that it ended. `skipped` is why no other follows, where no answer stands.
    pub fn ended(&self, end: End, effect: Effect, skipped: Option<Reason>) {
        self.observer.on(Event::Attempt(&AttemptEnded {
            route: self.route,
            number: self.number,
            method: &self.method,
            operation: self.operation,
            trace: self.trace,
            end,
            effect,
            skipped,
            to_head: self.head_at.map(|at| at.since(self.began)),
            took: clock::mono_now().since(self.began),
        }));
    }

    /// What the server may have done where something was sent and the answer failed so, and why no
    /// other attempt follows.
    fn given_up(&self, failure: Failure) -> (Effect, Reason) {
        let operation = Operation {
            method: &self.method,
            key: match self.keyed {
                true => KeyUse::Carried,
                false => KeyUse::None,
            },
            body: BodyKind::Whole,
            conditional: false,
        };
        let end = AttemptEnd::Failed(failure);
        let decision = retry::on_only_end(&end, operation, Duration::MAX);
        (decision.effect, decision.reason)
    }
}

/// An attempt whose caller may leave at any moment: dropping it tells that.
pub struct Leaving {
    attempt: Option<Attempt>,
    sent: bool,
}

impl Leaving {
    /// Guards `attempt`, of which nothing is sent yet.
    pub fn new(attempt: Attempt) -> Leaving {
        Leaving {
            attempt: Some(attempt),
            sent: false,
        }
    }

    /// From now on something may have been sent.
    pub fn sending(&mut self) {
        self.sent = true;
    }

    /// The attempt, whose end is the taker's to tell.
    pub fn stays(mut self) -> Option<Attempt> {
        self.attempt.take()
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            let effect = match self.sent {
                true => attempt.given_up(Failure::Abandoned).0,
                false => Effect::None,
            };
            attempt.ended(End::CallerLeft, effect, None);
        }
    }
}

/// An answer's body that tells of its attempt's end: the body's own, a cut, or the caller's
/// leaving.
pub struct Watched<B> {
    body: B,
    /// Taken by telling.
    open: Option<(Attempt, StatusCode, Effect)>,
}

impl<B: HttpBody> Watched<B> {
    /// The body of the answer with `status` to `attempt`, which had `effect`.
    pub fn new(body: B, attempt: Attempt, status: StatusCode, effect: Effect) -> Watched<B> {
        let open = Some((attempt, status, effect));
        let mut watched = Watched { body, open };
        if watched.body.is_end_stream() {
            watched.whole();
        }
        watched
    }
}

impl<B> Watched<B> {
    fn whole(&mut self) {
        if let Some((attempt, status, effect)) = self.open.take() {
            attempt.ended(End::Answered(status), effect, attempt.skipped);
        }
    }

    fn cut(&mut self, error: &BoxError) {
        if let Some((attempt, ..)) = self.open.take() {
            // Behind a head, no evidence says that nothing was sent.
            let failure = Some(failure_of(error)).filter(|failure| !failure.never_sent());
            let failure = failure.unwrap_or(Failure::Truncated);
            let (effect, reason) = match attempt.given_up(failure) {
                // Its head, and perhaps more, is its caller's already.
                (effect, Reason::AttemptsUsed) if !attempt.keyed => (effect, Reason::PassedOn),
                other => other,
            };
            attempt.ended(End::Failed(failure), effect, Some(reason));
        }
    }
}

impl<B> Drop for Watched<B> {
    /// Whoever reads no further has what was wanted: the upstream's answer is the attempt's end.
    fn drop(&mut self) {
        self.whole();
    }
}

impl<B> HttpBody for Watched<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                self.whole();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Ok(frame))) => {
                // A reader that sees the end announced asks for no more.
                if self.body.is_end_stream() {
                    self.whole();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                let error = error.into();
                self.cut(&error);
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
