//! From the first request to the drained end, over a listener of the test's own.

use std::future::{pending, ready};

use steadfast::body::BoxError;
use steadfast::server::{IdempotencyLayer, Served};
use tower::{Layer, ServiceExt, service_fn};

use super::*;

const DRAIN: Duration = Duration::from_secs(20);

async fn server() -> Server {
    let server = Server::new(Arc::new(Memory::new()), Limits::default());
    server.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn serving_that_ends_by_itself_ends_all() {
    let server = server().await;
    let served = server.serve_until(pending(), DRAIN, |_| ready(7));
    let (output, stopped) = (Some(7), 0);
    assert_eq!(served.await, Served { output, stopped });
}

#[tokio::test(start_paused = true)]
async fn connections_that_stay_open_do_not_outlast_the_drain() {
    let server = server().await;
    let served = server.serve_until(ready(()), DRAIN, |stop| async {
        stop.await;
        pending::<()>().await;
    });
    let (output, stopped) = (None, 0);
    assert_eq!(served.await, Served { output, stopped });
}

// rule: a-drained-end-of-a-library-server
#[tokio::test(start_paused = true)]
async fn work_that_outlasts_the_drain_is_stopped_as_unknown_and_its_caller_is_told() {
    let server = server().await;
    let stuck = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, BoxError>>());
    let service = IdempotencyLayer::new(server.clone()).layer(stuck);
    let request = Request::post("/v1/charges").header("idempotency-key", KEY);
    let request = request.body(Body::from(Bytes::new())).unwrap();
    let served = server.serve_until(ready(()), DRAIN, |_| async {
        Seen::of(service.oneshot(request).await.unwrap()).await
    });
    let Served { output, stopped } = served.await;
    assert_eq!(stopped, 1);
    let told = output.expect("it was told before the end");
    told.is_problem(504, "outcome-unknown", "unknown", false);
}

#[tokio::test(start_paused = true)]
async fn the_sweeper_runs_while_it_serves() {
    let world = World::with(|rules| rules.retention = SECOND).await;
    world.send(charge(50)).await;
    let served = world.server.serve_until(pending(), DRAIN, |_| async {
        while !world.rows().await.is_empty() {
            pass(SECOND).await;
        }
    });
    let (output, stopped) = (Some(()), 0);
    assert_eq!(served.await, Served { output, stopped });
}
