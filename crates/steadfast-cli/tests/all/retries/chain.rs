//! Layers of repeats: how attempts are counted and deadlines shrink from hop to hop.

use super::{QUICK, count, line, saying, skipped};
use crate::gateway::caller::get;
use crate::gateway::running::{Gateway, config};
use crate::gateway::upstream::{Upstream, answer};

const TRUSTING: &str = "trusted_peers = [\"127.0.0.1\"]\n";

/// A gateway that believes whoever calls it.
async fn trusting(to: std::net::SocketAddr, route: &str) -> Gateway {
    Gateway::start(&format!("{TRUSTING}{}", config(to, route))).await
}

fn numbers(upstream: &Upstream) -> Vec<String> {
    let seen = upstream.seen();
    seen.iter()
        .map(|seen| seen.one("steadfast-attempt").to_owned())
        .collect()
}

// rule: attempts-of-outer-layers-are-counted
#[tokio::test]
async fn an_attempt_is_numbered_on_from_a_trusted_peer_s_and_a_stranger_s_number_is_removed() {
    let upstream = saying(&[503, 503, 200]).await;
    let gateway = trusting(upstream.addr, QUICK).await;
    let found = gateway.send(&get("/").with("Steadfast-Attempt", "4")).await;
    assert_eq!(found.status, 200);
    assert_eq!(found.field("steadfast-attempts"), Some("3"), "of its own");
    assert_eq!(numbers(&upstream), ["4", "5", "6"]);
    let upstream = saying(&[503, 503, 200]).await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let spoofed = get("/").with("Steadfast-Attempt", "4");
    assert_eq!(gateway.send(&spoofed).await.status, 200);
    assert_eq!(numbers(&upstream), ["1", "2", "3"]);
}

// rule: one-layer-owns-retries
#[tokio::test]
async fn with_honor_attempts_an_outer_layer_s_repeat_goes_out_once() {
    let honouring = format!("{QUICK}honor_attempts = true");
    for (route, number, sent) in [(&*honouring, "1", 3), (&honouring, "2", 1), (QUICK, "2", 3)] {
        let upstream = saying(&[503]).await;
        let gateway = trusting(upstream.addr, route).await;
        let found = gateway
            .send(&get("/").with("Steadfast-Attempt", number))
            .await;
        assert_eq!(found.status, 503);
        assert_eq!(upstream.count(), sent, "{number}: {route}");
        let outer = count(&gateway, &skipped("outer-layer")).await;
        assert_eq!(outer, f64::from(u8::from(sent == 1)));
    }
    // What was never sent goes again all the same.
    let gateway = trusting(Upstream::nowhere().await, &honouring).await;
    gateway.send(&get("/").with("Steadfast-Attempt", "2")).await;
    assert_eq!(count(&gateway, &super::attempts("3", "connect")).await, 1.0);
}

// rule: what-remains-shrinks-with-every-hop-and-attempt
#[tokio::test]
async fn over_three_hops_and_their_attempts_what_remains_only_shrinks() {
    let upstream = Upstream::start(|exchange| async move {
        let status = if exchange.number < 5 { 503 } else { 200 };
        let fields = if exchange.number == 1 {
            "Retry-After: 1\r\n"
        } else {
            ""
        };
        exchange.reply(answer(&line(status), fields, "end")).await
    })
    .await;
    let route = format!("{QUICK}margin = \"100ms\"");
    let third = trusting(upstream.addr, &route).await;
    let second = trusting(third.data, &route).await;
    let first = trusting(second.data, &route).await;
    let found = first
        .send(&get("/").with("Request-Timeout-Ms", "15000"))
        .await;
    assert_eq!((found.status, found.text()), (200, "end"));
    let seen = upstream.seen();
    let told = seen
        .iter()
        .map(|seen| seen.one("request-timeout-ms").parse());
    let told: Vec<u64> = told.map(|ms| ms.expect("digits")).collect();
    assert!(told[0] <= 15_000 - 300, "a margin a hop: {told:?}");
    assert!(
        told[1] + 1000 <= told[0],
        "the wait before it counts: {told:?}"
    );
    assert!(
        told.is_sorted_by(|before, after| before >= after),
        "{told:?}"
    );
    // Three of the third hop's own, then the second hop's second attempt began.
    assert_eq!(numbers(&upstream), ["1", "2", "3", "2", "3"]);
}
