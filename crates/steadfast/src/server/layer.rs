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
use steadfast_core::policy::RoutePolicy;
use steadfast_core::principal::PrincipalRule;
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::repeat::{BodyKind, KeyUse, Operation};
use steadfast_core::retry::{self, Next};
use tower::{Layer, Service, ServiceExt};

use super::admission::Admitted;
use super::execute::Handler;
use super::operation::Keyless;
use super::{KeyedOperation, Principal, Server, admission, reply};
use crate::body::{Body, BoxError};
use crate::clock;
use crate::event::RouteId;

/// Finds out who sends a request.
pub type Caller = Arc<dyn Fn(&Parts) -> Result<Principal, Problem> + Send + Sync>;

/// Protects an inner service: a keyed request happens once, its duplicates are given its answer.
#[derive(Clone)]
pub struct IdempotencyLayer {
    server: Server,
    policy: Arc<RoutePolicy>,
    caller: Caller,
}

impl IdempotencyLayer {
    /// A layer over `server` by the usual rules ([`RoutePolicy::default`]): a caller is who sends
    /// the same `Authorization`, and keys are optional on POST and PATCH.
    pub fn new(server: Server) -> IdempotencyLayer {
        IdempotencyLayer {
            server,
            policy: Arc::default(),
            caller: by_rule(PrincipalRule::default()),
        }
    }

    /// The same by the rules of `policy`. A lease below 30 s is to be named to the server as well
    /// ([`Limits::lease`](super::Limits::lease)).
    pub fn with_policy(self, policy: RoutePolicy) -> IdempotencyLayer {
        let policy = Arc::new(policy);
        IdempotencyLayer { policy, ..self }
    }

    /// The same, with the caller found by `rule`. A [`PrincipalRule::Header`] refuses every request
    /// here, because a layer does not know which peers may set the field: say so yourself, by
    /// [`IdempotencyLayer::with_caller`] and [`Principal::by_rule`].
    pub fn with_principal(self, rule: PrincipalRule) -> IdempotencyLayer {
        let caller = by_rule(rule);
        IdempotencyLayer { caller, ..self }
    }

    /// The same, with the caller found by `caller`, such as from an extension that another layer
    /// has set. A request of which it cannot tell is answered with its problem.
    pub fn with_caller(
        self,
        caller: impl Fn(&Parts) -> Result<Principal, Problem> + Send + Sync + 'static,
    ) -> IdempotencyLayer {
        let caller = Arc::new(caller);
        IdempotencyLayer { caller, ..self }
    }
}

fn by_rule(rule: PrincipalRule) -> Caller {
    Arc::new(move |parts| Principal::by_rule(&rule, &parts.headers, false))
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

/// Over any service that takes requests with the type of body that they come with, if that can be
/// made of bytes: a keyed request is collected before its service sees it. axum's `Body` is one,
/// and so are `Full<Bytes>` and this crate's [`Body`]; of another, such as hyper's `Incoming`, make
/// one with [`Body::new`] (`tower::ServiceExt::map_request`).
impl<S, B, R> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
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

async fn answer<S, B, R>(
    layer: IdempotencyLayer,
    inner: S,
    request: Request<B>,
) -> Result<Response<Body>, Problem>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    if request.extensions().get::<KeyedOperation>().is_some() {
        // Another layer has claimed the key: to claim it again would be to wait for oneself.
        return unkeyed(inner, request).await;
    }
    let deadline = Deadline::after(clock::mono_now(), layer.policy.deadline);
    let (mut parts, body) = request.into_parts();
    let attempt = admission::attempt_of(&parts.headers);
    strip_ours_from_request(&mut parts.headers, true);
    let rules = &layer.policy.idempotency;
    let Some(key) = admission::key_of(&parts, rules, attempt)? else {
        let why = if admission::honours(rules, &parts.method) {
            Keyless::NoKey(rules.header.clone())
        } else {
            Keyless::NotHonoured
        };
        parts.extensions.insert(why);
        return unkeyed(inner, Request::from_parts(parts, body)).await;
    };
    let admitted = Admitted {
        principal: (layer.caller)(&parts)?,
        target: target_of(&parts),
        parts,
        key,
        policy: Arc::clone(&layer.policy),
        deadline,
        route: RouteId::default(),
    };
    let call = admitted.with_body(body).await?;
    Ok(layer.server.call(call, Handler::new(inner)).await)
}

/// The path and query that make the operation: as the caller sent them, also where a router above
/// has cut its own part off the path, since two routers may have handlers of one name.
fn target_of(parts: &Parts) -> String {
    #[cfg(feature = "axum")]
    if let Some(sent) = parts.extensions.get::<axum::extract::OriginalUri>() {
        return admission::target_of(&sent.0);
    }
    admission::target_of(&parts.uri)
}

/// Without a key the layer does nothing but give the service's own failure a status.
async fn unkeyed<S, B, R>(inner: S, request: Request<B>) -> Result<Response<Body>, Problem>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let method = request.method().clone();
    let answer = inner.oneshot(request).await;
    // The error's text is the service's to log: it may hold what nobody may read here (S2).
    answer.map(|answer| answer.map(Body::new)).map_err(|_| {
        tracing::error!(%method, "the service failed before it answered");
        let end = AttemptEnd::Failed(Failure::Abandoned);
        let operation = Operation {
            method: &method,
            key: KeyUse::None,
            body: BodyKind::Whole,
            conditional: false,
        };
        let decision = retry::on_only_end(&end, operation, Duration::MAX);
        match decision.next {
            Next::GiveUp => {
                let detail = "The service failed before it answered. Sending it again is safe.";
                Problem::new(Slug::UpstreamFailed, detail).with_effect(decision.effect)
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
