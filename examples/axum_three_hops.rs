//! One deadline over three hops: each axum service asks the next one with what is left of its
//! caller's time, and none works for a caller who has given up.
//!
//!     cargo run -p steadfast --features axum --example axum_three_hops -- PORT
//!
//! Three services listen: `front` on PORT, which asks `middle`, which asks `back`. `GET
//! /?work_ms=N` lets `back` work for N milliseconds, if it has so long; each adds a line with what
//! it had left. Try it with `curl -H 'Request-Timeout-Ms: 500'
//! 'http://127.0.0.1:PORT/?work_ms=100'`.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use steadfast::client::{Carried, Client};
use steadfast::clock;
use steadfast::core::policy::RoutePolicy;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// A hop: its name, and whom it asks.
#[derive(Clone)]
struct Hop {
    name: &'static str,
    next: Option<String>,
    client: Client,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args()
        .nth(1)
        .ok_or("usage: axum_three_hops PORT")?;
    // Connections, budgets and breakers are shared by all who clone it.
    let client = Client::new(RoutePolicy::default());
    let back = serve("back", None, "0", &client).await?;
    let middle = serve("middle", Some(back), "0", &client).await?;
    let front = serve("front", Some(middle), &port, &client).await?;
    println!("three hops behind {front}");
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

/// Starts a hop and gives its URL.
async fn serve(
    name: &'static str,
    next: Option<String>,
    port: &str,
    client: &Client,
) -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let hop = Hop {
        name,
        next,
        client: client.clone(),
    };
    let app = Router::new().route("/", get(answer)).with_state(hop);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}

async fn answer(State(hop): State<Hop>, uri: Uri, headers: HeaderMap) -> Response {
    let carried = Carried::of(&headers);
    let left = carried
        .deadline()
        .map(|ends| ends.remaining(clock::mono_now()));
    let line = format!(
        "{} had {} ms\n",
        hop.name,
        left.map_or(0, |left| left.as_millis())
    );
    let Some(next) = &hop.next else {
        let work = uri.query().and_then(|query| query.strip_prefix("work_ms="));
        let work = work.and_then(|ms| ms.parse().ok()).unwrap_or(0);
        let work = Duration::from_millis(work);
        if left.is_some_and(|left| left < work) {
            let refused = "back starts no work that does not fit\n";
            return (StatusCode::GATEWAY_TIMEOUT, refused).into_response();
        }
        clock::sleep(work).await;
        return line.into_response();
    };
    let mut request = Request::new(());
    *request.uri_mut() = format!("{next}{uri}").parse().unwrap_or_default();
    request.extensions_mut().insert(carried);
    match hop.client.send(request).await.into_answer() {
        Ok(answer) => {
            let status = answer.status();
            match answer.into_body().bytes().await {
                Ok(body) => (status, [line.as_bytes(), &body].concat()).into_response(),
                Err(cut) => (StatusCode::BAD_GATEWAY, cut.to_string()).into_response(),
            }
        }
        Err(none) => (StatusCode::GATEWAY_TIMEOUT, none.to_string()).into_response(),
    }
}
