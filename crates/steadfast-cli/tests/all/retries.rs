//! Repeats of requests without a key, over real sockets: what goes again, what does not, and what
//! the caller is told. Behind the gateway stands a service that keeps a ledger.

mod chain;
mod guards;
mod leaving;
mod reading;
mod stale;
mod writes;

use std::sync::Arc;

use crate::gateway::caller::get;
use crate::gateway::running::Gateway;
use crate::gateway::upstream::{Upstream, answer};

/// Waits that are over at once, and bounds that no test meets by chance.
const QUICK: &str = "retry = { base = \"1ms\", cap = \"2ms\" }\n\
                     budget = { ratio = 1.0, floor_per_second = 10000 }\n\
                     breaker = { min_requests = 1000000 }\n";

/// The reason of a status, which nobody reads.
fn line(status: u16) -> String {
    format!("{status} As Asked")
}

/// A service that answers its first requests with these statuses, and all others with the last;
/// each answer's body says which it is.
async fn saying(statuses: &[u16]) -> Upstream {
    saying_with(statuses, "").await
}

/// The same, with more fields in each answer.
async fn saying_with(statuses: &[u16], fields: &str) -> Upstream {
    let (statuses, fields): (Arc<[u16]>, Arc<str>) = (statuses.into(), fields.into());
    Upstream::start(move |exchange| {
        let (statuses, fields) = (Arc::clone(&statuses), Arc::clone(&fields));
        async move {
            let number = exchange.number;
            let status = statuses.get(number - 1).or(statuses.last());
            let status = line(*status.expect("a status"));
            let body = match exchange.seen().method.as_str() {
                "HEAD" => String::new(),
                _ => format!("answer {number}"),
            };
            exchange.reply(answer(&status, &fields, &body)).await
        }
    })
    .await
}

/// The value of one series; zero where it is not there.
async fn count(gateway: &Gateway, series: &str) -> f64 {
    let text = gateway.operate(get("/metrics")).await;
    let found = text
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix(series));
    let mut values = found.filter_map(|rest| rest.strip_prefix(' '));
    values.next().map_or(0.0, |n| n.parse().expect("a number"))
}

/// Waits until a series has this value.
async fn until_count(gateway: &Gateway, series: &str, wanted: f64) {
    let look = async {
        while count(gateway, series).await != wanted {
            tokio::task::yield_now().await;
        }
    };
    crate::listen::raw::soon(series, look).await;
}

/// `skipped("budget")` as it is written in full, for the only route.
fn skipped(reason: &str) -> String {
    format!("steadfast_retries_skipped_total{{route=\"/{{*rest}}\",reason=\"{reason}\"}}")
}

/// Attempts of the only route by number and result.
fn attempts(number: &str, result: &str) -> String {
    format!(
        "steadfast_attempts_total{{route=\"/{{*rest}}\",attempt=\"{number}\",result=\"{result}\"}}"
    )
}
