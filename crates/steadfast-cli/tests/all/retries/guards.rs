//! What keeps repeats from making an outage worse: the budget and the breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{count, line, saying, skipped};
use crate::gateway::caller::{charge, get};
use crate::gateway::running::{Gateway, TOP};
use crate::gateway::upstream::{Upstream, answer};
use crate::listen::raw::soon;

/// A service that answers 500 until it is told to be well.
async fn ailing() -> (Upstream, Arc<AtomicBool>) {
    let well = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&well);
    let upstream = Upstream::start(move |exchange| {
        let status = match told.load(Ordering::SeqCst) {
            true => 200,
            false => 500,
        };
        async move { exchange.reply(answer(&line(status), "", "real")).await }
    })
    .await;
    (upstream, well)
}

// rule: a-spent-budget-leaves-the-real-answer
#[tokio::test]
async fn the_real_last_answer_is_given_when_the_budget_is_spent() {
    let upstream = saying(&[503]).await;
    // The default budget: ten retries in ten seconds without a success.
    let gateway = Gateway::with(upstream.addr, "retry = { base = \"1ms\", cap = \"1ms\" }").await;
    for _ in 0..5 {
        let found = gateway.send(&get("/")).await;
        assert_eq!(found.field("steadfast-attempts"), Some("3"));
    }
    let found = gateway.send(&get("/")).await;
    assert_eq!((found.status, found.text()), (503, "answer 16"));
    assert_eq!(found.field("steadfast-attempts"), Some("1"));
    assert_eq!(upstream.count(), 16);
    assert_eq!(count(&gateway, &skipped("budget")).await, 1.0);
    let left = format!(
        "steadfast_retry_budget_ratio{{upstream=\"{}\"}}",
        upstream.addr
    );
    assert_eq!(count(&gateway, &left).await, 0.0);
}

// rule: an-open-breaker-refuses-fast
#[tokio::test]
async fn an_open_breaker_refuses_fast_with_retry_after_and_a_probe_ends_it() {
    let (upstream, well) = ailing().await;
    let gateway = Gateway::to(upstream.addr).await;
    let state = |state: &str| {
        format!(
            "steadfast_breaker_state{{upstream=\"{}\",state=\"{state}\"}}",
            upstream.addr
        )
    };
    for _ in 0..20 {
        assert_eq!(gateway.send(&charge()).await.status, 500);
    }
    let refused = gateway.send(&charge()).await;
    refused.is_problem(503, "circuit-open", "none");
    assert!(refused.retryable());
    assert_eq!(refused.field("steadfast-attempts"), None);
    let seconds: u64 = refused
        .field("retry-after")
        .expect("a wait")
        .parse()
        .expect("digits");
    assert!((1..=5).contains(&seconds), "{seconds}");
    assert_eq!(upstream.count(), 20, "nothing was sent");
    assert_eq!(count(&gateway, &state("open")).await, 1.0);
    assert_eq!(count(&gateway, &state("closed")).await, 0.0);
    // One that is not open for so long.
    let route = "breaker = { min_requests = 2, open_for = \"50ms\" }";
    let gateway = Gateway::with(upstream.addr, route).await;
    for _ in 0..2 {
        assert_eq!(gateway.send(&charge()).await.status, 500);
    }
    well.store(true, Ordering::SeqCst);
    let recovers = async { while gateway.send(&charge()).await.status != 200 {} };
    soon("a probe", recovers).await;
    assert_eq!(count(&gateway, &state("closed")).await, 1.0);
    assert_eq!(gateway.send(&get("/")).await.status, 200);
}

#[tokio::test]
async fn an_answer_that_was_to_be_repeated_is_given_where_the_breaker_opens_meanwhile() {
    let upstream = Upstream::start(|exchange| async move {
        let target = exchange.seen().target;
        let fields = if target == "/first" {
            "Retry-After: 2\r\n"
        } else {
            ""
        };
        exchange
            .reply(answer(&line(503), fields, &format!("of {target}")))
            .await
    })
    .await;
    let route = "breaker = { min_requests = 3, open_for = \"60s\" }";
    let gateway = Gateway::with(upstream.addr, route).await;
    let mut waits = gateway.connect().await;
    waits.write(get("/first").bytes()).await;
    upstream.until_count(1).await;
    for _ in 0..2 {
        assert_eq!(gateway.send(&charge()).await.status, 503);
    }
    let found = waits.answer().await;
    assert_eq!((found.status, found.text()), (503, "of /first"));
    assert_eq!(found.field("steadfast-attempts"), Some("1"));
    assert_eq!(upstream.count(), 3);
    assert_eq!(count(&gateway, &skipped("circuit-open")).await, 1.0);
}

// rule: routes-to-one-upstream-share-its-state
#[tokio::test]
async fn routes_with_the_same_rules_share_an_upstream_s_state_and_others_have_their_own() {
    let (upstream, _) = ailing().await;
    let to = format!("to = \"http://{}\"", upstream.addr);
    let route = |path: &str, least: u32| {
        format!("[[route]]\npath = \"{path}\"\n{to}\nbreaker.min_requests = {least}\n")
    };
    let routes = [route("/a", 2), route("/b", 2), route("/c", 4)].concat();
    let gateway = Gateway::start(&format!("{TOP}{routes}")).await;
    let post = |target: &str| crate::gateway::caller::call("POST", target).body("");
    for target in ["/a", "/b"] {
        assert_eq!(gateway.send(&post(target)).await.status, 500);
    }
    for target in ["/a", "/b"] {
        let found = gateway.send(&post(target)).await;
        found.is_problem(503, "circuit-open", "none");
    }
    assert_eq!(gateway.send(&post("/c")).await.status, 500);
}

// rule: a-caller-s-mistake-is-no-failure
#[tokio::test]
async fn answers_of_4xx_open_nothing_and_a_caller_who_leaves_frees_the_probe() {
    let upstream = saying(&[404]).await;
    let gateway = Gateway::with(upstream.addr, "breaker.min_requests = 1").await;
    for _ in 0..5 {
        assert_eq!(gateway.send(&charge()).await.status, 404);
    }
    let hanging = Upstream::start(|mut exchange| async move {
        match exchange.number {
            1 => exchange.reply(answer(&line(500), "", "")).await,
            2 => {
                exchange.until_closed().await;
                None
            }
            _ => exchange.reply(answer("200 OK", "", "well")).await,
        }
    })
    .await;
    let route = "breaker = { min_requests = 1, open_for = \"20ms\" }\nretry.max_attempts = 1";
    let gateway = Gateway::with(hanging.addr, route).await;
    assert_eq!(gateway.send(&get("/")).await.status, 500);
    // The probe's caller leaves, so the next one may go at once.
    let mut probe = gateway.connect().await;
    let goes = async {
        while hanging.count() < 2 {
            probe = gateway.connect().await;
            probe.write(get("/").bytes()).await;
            tokio::select! {
                _ = probe.answer() => {}
                () = hanging.until_count(2) => {}
            }
        }
    };
    soon("the probe", goes).await;
    drop(probe);
    let recovers = async { while gateway.send(&get("/")).await.status != 200 {} };
    soon("another probe", recovers).await;
}
