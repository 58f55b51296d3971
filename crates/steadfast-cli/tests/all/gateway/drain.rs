//! The gateway's end: what runs may end, what does not is written down.

use std::sync::Arc;

use super::caller::{Caller, get, keyed_charge};
use super::running::{Gateway, config};
use super::upstream::{Upstream, answer};
use crate::listen::raw::soon;

// rule: a-drain-takes-readiness-first-and-lets-work-end
#[tokio::test]
async fn while_it_drains_it_is_not_ready_and_what_runs_ends() {
    let (upstream, gate) = Upstream::held(&answer("201 Created", "", "made")).await;
    let gateway = Gateway::to(upstream.addr).await;
    let (data, admin) = (gateway.data, gateway.admin);
    let mut caller = gateway.connect().await;
    caller.write(keyed_charge().bytes()).await;
    upstream.until_count(1).await;
    let store = Arc::clone(&gateway.store);
    let stopped = tokio::spawn(gateway.stop());
    let not_ready = async {
        while Caller::connect(admin)
            .await
            .ask(&get("/readyz"))
            .await
            .status
            != 503
        {
            tokio::task::yield_now().await;
        }
    };
    soon("readiness to go", not_ready).await;
    assert_eq!(
        Caller::connect(admin)
            .await
            .ask(&get("/livez"))
            .await
            .status,
        200
    );
    gate.add_permits(1);
    let made = caller.answer().await;
    assert_eq!(
        (made.status, made.field("connection")),
        (201, Some("close"))
    );
    let ended = stopped.await.expect("no panic");
    assert_eq!((ended.cut, ended.stopped), (0, 0));
    assert!(tokio::net::TcpStream::connect(data).await.is_err());
    let next = Gateway::over(&config(upstream.addr, ""), store).await;
    assert_eq!(next.send(&keyed_charge()).await.replayed(), Some("true"));
}

// rule: what-still-runs-at-the-end-of-the-drain-is-unknown
#[tokio::test]
async fn what_still_runs_at_the_end_of_the_drain_is_written_down_as_unknown() {
    let (upstream, _gate) = Upstream::held(&answer("201 Created", "", "made")).await;
    let text = format!("drain = \"50ms\"\n{}", config(upstream.addr, ""));
    let gateway = Gateway::start(&text).await;
    let mut leaver = gateway.connect().await;
    leaver.write(keyed_charge().bytes()).await;
    upstream.until_count(1).await;
    drop(leaver);
    let store = Arc::clone(&gateway.store);
    let ended = gateway.stop().await;
    assert_eq!(ended.stopped, 1);
    let next = Gateway::over(&config(upstream.addr, ""), store).await;
    let record = next.record().await;
    assert_eq!(record["state"], "unknown");
    let id = record["id"].as_str().expect("an id");
    let shown = next.operate(get(&format!("/api/records/{id}"))).await;
    assert!(shown.text().contains("shutdown"), "{}", shown.text());
    let later = next.send(&keyed_charge()).await;
    later.is_problem(409, "outcome-unknown", "unknown");
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn waiters_beyond_the_bound_are_answered_at_once() {
    let (upstream, gate) = Upstream::held(&answer("201 Created", "", "made")).await;
    let gateway = Gateway::with(upstream.addr, "idempotency = { waiters_per_key = 1 }").await;
    let mut first = gateway.connect().await;
    first.write(keyed_charge().bytes()).await;
    upstream.until_count(1).await;
    let call = keyed_charge();
    let (mut one, mut other) = (gateway.connect().await, gateway.connect().await);
    one.write(call.bytes()).await;
    other.write(call.bytes()).await;
    // One of them waits; whichever it is, the other hears while nothing has ended yet.
    let (refused, one_waits) = tokio::select! {
        refused = one.answer() => (refused, false),
        refused = other.answer() => (refused, true),
    };
    refused.is_problem(409, "in-progress", "unknown");
    gate.add_permits(1);
    assert_eq!(first.answer().await.replayed(), Some("false"));
    let waiter = if one_waits { &mut one } else { &mut other };
    assert_eq!(waiter.answer().await.replayed(), Some("true"));
}
