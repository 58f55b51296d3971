//! The layer and the extractor in an axum router.

use std::sync::atomic::AtomicUsize;

use axum::Router;
use axum::extract::{Path, Request as AxumRequest};
use axum::middleware::{Next, from_fn};
use axum::routing::{get, post};
use http::Request;
use steadfast::server::{IdempotencyLayer, KeyedOperation};
use tower::ServiceExt;

use super::*;

async fn layer() -> IdempotencyLayer {
    let server = Server::new(Arc::new(Memory::new()), Limits::default());
    IdempotencyLayer::new(server.await.unwrap())
}

async fn sent(app: &Router, method: Method, path: &str, key: Option<&str>) -> Seen {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let request = request.body(axum::body::Body::from("{}")).unwrap();
    let answer = app.clone().oneshot(request).await.unwrap();
    Seen::of(answer.map(Body::new)).await
}

async fn posted(app: &Router, path: &str, key: Option<&str>) -> Seen {
    sent(app, Method::POST, path, key).await
}

/// Says what it was given.
async fn needs_key(operation: KeyedOperation) -> String {
    assert!(operation.remaining() > Duration::ZERO);
    let fenced = operation.fence.is_some();
    format!("{} {fenced}", operation.key.as_str())
}

async fn takes_key(operation: Option<KeyedOperation>) -> String {
    operation.map_or("none".to_owned(), |op| op.key.as_str().to_owned())
}

// rule: the-extractor-gives-the-operation
#[tokio::test(start_paused = true)]
async fn a_handler_that_needs_its_operation_is_not_run_without_a_key() {
    let app = Router::new()
        .route("/needs", post(needs_key))
        .route("/takes", post(takes_key))
        .layer(layer().await);
    let keyed = posted(&app, "/needs", Some(KEY)).await;
    assert_eq!(keyed.bytes(), format!("{KEY} true").as_bytes());
    let keyless = posted(&app, "/needs", None).await;
    keyless.is_problem(400, "key-missing", "none", false);
    assert_eq!(
        posted(&app, "/takes", Some(KEY)).await.bytes(),
        KEY.as_bytes()
    );
    assert_eq!(posted(&app, "/takes", None).await.bytes(), b"none");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_no_layer_protects_says_how_to_mount_one() {
    let app = Router::new()
        .route("/needs", post(needs_key))
        .route("/takes", post(takes_key));
    for path in ["/needs", "/takes"] {
        for key in [Some(KEY), None] {
            let seen = posted(&app, path, key).await;
            assert_eq!(seen.status, 500, "{path}");
            assert_eq!(
                seen.header("content-type"),
                Some("application/problem+json")
            );
            let detail = seen.json()["detail"].as_str().unwrap().to_owned();
            assert!(
                detail.contains(".layer(IdempotencyLayer::new(server))"),
                "{detail}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_on_which_no_key_is_honoured_is_the_program_s_fault_not_the_caller_s() {
    let app = Router::new()
        .route("/needs", get(needs_key))
        .route("/takes", get(takes_key))
        .layer(layer().await);
    for key in [Some(KEY), None] {
        let seen = sent(&app, Method::GET, "/needs", key).await;
        assert_eq!(seen.status, 500);
        let detail = seen.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("idempotency.methods"), "{detail}");
        assert_eq!(
            sent(&app, Method::GET, "/takes", key).await.bytes(),
            b"none"
        );
    }
}

// rule: an-operation-is-the-path-as-sent
#[tokio::test(start_paused = true)]
async fn handlers_of_one_name_in_two_nested_routers_are_two_operations() {
    let layer = layer().await;
    let named = |name: &'static str| {
        let handler = post(move || async move { name });
        Router::new().route("/new", handler.layer(layer.clone()))
    };
    let app = Router::new()
        .nest("/charges", named("charge"))
        .nest("/refunds", named("refund"));
    for (path, name) in [("/charges/new", "charge"), ("/refunds/new", "refund")] {
        let seen = posted(&app, path, Some(KEY)).await;
        assert_eq!(seen.told(), (200, Some("false"), None), "{path}");
        assert_eq!(seen.bytes(), name.as_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn what_axum_and_other_layers_put_into_a_request_reaches_the_handler() {
    async fn marks(mut request: AxumRequest, next: Next) -> axum::response::Response {
        request.extensions_mut().insert(7_u8);
        next.run(request).await
    }
    let handler = |Path(id): Path<String>, mark: axum::Extension<u8>, body: String| async move {
        format!("{id} {} {body}", mark.0)
    };
    // Inside the layer and outside it, and with the layer between.
    let app = Router::new().route("/v1/{id}", post(handler));
    let app = app.layer(from_fn(marks)).layer(layer().await);
    let app = app.layer(from_fn(marks));
    for replayed in ["false", "true"] {
        let seen = posted(&app, "/v1/42", Some(KEY)).await;
        assert_eq!(seen.told(), (200, Some(replayed), None));
        assert_eq!(seen.bytes(), b"42 7 {}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_that_is_protected_twice_does_not_wait_for_itself() {
    let (layer, count) = (layer().await, Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    let handler = move |operation: KeyedOperation| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { operation.key.as_str().to_owned() }
    };
    let app = Router::new().route("/", post(handler).layer(layer.clone()));
    let app = app.layer(layer);
    for replayed in ["false", "true"] {
        let seen = posted(&app, "/", Some(KEY)).await;
        assert_eq!(seen.told(), (200, Some(replayed), None));
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_leaves_its_order_unknown_and_is_not_run_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let handler = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { panic!("behind the effect") as () }
    };
    let app = Router::new().route("/", post(handler)).layer(layer().await);
    for status in [504, 409] {
        let seen = posted(&app, "/", Some(KEY)).await;
        seen.is_problem(status, "outcome-unknown", "unknown", false);
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
