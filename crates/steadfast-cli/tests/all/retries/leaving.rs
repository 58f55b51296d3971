//! Callers who leave: what is safe to abandon ends with them, and a write that is being sent does
//! not.

use futures_util::future::join_all;

use super::{QUICK, attempts, count, line, saying_with, until_count};
use crate::gateway::caller::{call, charge, get};
use crate::gateway::running::{Gateway, config};
use crate::gateway::upstream::{Upstream, answer};
use crate::listen::raw::soon;

const CALLERS: usize = 100;

fn left() -> String {
    "steadfast_requests_total{route=\"/{*rest}\",outcome=\"caller-left\"}".to_owned()
}

/// Waits until nothing of the gateway's connections is in use.
async fn until_free(gateway: &Gateway, upstream: &Upstream) {
    let addr = upstream.addr;
    let inflight = format!("steadfast_upstream_inflight{{upstream=\"{addr}\"}}");
    until_count(gateway, &inflight, 0.0).await;
    until_count(gateway, "steadfast_waiters{kind=\"connection\"}", 0.0).await;
}

// rule: a-leaving-caller-leaves-nothing-behind
#[tokio::test]
async fn a_hundred_callers_who_leave_in_flight_leave_no_connection_behind() {
    let (upstream, gate) = Upstream::held(&answer("200 OK", "", "late")).await;
    let route = format!("{QUICK}pool.max_per_host = 60\n");
    let gateway = Gateway::with(upstream.addr, &route).await;
    let callers = join_all((0..CALLERS).map(|at| {
        let gateway = &gateway;
        async move {
            let method = ["GET", "HEAD", "OPTIONS"][at % 3];
            let mut caller = gateway.connect().await;
            caller.write(call(method, "/").bytes()).await;
            caller
        }
    }));
    let callers = callers.await;
    upstream.until_count(60).await;
    drop(callers);
    until_count(&gateway, &left(), CALLERS as f64).await;
    until_free(&gateway, &upstream).await;
    gate.add_permits(CALLERS);
    let found = gateway.send(&get("/")).await;
    assert_eq!((found.status, found.text()), (200, "late"));
}

#[tokio::test]
async fn a_hundred_callers_who_leave_while_they_wait_are_asked_for_no_more() {
    let upstream = saying_with(&[503], "Retry-After: 20\r\n").await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let mut caller = gateway.connect().await;
        caller.write(get("/").bytes()).await;
        callers.push(caller);
    }
    until_count(&gateway, &attempts("1", "503"), CALLERS as f64).await;
    drop(callers);
    until_count(&gateway, &left(), CALLERS as f64).await;
    until_free(&gateway, &upstream).await;
    assert_eq!(upstream.count(), CALLERS);
    let ended = soon("the drain", gateway.stop()).await;
    assert_eq!(ended.cut, 0, "nothing waits any more");
}

// rule: a-sent-write-ends-by-itself
#[tokio::test]
async fn a_keyless_write_whose_caller_leaves_goes_on_to_its_end_and_no_further() {
    for (status, method) in [(201, "POST"), (503, "PUT")] {
        let (upstream, gate) = Upstream::held(&answer(&line(status), "", "made")).await;
        let gateway = Gateway::with(upstream.addr, QUICK).await;
        let mut caller = gateway.connect().await;
        caller.write(call(method, "/").body("1").bytes()).await;
        upstream
            .until("the whole request", |seen| seen.iter().any(|s| s.whole))
            .await;
        drop(caller);
        until_count(&gateway, &left(), 1.0).await;
        gate.add_permits(9);
        until_count(&gateway, &attempts("1", &status.to_string()), 1.0).await;
        until_free(&gateway, &upstream).await;
        assert_eq!(upstream.count(), 1, "nobody waits for another attempt");
        assert_eq!(count(&gateway, &attempts("1", "caller-left")).await, 0.0);
    }
}

// rule: a-drain-waits-for-writes-whose-callers-left
#[tokio::test]
async fn a_drain_waits_for_a_write_whose_caller_left_and_counts_it_where_it_cannot() {
    for (drain, released, cut) in [("35s", true, 0), ("300ms", false, 1)] {
        let (upstream, gate) = Upstream::held(&answer("201 Created", "", "made")).await;
        let text = format!("drain = \"{drain}\"\n{}", config(upstream.addr, QUICK));
        let gateway = Gateway::start(&text).await;
        let mut caller = gateway.connect().await;
        caller.write(charge().bytes()).await;
        upstream
            .until("the whole request", |seen| seen.iter().any(|s| s.whole))
            .await;
        drop(caller);
        until_count(&gateway, &left(), 1.0).await;
        let drains = tokio::spawn(gateway.stop());
        tokio::task::yield_now().await;
        assert!(!drains.is_finished());
        if released {
            gate.add_permits(1);
        }
        let ended = soon("the drain", drains).await.expect("no panic");
        assert_eq!(ended.cut, cut, "{drain}");
    }
}
