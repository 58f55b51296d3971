//! The client decision beside tower's back-off and budget; the client layer beside tower's stack.

use std::cell::RefCell;
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Empty;
use steadfast::client::{AttemptBody, ClientLayer, RequestBody};
use steadfast::clock;
use steadfast_core::attempt::{Answered, AttemptEnd};
use steadfast_core::policy::{RoutePolicy, Statuses};
use steadfast_core::repeat::{BodyKind, KeyUse, Operation};
use steadfast_core::retry::{self, Course, RetryPolicy, Signs, Situation};
use steadfast_core::time::Draw;
use steadfast_core::upstream::Upstream;
use tower::retry::backoff::{Backoff, ExponentialBackoff, ExponentialBackoffMaker, MakeBackoff};
use tower::retry::budget::{Budget, TpsBudget};
use tower::util::rng::HasherRng;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::{Failure, Window, measured, rows, turns};

/// What a decision may cost at most, in nanoseconds.
const LIMIT_NS: f64 = 150.0;

/// Operations a call does.
const TIMES: u32 = 50;

/// The window of tower's budget.
const BUDGET: Duration = Duration::from_secs(10);

/// One window, shared by both.
pub fn measure(window: Window) -> Result<(), Failure> {
    let half = window.length() / 2;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let inside = runtime.enter();
    decisions(window.round, half)?;
    drop(inside);
    layers(window.round, half, &runtime)
}

/// A 503 to a GET: again, after a wait, if breaker and budget let it.
fn decisions(round: u32, length: Duration) -> Result<(), Failure> {
    let (policy, statuses) = (RetryPolicy::default(), Statuses::default());
    let route = RoutePolicy::default();
    let upstream = RefCell::new(Upstream::new(route.budget, route.breaker));
    let situation = Situation {
        operation: Operation {
            method: &Method::GET,
            key: KeyUse::None,
            body: BodyKind::Whole,
            conditional: false,
        },
        policy: &policy,
        statuses: &statuses,
        course: Course::FIRST,
        remaining: Duration::from_secs(30),
        attempt_limit: Duration::from_secs(20),
        min_attempt: Duration::ZERO,
        passed_on: false,
        may_defer: false,
    };
    let end = AttemptEnd::Answered(Answered {
        status: StatusCode::SERVICE_UNAVAILABLE,
        request_written: true,
        through_intermediary: false,
        says_unknown: false,
    });
    let random = RefCell::new(rows::Random::new());
    let ours = || {
        // Both read the clock once a decision, tower within its budget.
        let now = clock::mono_now();
        let draw = || Draw::from_bits(random.borrow_mut().bits());
        let may_go = |wait| upstream.borrow_mut().may_retry(now, wait);
        let signs = black_box(&Signs::NONE);
        black_box(retry::on_end(
            black_box(&situation),
            black_box(&end),
            signs,
            draw,
            may_go,
        ));
    };
    // So much in reserve that it answers yes, as ours does.
    let budget = TpsBudget::new(BUDGET, 1_000_000, 0.2);
    let backoff = RefCell::new(backoff()?);
    let reference = || {
        black_box(budget.withdraw());
        drop(black_box(backoff.borrow_mut().next_backoff()));
    };
    turns::compare(round, length, ("decision", 1), &ours, &reference);
    measured::write(round, "decision.limit_ns", LIMIT_NS);
    Ok(())
}

fn backoff() -> Result<ExponentialBackoff<HasherRng>, Failure> {
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(5));
    let mut maker = ExponentialBackoffMaker::new(least, most, 1.0, HasherRng::default())?;
    Ok(maker.make_backoff())
}

/// tower's own parts, put together as its documentation does.
#[derive(Clone)]
struct Usual {
    budget: Arc<TpsBudget>,
    backoff: ExponentialBackoff<HasherRng>,
    left: u32,
}

type Answer = Response<Empty<Bytes>>;

impl<E> tower::retry::Policy<Request<Bytes>, Answer, E> for Usual {
    type Future = <ExponentialBackoff<HasherRng> as Backoff>::Future;

    fn retry(
        &mut self,
        _: &mut Request<Bytes>,
        result: &mut Result<Answer, E>,
    ) -> Option<Self::Future> {
        if matches!(result, Ok(answer) if !answer.status().is_server_error()) {
            self.budget.deposit();
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let allowed = self.budget.withdraw();
        allowed.then(|| self.backoff.next_backoff())
    }

    fn clone_request(&mut self, request: &Request<Bytes>) -> Option<Request<Bytes>> {
        Some(request.clone())
    }
}

fn request<B>(body: B) -> Request<B> {
    let mut request = Request::new(body);
    *request.uri_mut() = http::Uri::from_static("http://a.test/orders");
    for name in ["accept", "user-agent", "traceparent"] {
        let value = http::HeaderValue::from_static("a value of some length");
        request.headers_mut().insert(name, value);
    }
    request
}

/// A service below that does nothing.
fn layers(round: u32, length: Duration, runtime: &tokio::runtime::Runtime) -> Result<(), Failure> {
    let answer = || async { Ok::<Answer, Infallible>(Response::new(Empty::new())) };
    let policy = RoutePolicy::default();
    let limit = policy.timeouts.attempt;
    let below = service_fn(move |_: Request<AttemptBody>| answer());
    let client = ClientLayer::new(policy);
    let plain = client.clone().without_hop_fields().layer(below);
    let full = client.layer(below);
    let usual = Usual {
        budget: Arc::new(TpsBudget::new(BUDGET, 1, 0.2)),
        backoff: backoff()?,
        left: 2,
    };
    let stack = ServiceBuilder::new()
        .retry(usual)
        .timeout(limit)
        .service(service_fn(move |_: Request<Bytes>| answer()));
    let ours = || {
        runtime.block_on(async {
            for _ in 0..TIMES {
                let mut client = plain.clone();
                let _ = black_box(client.call(request(RequestBody::empty())).await);
            }
        });
    };
    let with_fields = || {
        runtime.block_on(async {
            for _ in 0..TIMES {
                let mut client = full.clone();
                let _ = black_box(client.call(request(RequestBody::empty())).await);
            }
        });
    };
    let reference = || {
        runtime.block_on(async {
            for _ in 0..TIMES {
                let mut stack = stack.clone();
                let ready = stack.ready().await;
                if let Ok(stack) = ready {
                    let _ = black_box(stack.call(request(Bytes::new())).await);
                }
            }
        });
    };
    turns::compare(round, length / 2, ("layer", TIMES), &ours, &reference);
    turns::compare(
        round,
        length / 2,
        ("layer.fields", TIMES),
        &with_fields,
        &reference,
    );
    Ok(())
}
