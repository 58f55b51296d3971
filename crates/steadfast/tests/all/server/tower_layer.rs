//! The layer over a tower service: the way of an axum handler.

use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};

use http::Request;
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use steadfast::body::{BoxError, full};
use steadfast::core::principal::PrincipalRule;
use steadfast::server::{IdempotencyLayer, KeyedOperation};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::*;

async fn layer() -> IdempotencyLayer {
    let server = Server::new(Arc::new(Memory::new()), Limits::default());
    let server = server.await.unwrap();
    IdempotencyLayer::new(server)
}

fn post(key: Option<&str>, body: &'static str) -> Request<Body> {
    let mut request = Request::post("/v1/charges").header("authorization", "Bearer alice");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request
        .header("idempotency-fence", "9")
        .body(full(body))
        .unwrap()
}

/// Answers 201 with what the handler may know, and counts.
async fn charges(
    count: Arc<AtomicUsize>,
    request: Request<Body>,
) -> Result<Response<Body>, Infallible> {
    let operation = request.extensions().get::<KeyedOperation>().cloned();
    let told = operation.map(|op| {
        assert!(op.remaining() > Duration::ZERO);
        assert_eq!(
            request.headers()["idempotency-fence"].to_str().ok(),
            op.fence.map(|fence| fence.to_string()).as_deref()
        );
        op.key.as_str().to_owned()
    });
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let number = count.fetch_add(1, Ordering::SeqCst) + 1;
    let text = format!("{number} {told:?} {}", body.len());
    Ok(Response::builder().status(201).body(full(text)).unwrap())
}

// rule: a-handler-runs-once-per-key
#[tokio::test(start_paused = true)]
async fn a_handler_runs_once_for_each_key_and_knows_its_operation() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let handler = service_fn(move |request| charges(Arc::clone(&counted), request));
    let service = layer().await.layer(handler);
    let send = |request| {
        let service = service.clone();
        async move { Seen::of(service.oneshot(request).await.unwrap()).await }
    };
    let first = send(post(Some(KEY), "{}")).await;
    let second = send(post(Some(KEY), "{}")).await;
    assert_eq!(first.told(), (201, Some("false"), None));
    assert_eq!(second.told(), (201, Some("true"), None));
    assert_eq!(first.bytes(), second.bytes());
    assert_eq!(
        first.bytes(),
        format!("1 Some(\"{KEY}\") 2").as_bytes(),
        "the key is told"
    );
    assert_eq!(send(post(Some(KEY), "[]")).await.status, 422);
    for bad in ["", "short", "one, two", "00000000000000000000"] {
        let seen = send(post(Some(bad), "{}")).await;
        assert_eq!(seen.status, 400, "{bad:?} is never taken for no key");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let keyless = send(post(None, "{}")).await;
    assert_eq!(keyless.told(), (201, None, None));
    assert_eq!(keyless.bytes(), b"2 None 2");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_or_panics_leaves_the_outcome_unknown() {
    let failing = service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, BoxError>("card 4242 declined".into())
    });
    let service = layer().await.layer(failing);
    let seen = Seen::of(
        service
            .clone()
            .oneshot(post(Some(KEY), "{}"))
            .await
            .unwrap(),
    )
    .await;
    seen.is_problem(504, "outcome-unknown", "unknown", false);
    assert!(!String::from_utf8_lossy(seen.bytes()).contains("4242"));
    let keyless = Seen::of(service.oneshot(post(None, "{}")).await.unwrap()).await;
    keyless.is_problem(504, "outcome-unknown", "unknown", false);

    let panicking = service_fn(|_: Request<Body>| async {
        if true {
            panic!("as the test asks");
        }
        Ok::<Response<Body>, Infallible>(Response::new(full("")))
    });
    let service = layer().await.layer(panicking);
    let seen = Seen::of(service.oneshot(post(Some(KEY), "{}")).await.unwrap()).await;
    seen.is_problem(504, "outcome-unknown", "unknown", false);
}

/// Ready once it is told so; fails to be where it is told that.
#[derive(Clone)]
struct Unready {
    ready: Arc<AtomicUsize>,
}

