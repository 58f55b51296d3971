//! The client layer over another client: reqwest, whose own hidden retries are off, so that one
//! layer owns them, and whose redirects are, so that no key goes to another origin.
//!
//!     cargo run -p steadfast --example reqwest_client -- http://127.0.0.1:3000/orders
//!
//! Sends one keyed POST to an endpoint that honours keys, safely, and tells the story.

use std::error::Error;

use http::Request;
use reqwest::redirect::Policy;
use reqwest::{Body, Client, Response};
use steadfast::client::{AttemptBody, ClientLayer, Ended};
use steadfast::core::attempt::Failure;
use steadfast::core::policy::RoutePolicy;
use tower::{Layer, Service, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: reqwest_client URL")?;
    let client = Client::builder()
        .retry(reqwest::retry::never())
        .redirect(Policy::none())
        .build()?;
    let reqwest = service_fn(move |request| send(client.clone(), request));
    let layer = ClientLayer::new(RoutePolicy::default())
        .endpoint_honours_keys()
        .with_evidence(evidence);
    let mut client = layer.layer(reqwest);

    let order = Request::post(url)
        .header("content-type", "application/json")
        .body(r#"{"item":"book"}"#)?;
    let ended = client.call(order).await?;
    for told in ended.account().story.attempts() {
        println!("{told}");
    }
    match ended {
        Ended::Done { answer, .. } => println!("done: {}", answer.status()),
        Ended::Unknown { account, .. } => println!("unknown: {account}"),
        other => println!("failed: {}", other.account()),
    }
    Ok(())
}

/// One attempt, as reqwest makes it.
async fn send(
    client: Client,
    request: Request<AttemptBody>,
) -> Result<http::Response<Body>, reqwest::Error> {
    let request = reqwest::Request::try_from(request.map(Body::wrap))?;
    client.execute(request).await.map(Response::into)
}

/// What an error of reqwest proves: that no connection stood, and nothing else.
fn evidence(error: &reqwest::Error) -> Failure {
    match error.is_connect() {
        true => Failure::Connect,
        false => Failure::Reset,
    }
}
