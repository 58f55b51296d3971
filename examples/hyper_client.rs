//! The client layer over another client: hyper-util's, whose own hidden retries are off, so that
//! one layer owns them. The same goes for reqwest (`retry::never()`, `redirect::Policy::none()`).
//!
//!     cargo run -p steadfast --example hyper_client -- http://127.0.0.1:3000/orders
//!
//! Sends one keyed POST to an endpoint that honours keys, safely, and tells the story.

use std::error::Error;

use http::Request;
use hyper_util::client::legacy::{Client, Error as HyperError};
use hyper_util::rt::TokioExecutor;
use steadfast::client::{AttemptBody, ClientLayer, Ended};
use steadfast::core::attempt::Failure;
use steadfast::core::policy::RoutePolicy;
use tower::{Layer, Service};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: hyper_client URL")?;
    let hyper: Client<_, AttemptBody> = Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .build_http();
    let layer = ClientLayer::new(RoutePolicy::default())
        .endpoint_honours_keys()
        .with_evidence(evidence);
    let mut client = layer.layer(hyper);

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

/// What an error of hyper's client proves: that no connection stood, and nothing else.
fn evidence(error: &HyperError) -> Failure {
    match error.is_connect() {
        true => Failure::Connect,
        false => Failure::Reset,
    }
}
