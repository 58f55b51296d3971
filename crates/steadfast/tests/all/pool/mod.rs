//! The upstream pool against servers that are scripted byte by byte.

mod answers;
mod bodies;
pub(crate) mod certificates;
mod connecting;
mod evidence;
pub(crate) mod frames;
mod http2;
mod http2_bodies;
mod leaving;
mod reuse;
pub(crate) mod secured;
mod sharing;
mod tls;
pub(crate) mod upstream;

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use steadfast::client::Target;
use steadfast::client::pool::{
    BodyError, Pool, PoolSettings, Ready, RequestBody, Reuse, SendEnd, UpstreamBody,
};
use steadfast::clock;
use steadfast::core::attempt::Failure;
use steadfast::core::deadline::Deadline;
use steadfast::core::timeouts::Timeouts;

/// A limit that ends soon, where a test wants it to end.
const SOON: Duration = Duration::from_millis(50);

/// A deadline that no test waits for.
fn in_time() -> Deadline {
    Deadline::after(clock::mono_now(), Duration::from_secs(60))
}

/// Limits that no test waits for.
fn patient() -> Timeouts {
    let long = Duration::from_secs(60);
    Timeouts {
        resolve: long,
        connect: long,
        tls: long,
        write: long,
        response: long,
        idle: long,
        attempt: long,
        pool: long,
        ..Timeouts::default()
    }
}

fn pool() -> Pool {
    Pool::new(long_lived())
}

/// Nothing goes out of date during a test that does not ask for it.
fn long_lived() -> PoolSettings {
    PoolSettings {
        idle: Duration::from_secs(60),
        reuse_unsafe_within: Duration::from_secs(60),
        ..PoolSettings::default()
    }
}

async fn acquire(pool: &Pool, target: &Target) -> Ready {
    let timeouts = patient();
    let ready = pool.acquire(target, Reuse::Unsafe, &timeouts, in_time());
    ready.await.unwrap_or_else(|e| panic!("{e}"))
}

fn get() -> Request<RequestBody> {
    request(
        Method::GET,
        Empty::new().map_err(|e| match e {}).boxed_unsync(),
    )
}

fn post(body: &'static str) -> Request<RequestBody> {
    request(
        Method::POST,
        Full::new(Bytes::from(body))
            .map_err(|e| match e {})
            .boxed_unsync(),
    )
}

fn request(method: Method, body: RequestBody) -> Request<RequestBody> {
    let request = Request::builder().method(method).uri("/orders");
    request.body(body).expect("a request")
}

/// Sends on a connection from the pool with patience.
async fn send(pool: &Pool, target: &Target, request: Request<RequestBody>) -> SendEnd {
    let ready = acquire(pool, target).await;
    ready.send(request, &patient(), in_time()).await
}

fn head(end: SendEnd) -> (Response<UpstreamBody>, bool) {
    match end {
        SendEnd::Head {
            response,
            request_written,
        } => (response, request_written),
        other => panic!("no answer: {other:?}"),
    }
}

fn failure(end: SendEnd) -> Failure {
    match end {
        SendEnd::Failed { failure, .. } => failure,
        other => panic!("not failed: {other:?}"),
    }
}

async fn read(body: UpstreamBody) -> Result<Bytes, BodyError> {
    body.collect().await.map(|whole| whole.to_bytes())
}

/// Waits until `condition` holds; the bound is only there so that a broken test ends.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let held = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    let bound = Duration::from_secs(30);
    assert!(clock::within(bound, held).await.is_ok(), "never: {what}");
}
