//! The server layer for any tower service: the service's answer happens once per key.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body as HttpBody;
use steadfast_core::attempt::{AttemptEnd, Failure};
use steadfast_core::deadline::Deadline;
use steadfast_core::fields::strip_ours_from_request;
use steadfast_core::key::Key;
use steadfast_core::policy::RoutePolicy;
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::retry::{self, Decision, Facts};
use tower::{Layer, Service, ServiceExt};

use super::execute::Handler;
use super::{Call, Principal, Server, admission, reply};
use crate::body::{Body, BoxError};
use crate::clock;
use crate::event::RouteId;

/// Finds out who sends a request.
pub type Caller = Arc<dyn Fn(&Parts) -> Result<Principal, Problem> + Send + Sync>;

/// What a handler may know of the keyed operation that it performs, as a request extension.
#[derive(Clone, Debug)]
pub struct KeyedOperation {
    /// The caller's key, to be passed on to whatever honours it.
    pub key: Key,
    /// The fence of this attempt, to be checked by whatever is written to. `None` where the
    /// operation runs unprotected, its store having failed.
    pub fence: Option<u64>,
    /// By when the operation has to end.
    pub deadline: Deadline,
}

impl KeyedOperation {
    /// What remains for the operation.
    pub fn remaining(&self) -> Duration {
        self.deadline.remaining(clock::mono_now())
    }
}

/// Protects an inner service: a keyed request happens once, its duplicates are given its answer.
#[derive(Clone)]
pub struct IdempotencyLayer {
    server: Server,
    policy: Arc<RoutePolicy>,
    caller: Caller,
}

impl IdempotencyLayer {
    /// A layer over `server`, by the rules of `policy`, whose principals `caller` finds.
    pub fn new(server: Server, policy: RoutePolicy, caller: Caller) -> IdempotencyLayer {
        IdempotencyLayer {
            server,
            policy: Arc::new(policy),
            caller,
        }
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> IdempotencyService<S> {
        IdempotencyService {
            layer: self.clone(),
            inner,
        }
    }
}

/// The protected service.
#[derive(Clone)]
pub struct IdempotencyService<S> {
    layer: IdempotencyLayer,
    inner: S,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S, B> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The inner service is asked once the request is to be executed: a finished answer is given
        // even while it is not ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answer {
        let (layer, inner) = (self.layer.clone(), self.inner.clone());
        Box::pin(async move {
            Ok(answer(layer, inner, request)
                .await
                .unwrap_or_else(|refused| reply::problem(&refused)))
        })
    }
}

async fn answer<S, B>(
    layer: IdempotencyLayer,
    inner: S,
    request: Request<B>,
) -> Result<Response<Body>, Problem>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let deadline = Deadline::after(clock::mono_now(), layer.policy.deadline);
    let (mut parts, body) = request.into_parts();
    let attempt = admission::attempt_of(&parts.headers);
    strip_ours_from_request(&mut parts.headers, true);
    let Some(key) = admission::key_of(&parts, &layer.policy.idempotency, attempt)? else {
        return unkeyed(inner, Request::from_parts(parts, body)).await;
    };
    let principal = (layer.caller)(&parts)?;
    let body = admission::collect(body, layer.policy.body_limit).await?;
    let target = parts
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str())
        .to_owned();
    let policy = Arc::clone(&layer.policy);
    let call = Call {
        parts,
        target,
        body,
        key,
        principal,
        policy,
        deadline,
        route: RouteId::default(),
    };
    Ok(layer.server.call(call, Handler(inner)).await)
}

/// Without a key the layer does nothing but give the service's own failure a status.
async fn unkeyed<S, B>(inner: S, request: Request<B>) -> Result<Response<Body>, Problem>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let method = request.method().clone();
    let answer = inner.oneshot(request.map(Body::new)).await;
    // The error's text is the service's to log: it may hold what nobody may read here (S2).
    answer.map_err(|_| {
        tracing::error!(%method, "the service failed before it answered");
        let end = AttemptEnd::Failed(Failure::Abandoned);
        let facts = Facts {
            method: &method,
            keyed: false,
        };
        match retry::on_end(&end, facts, Duration::MAX) {
            Decision::GiveUp { effect, .. } => {
                let detail = "The service failed before it answered. Sending it again is safe.";
                Problem::new(Slug::UpstreamFailed, detail).with_effect(effect)
            }
            _ => {
                let detail = "The service failed before it answered, so it may have been executed. \
                              Look up whether it happened; with a key it could have been sent \
                              again safely.";
                Problem::new(Slug::OutcomeUnknown, detail).with_status(StatusCode::GATEWAY_TIMEOUT)
            }
        }
    })
}
