//! The least that a proxy which keeps both bodies has to do: collect, send on, collect, answer.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use crate::{Failure, on_all_cores};

type Onwards = Client<HttpConnector, Full<Bytes>>;

/// Serves until it is killed.
pub fn serve(listen: SocketAddr, to: SocketAddr) -> Result<(), Failure> {
    on_all_cores(async {
        let listener = TcpListener::bind(listen).await?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Onwards = Client::builder(TokioExecutor::new()).build(connector);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let client = client.clone();
            let service = service_fn(move |request| pass(client.clone(), to, request));
            tokio::spawn(async move {
                let connection = http1::Builder::new();
                let _ = connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    })
}

async fn pass(
    client: Onwards,
    to: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Failure> {
    let (mut head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = Uri::try_from(format!("http://{to}{path}"))?;
    let host = HeaderValue::from_str(&to.to_string())?;
    head.headers.insert(header::HOST, host);
    let answer = client
        .request(Request::from_parts(head, Full::new(body)))
        .await?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Response::from_parts(head, Full::new(body)))
}