impl Service<Request<Body>> for Unready {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self.ready.load(Ordering::SeqCst) {
            0 => Poll::Pending,
            1 => Poll::Ready(Err("shut".into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        std::future::ready(Ok(Response::new(full("done"))))
    }
}

// rule: calling-the-handler-is-the-dispatch
#[tokio::test(start_paused = true)]
async fn a_service_that_was_never_called_has_had_no_effect() {
    let ready = Arc::new(AtomicUsize::new(0));
    let service = layer().await.layer(Unready {
        ready: Arc::clone(&ready),
    });
    let send = || {
        let service = service.clone();
        async move { Seen::of(service.oneshot(post(Some(KEY), "{}")).await.unwrap()).await }
    };
    send()
        .await
        .is_problem(504, "deadline-exceeded", "none", true);
    ready.store(1, Ordering::SeqCst);
    send()
        .await
        .is_problem(503, "upstream-unreachable", "none", true);
    ready.store(2, Ordering::SeqCst);
    assert_eq!(send().await.told(), (200, Some("false"), None));
}

#[tokio::test(start_paused = true)]
async fn a_body_above_the_limit_is_refused_before_anything() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let handler = service_fn(move |request| charges(Arc::clone(&counted), request));
    let server = Server::new(Arc::new(Memory::new()), Limits::default());
    let policy = RoutePolicy {
        body_limit: 3,
        ..RoutePolicy::default()
    };
    let layer = IdempotencyLayer::new(server.await.unwrap()).with_policy(policy);
    let service = layer.layer(handler);
    let seen = service.oneshot(post(Some(KEY), "four")).await.unwrap();
    Seen::of(seen)
        .await
        .is_problem(413, "body-too-large", "none", false);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_waited_for_until_the_deadline() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let handler = service_fn(move |request| charges(Arc::clone(&counted), request));
    let service = layer().await.layer(handler);
    let never = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
    let request = post(Some(KEY), "").map(|_| Body::new(StreamBody::new(never)));
    // Time stands still here: the deadline is 30 s, and nothing else ends this.
    let answer = clock::within(31 * SECOND, service.oneshot(request)).await;
    let seen = Seen::of(answer.expect("the deadline ends it").unwrap()).await;
    seen.is_problem(504, "deadline-exceeded", "none", true);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_service_s_own_types_of_bodies_are_its_own() {
    let whole = service_fn(|request: Request<Full<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    });
    let service = layer().await.layer(whole);
    for replayed in ["false", "true"] {
        let request = post(Some(KEY), "").map(|_| Full::from("echo"));
        let seen = Seen::of(service.clone().oneshot(request).await.unwrap()).await;
        assert_eq!(seen.told(), (200, Some(replayed), None));
        assert_eq!(seen.bytes(), b"echo");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_are_told_apart_by_the_rule_that_the_layer_was_given() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let handler = service_fn(move |request| charges(Arc::clone(&counted), request));
    let sent = |layer: IdempotencyLayer, request| {
        let service = layer.layer(handler.clone());
        async move { Seen::of(service.oneshot(request).await.unwrap()).await }
    };
    let of = |caller: &'static str| {
        let mut request = post(Some(KEY), "{}");
        let headers = request.headers_mut();
        headers.insert("authorization", caller.parse().unwrap());
        headers.insert("x-user", "carol".parse().unwrap());
        request
    };
    let usual = layer().await;
    for caller in ["Bearer alice", "Bearer bob"] {
        let seen = sent(usual.clone(), of(caller)).await;
        assert_eq!(seen.told(), (201, Some("false"), None), "{caller}");
    }
    let one = usual.clone().with_principal(PrincipalRule::Anonymous);
    assert_eq!(sent(one.clone(), of("Bearer alice")).await.status, 201);
    assert_eq!(
        sent(one, of("Bearer bob"))
            .await
            .header("idempotent-replayed"),
        Some("true")
    );

    let rule = PrincipalRule::parse("header:x-user").unwrap();
    let untold = sent(
        usual.clone().with_principal(rule.clone()),
        of("Bearer alice"),
    )
    .await;
    untold.is_problem(403, "principal-unknown", "none", false);
    let told = usual.with_caller(move |parts| Principal::by_rule(&rule, &parts.headers, true));
    for replayed in ["false", "true"] {
        let seen = sent(told.clone(), of(replayed)).await;
        assert_eq!(seen.told(), (201, Some(replayed), None));
    }
    assert_eq!(count.load(Ordering::SeqCst), 4);
}
