//! A policy in ten lines: how often is it sent, after which waits, and until when.
//!
//!     cargo run -p steadfast --example policy_in_ten_lines -- http://127.0.0.1:3000/orders
//!
//! Asks for the URL, safely, and tells the story of each attempt.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use steadfast::client::{Client, Ended};
use steadfast::core::backoff::{Backoff, Curve, Jitter};
use steadfast::core::policy::RoutePolicy;
use steadfast::core::retry::RetryPolicy;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: policy_in_ten_lines URL";
    let url = std::env::args().nth(1).ok_or(usage)?;
    let ms = Duration::from_millis;

    let retry = RetryPolicy {
        max_attempts: 4.try_into()?,
        backoff: Backoff::new(Curve::Exponential, ms(50), ms(1000), Jitter::Full)?,
        ..RetryPolicy::default()
    };
    let policy = RoutePolicy {
        deadline: ms(2000),
        retry: Arc::new(retry),
        ..RoutePolicy::default()
    };
    let client = Client::new(policy);

    let ended = client.send(Request::get(url).body(())?).await;
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
