//! The client: its layer over services that do what a script says, and the ready client over real
//! sockets.

mod bodies;
mod cancelling;
mod decisions;
mod limits;
mod properties;
mod ready;
mod redirects;
mod room;
mod script;
mod stale;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use steadfast::client::{AnswerBody, ClientLayer, Ended, RequestBody};
use steadfast::core::attempt::AttemptEnd;
use steadfast::core::backoff::{Backoff, Curve, Jitter};
use steadfast::core::policy::RoutePolicy;
use steadfast::core::retry::RetryPolicy;
use tower::{Layer, Service};

use script::{Script, ScriptBody};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What is asked in these tests: the route's defaults with waits of exactly 100 ms.
fn policy() -> RoutePolicy {
    let retry = RetryPolicy {
        backoff: Backoff::new(Curve::Fixed, ms(100), ms(100), Jitter::None).expect("a wait"),
        ..RetryPolicy::default()
    };
    RoutePolicy {
        retry: Arc::new(retry),
        ..RoutePolicy::default()
    }
}

/// `policy` with another number of attempts.
fn with_attempts(policy: RoutePolicy, most: u32) -> RoutePolicy {
    let retry = RetryPolicy {
        max_attempts: most.try_into().expect("at least one"),
        ..(*policy.retry).clone()
    };
    RoutePolicy {
        retry: Arc::new(retry),
        ..policy
    }
}

fn request(method: Method) -> Request<RequestBody> {
    let request = Request::builder()
        .method(method)
        .uri("http://a.test/orders");
    let body = RequestBody::whole("amount=50");
    request.body(body).expect("a request")
}

/// One operation through `layer`.
async fn ask(
    layer: &ClientLayer,
    script: &Script,
    request: Request<RequestBody>,
) -> Ended<AnswerBody<ScriptBody>> {
    let mut service = layer.layer(script.clone());
    service
        .call(request)
        .await
        .unwrap_or_else(|never| match never {})
}

/// The word for an end, its reason and its effect.
fn told<B>(ended: &Ended<B>) -> (&'static str, &'static str, &'static str) {
    let account = ended.account();
    let word = match ended {
        Ended::Done { .. } => "done",
        Ended::Deferred { .. } => "deferred",
        Ended::Failed { .. } => "failed",
        Ended::Unknown { .. } => "unknown",
    };
    (word, account.reason.as_str(), account.effect.as_str())
}

/// How each attempt ended.
fn ends<B>(ended: &Ended<B>) -> Vec<String> {
    let attempts = ended.account().story.attempts().iter();
    attempts.map(|told| AttemptEnd::slug(&told.end)).collect()
}
