//! A policy in ten lines: what is repeated, how often, after which waits, within which limits.
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
use steadfast::core::timeouts::Timeouts;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: policy_in_ten_lines URL";
    let url = std::env::args().nth(1).ok_or(usage)?;
    let ms = Duration::from_millis;

    let mut retry = RetryPolicy::default();
    retry.max_attempts = 4.try_into()?;
    retry.backoff = Backoff::new(Curve::Exponential, ms(50), ms(1000), Jitter::Full)?;
    let mut timeouts = Timeouts::default();
    timeouts.attempt = ms(500);
    let mut policy = RoutePolicy::default();
    policy.deadline = ms(2000);
    policy.timeouts = timeouts;
    policy.retry = Arc::new(retry);
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
