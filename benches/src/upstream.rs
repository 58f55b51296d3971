//! The service behind every proxy: one thread, the same small answer to all, and a count.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::{Failure, rows};

/// Bytes of the answer.
const ANSWER_BYTES: usize = 200;

/// Serves until it is killed.
pub fn serve(listen: SocketAddr) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind(listen).await?;
        let answer = Bytes::from(rows::json_body(ANSWER_BYTES));
        let count = Arc::new(AtomicU64::new(0));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (answer, count) = (answer.clone(), Arc::clone(&count));
            let service =
                service_fn(move |request| reply(request, answer.clone(), Arc::clone(&count)));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::task::spawn_local(async move {
                let _ = connection.await;
            });
        }
    })
}

async fn reply(
    request: Request<Incoming>,
    answer: Bytes,
    count: Arc<AtomicU64>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::GET && request.uri().path() == "/count" {
        let count = count.load(Ordering::Relaxed).to_string();
        return Ok(Response::new(Full::new(Bytes::from(count))));
    }
    let _ = request.into_body().collect().await;
    count.fetch_add(1, Ordering::Relaxed);
    let mut response = Response::new(Full::new(answer));
    *response.status_mut() = StatusCode::CREATED;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}
