//! The layer over a service that is neither axum's nor careful: a plain `tower::Service` under
//! hyper, which charges and may lose its answer.
//!
//!     cargo run -p steadfast --example any_tower_service -- PORT
//!
//! `POST /charges` charges and answers; `/charges/slow` takes its time to answer; `/charges/lost`
//! charges and fails before it answers; `/charges/panic` panics behind its effect. `GET /` tells
//! how many charges there were. The records are in memory: they end with the process.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use steadfast::body::{Body, full};
use steadfast::server::{IdempotencyLayer, KeyedOperation, Limits, Server, Stop};
use steadfast::store::memory::Memory;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tower::{Layer, Service, ServiceExt, service_fn};

/// How long a stop waits for work; longer than the layer's deadline, which is 30 s.
const DRAIN: Duration = Duration::from_secs(35);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args()
        .nth(1)
        .ok_or("usage: any_tower_service PORT")?;
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    println!("charges are taken on http://{}", listener.local_addr()?);

    let charges = Arc::new(AtomicU64::new(0));
    let service = service_fn(move |request| charge(Arc::clone(&charges), request));
    let server = Server::new(Arc::new(Memory::new()), Limits::default()).await?;
    let layer = IdempotencyLayer::new(server.clone());
    let service = layer
        .layer(service)
        .map_request(|request: Request<Incoming>| request.map(Body::new));

    let stop = async move {
        terminate.recv().await;
    };
    server
        .serve_until(stop, DRAIN, |stop| serve(listener, service, stop))
        .await;
    Ok(())
}

/// The inner service: any function from a request to an answer or an error.
async fn charge(
    charges: Arc<AtomicU64>,
    request: Request<Body>,
) -> Result<Response<Body>, &'static str> {
    if request.method() == Method::GET {
        let text = format!("{} charges\n", charges.load(Ordering::SeqCst));
        return Ok(Response::new(full(text)));
    }
    let number = charges.fetch_add(1, Ordering::SeqCst) + 1;
    match request.uri().path() {
        "/charges/slow" => steadfast::clock::sleep(Duration::from_millis(500)).await,
        "/charges/lost" => return Err("the answer was lost"),
        "/charges/panic" => panic!("behind the effect"),
        _ => {}
    }
    let operation = request.extensions().get::<KeyedOperation>();
    let fence = operation.and_then(|operation| operation.fence);
    let text = format!("charge {number}, fence {}\n", fence.unwrap_or_default());
    Ok(Response::new(full(text)))
}

/// Takes connections until `stop` is ready, then waits for those that it has.
async fn serve<S>(listener: TcpListener, service: S, mut stop: Stop) -> std::io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<Body>> + Clone + Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    S::Future: Send,
{
    let connections = GracefulShutdown::new();
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted?,
            () = &mut stop => break,
        };
        let service = TowerToHyperService::new(service.clone());
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connections.watch(connection));
    }
    drop(listener);
    connections.shutdown().await;
    Ok(())
}
