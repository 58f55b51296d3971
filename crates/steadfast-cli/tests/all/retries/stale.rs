//! Connections that are closed just as they are used again.

use std::collections::HashMap;

use super::{QUICK, attempts, count};
use crate::gateway::caller::{call, get};
use crate::gateway::running::Gateway;
use crate::gateway::upstream::{Upstream, answer};

/// How many requests of each kind: enough to meet the race in each of its moments.
const ROUNDS: usize = 300;

// rule: a-stale-connection-costs-nobody-a-request
#[tokio::test]
async fn connections_closed_as_they_are_reused_fail_no_read_and_send_no_write_twice() {
    // Each answer leaves its connection open, and the service closes it behind the next byte.
    let upstream = Upstream::start(|exchange| async move {
        exchange.reply_and_close(answer("200 OK", "", "made")).await
    })
    .await;
    let route = format!("{QUICK}pool = {{ idle = \"60s\", reuse_unsafe_within = \"60s\" }}");
    let gateway = Gateway::with(upstream.addr, &route).await;
    let mut caller = gateway.connect().await;
    let mut unknown = 0;
    for round in 0..ROUNDS {
        let read = caller.ask(&get("/read")).await;
        assert_eq!((read.status, read.text()), (200, "made"), "round {round}");
        let write = call("POST", &format!("/write/{round}")).body("1");
        let wrote = caller.ask(&write).await;
        match wrote.status {
            200 => {}
            504 => {
                wrote.is_problem(504, "outcome-unknown", "unknown");
                unknown += 1;
            }
            _ => panic!("round {round}: {wrote:?}"),
        }
    }
    let mut times: HashMap<String, usize> = HashMap::new();
    for seen in upstream.seen() {
        if seen.method == "POST" {
            *times.entry(seen.target).or_default() += 1;
        }
    }
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    assert!(
        times.len() + unknown >= ROUNDS,
        "{} of {ROUNDS}",
        times.len()
    );
}

// rule: after-a-stale-connection-a-fresh-one
#[tokio::test]
async fn behind_a_failure_on_a_kept_connection_the_next_attempt_takes_a_new_one() {
    // On a connection that was used before it is reset.
    let upstream = Upstream::start(|mut exchange| async move {
        let target = exchange.seen().target;
        match (target.as_str(), exchange.first) {
            ("/held", _) => exchange.reply(answer("200 OK", "", "held")).await,
            (_, true) => exchange.reply(answer("200 OK", "", "fresh")).await,
            (_, false) => {
                exchange.read().await;
                exchange.reset()
            }
        }
    })
    .await;
    let route = format!("{QUICK}pool = {{ idle = \"60s\", reuse_unsafe_within = \"60s\" }}");
    let gateway = Gateway::with(upstream.addr, &route).await;
    // Two connections come to rest.
    let (mut one, mut other) = (gateway.connect().await, gateway.connect().await);
    let held = get("/held");
    let both = tokio::join!(one.ask(&held), other.ask(&held));
    assert_eq!((both.0.status, both.1.status), (200, 200));
    let found = gateway.send(&get("/now")).await;
    assert_eq!((found.status, found.text()), (200, "fresh"));
    assert_eq!(found.field("steadfast-attempts"), Some("2"));
    assert_eq!(count(&gateway, &attempts("2", "200")).await, 1.0);
}
