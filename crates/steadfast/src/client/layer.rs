//! The client side as a tower layer: deadlines, safe repeats, budget and breaker over any service.
//!
//! The service below gets one request for each attempt, with an [`AttemptBody`]; what its errors
//! prove is asked at one door ([`Evidence`]). What comes back is an [`Ended`], never an error: that
//! an outcome is unknown is a result.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body::Body;
use steadfast_core::attempt::Failure;
use steadfast_core::policy::RoutePolicy;
use steadfast_core::time::MonoTime;
use tower::{Layer, Service};

use super::answer_body::AnswerBody;
use super::ended::Ended;
use super::evidence::{Evidence, OwnErrors, Seen};
use super::request_body::{AttemptBody, RequestBody};
use super::run::Run;
use super::settings::Settings;
use super::way::{Came, Fell, Way};
use crate::attempts::SharedUpstream;
use crate::body::BoxError;
use crate::clock::{self, Elapsed};

/// Puts deadlines, repeats, budget and breaker before a service. One layer stands for one upstream:
/// all services made by it and its clones share budget and breaker.
#[derive(Clone, Debug)]
pub struct ClientLayer<D = OwnErrors> {
    settings: Arc<Settings>,
    upstream: SharedUpstream,
    door: D,
}

impl ClientLayer {
    /// A layer with these rules.
    pub fn new(policy: RoutePolicy) -> ClientLayer {
        let upstream = SharedUpstream::new(policy.budget, policy.breaker);
        ClientLayer {
            settings: Arc::new(Settings::new(policy)),
            upstream,
            door: OwnErrors,
        }
    }
}

impl<D> ClientLayer<D> {
    /// The endpoint honours idempotency keys: a `POST` or `PATCH` (the policy's
    /// `idempotency.methods`) gets a key where it has none, the same for all its attempts, and is
    /// repeated under it.
    #[must_use]
    pub fn endpoint_honours_keys(self) -> Self {
        self.set(|settings| settings.honours_keys = true)
    }

    /// Requests go out without `Request-Timeout-Ms` and `Steadfast-Attempt`.
    #[must_use]
    pub fn without_hop_fields(self) -> Self {
        self.set(|settings| settings.hop_fields = false)
    }

    /// An answer of up to `bytes` is read whole before it counts as one, so that a body which is
    /// cut can be asked for again. A longer one is passed on from there as it comes.
    #[must_use]
    pub fn with_whole_answers(self, bytes: usize) -> Self {
        self.set(|settings| settings.whole_answers = Some(bytes))
    }

    /// Shares the budget and breaker of `upstream`, in place of the policy's own.
    #[must_use]
    pub fn with_upstream(self, upstream: SharedUpstream) -> Self {
        ClientLayer { upstream, ..self }
    }

    /// What the errors of the service below prove.
    #[must_use]
    pub fn with_evidence<E>(self, door: E) -> ClientLayer<E> {
        ClientLayer {
            settings: self.settings,
            upstream: self.upstream,
            door,
        }
    }

    /// Budget and breaker, to share or to look at.
    pub fn upstream(&self) -> &SharedUpstream {
        &self.upstream
    }

    fn set(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(Arc::make_mut(&mut self.settings));
        self
    }
}

impl<S, D: Clone> Layer<S> for ClientLayer<D> {
    type Service = ClientService<S, D>;

    fn layer(&self, inner: S) -> ClientService<S, D> {
        ClientService {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service under [`ClientLayer`].
#[derive(Clone, Debug)]
pub struct ClientService<S, D = OwnErrors> {
    inner: S,
    layer: ClientLayer<D>,
}

impl<S, D, R, B> Service<Request<R>> for ClientService<S, D>
where
    S: Service<Request<AttemptBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    D: Evidence<S::Error> + Clone + Send + Sync + 'static,
    R: Into<RequestBody>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Response = Ended<AnswerBody<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Ended<AnswerBody<B>>, Infallible>> + Send>>;

    /// Always ready: the service below is asked for each attempt, within that attempt's limit.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        Box::pin(self.operation(request.map(Into::into)))
    }
}

impl<S, D> ClientService<S, D> {
    /// One operation, not boxed.
    fn operation<B>(
        &self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Result<Ended<AnswerBody<B>>, Infallible>> + Send + use<S, D, B>
    where
        S: Service<Request<AttemptBody>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Send,
        D: Evidence<S::Error> + Clone + Send + Sync + 'static,
        B: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let way = OverService {
            template: self.inner.clone(),
            door: self.layer.door.clone(),
        };
        let settings = Arc::clone(&self.layer.settings);
        let upstream = self.layer.upstream.clone();
        // The deadline runs from the call on, not from the first polling.
        let mut operation = settings.prepare(request);
        async move {
            let mut run = Run::new(&settings, &mut operation, upstream, way);
            Ok(run.until_its_end().await)
        }
    }
}

/// Attempts over somebody's service.
struct OverService<S, D> {
    /// Each attempt has a clone that it asked for readiness itself.
    template: S,
    door: D,
}

impl<S, D, B> Way for OverService<S, D>
where
    S: Service<Request<AttemptBody>, Response = Response<B>> + Clone + Send,
    S::Future: Send,
    S::Error: Send,
    D: Evidence<S::Error> + Send + Sync,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + Unpin,
{
    type Ready = S;
    type Body = B;

    async fn ready(&mut self, ends: MonoTime) -> Result<S, Seen> {
        let mut service = self.template.clone();
        let ready = poll_fn(|cx| service.poll_ready(cx));
        match clock::until(ends, ready).await {
            Ok(Ok(())) => Ok(service),
            Ok(Err(error)) => {
                let seen = self.door.seen(error);
                // It was not called, so nothing of this request was sent, whatever the error says.
                Err(match seen.failure.never_sent() {
                    true => seen,
                    false => Seen {
                        failure: Failure::Connect,
                        ..seen
                    },
                })
            }
            Err(Elapsed) => Err(Seen {
                detail: Some("the service below was not ready in time".to_owned()),
                ..Seen::from(Failure::Pool)
            }),
        }
    }

    // Not an `async fn`, which would hold the request as well, while its answer is waited for.
    fn send(
        &mut self,
        mut ready: S,
        request: Request<AttemptBody>,
        ends: MonoTime,
    ) -> impl Future<Output = Result<Came<B>, Fell>> + Send {
        let call = clock::until(ends, ready.call(request));
        let door = &self.door;
        call.map(move |ended| match ended {
            Ok(Ok(answer)) => Ok(Came {
                answer,
                // Whether it was is not known; the doubtful of both is that it was.
                request_written: true,
            }),
            Ok(Err(error)) => Err(door.seen(error).into()),
            Err(Elapsed) => Err(Fell::from(Seen::from(Failure::ReadTimeout))),
        })
    }
}
