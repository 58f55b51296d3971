//! A store that fails under the gateway: what is refused, what flows, what is put back.

use std::sync::Arc;

use steadfast::store::faulty::{Faulty, Plan};
use steadfast::store::memory::Memory;

use super::caller::{charge, get, keyed_charge};
use super::running::{Gateway, config};
use super::upstream::{Upstream, answer};

type Failing = Arc<Faulty<Memory>>;

/// A gateway over a store that is whole until it is told to fail.
async fn over_failing(route: &str, upstream: &Upstream) -> (Gateway, Failing) {
    let store = Arc::new(Faulty::new(Memory::new(), Plan::default()));
    let kept: Failing = Arc::clone(&store);
    (
        Gateway::over(&config(upstream.addr, route), store).await,
        kept,
    )
}

fn plan(text: &str) -> Plan {
    text.parse().expect("a plan")
}

// rule: without-its-store-a-keyed-request-is-503-and-the-rest-flows
#[tokio::test]
async fn without_its_store_a_keyed_request_is_503_and_unkeyed_traffic_flows() {
    for fault in [
        "fail:before:write:1+",
        "full:before:write:1+",
        "fail:before:now:1+",
    ] {
        let upstream = Upstream::charging().await;
        let (gateway, store) = over_failing("", &upstream).await;
        store.arm(plan(fault));
        let refused = gateway.send(&keyed_charge()).await;
        refused.is_problem(503, "store-unavailable", "none");
        assert!(refused.retryable() && refused.field("retry-after").is_some());
        assert_eq!(upstream.count(), 0, "{fault}");
        for call in [charge(), get("/")] {
            assert_eq!(gateway.send(&call).await.status, 201, "{fault}");
        }
        store.arm(Plan::default());
        let again = gateway.send(&keyed_charge()).await;
        assert_eq!(
            (again.status, again.replayed()),
            (201, Some("false")),
            "{fault}"
        );
        assert_eq!(upstream.count(), 3);
    }
}

#[tokio::test]
async fn a_store_that_never_answers_is_given_up_within_its_limit() {
    let upstream = Upstream::charging().await;
    let route = "idempotency = { store_timeout = \"50ms\" }";
    let (gateway, store) = over_failing(route, &upstream).await;
    store.arm(plan("hang:before:write:1+"));
    let refused = gateway.send(&keyed_charge()).await;
    refused.is_problem(503, "store-unavailable", "none");
    assert_eq!(upstream.count(), 0);
}

// rule: on-store-failure-pass-sends-unprotected
#[tokio::test]
async fn pass_sends_it_on_unprotected_and_says_nothing_of_a_replay() {
    let upstream = Upstream::charging().await;
    let route = "idempotency = { on_store_failure = \"pass\" }";
    let (gateway, store) = over_failing(route, &upstream).await;
    store.arm(plan("fail:before:write:1+"));
    for made in 1..=2 {
        let answer = gateway.send(&keyed_charge()).await;
        assert_eq!((answer.status, answer.replayed()), (201, None));
        assert_eq!(answer.text(), format!("{{\"charge\":{made}}}"));
    }
    let seen = upstream.seen();
    assert_eq!(seen[0].one("idempotency-key"), super::caller::KEY);
    assert!(seen[0].values("idempotency-fence").is_empty());
}

// rule: a-reservation-whose-reply-was-lost-is-withdrawn
#[tokio::test]
async fn a_reservation_whose_reply_was_lost_sends_nothing_and_blocks_nobody() {
    for lost in ["fail:after:insert:1", "fail:after:dispatched:1"] {
        let upstream = Upstream::charging().await;
        let (gateway, store) = over_failing("", &upstream).await;
        store.arm(plan(lost));
        let refused = gateway.send(&keyed_charge()).await;
        refused.is_problem(503, "store-unavailable", "none");
        assert_eq!(upstream.count(), 0, "{lost}");
        let again = gateway.send(&keyed_charge()).await;
        assert_eq!(
            (again.status, again.replayed()),
            (201, Some("false")),
            "{lost}"
        );
        assert_eq!(upstream.count(), 1, "{lost}");
    }
}

// rule: a-store-that-fails-to-take-a-result-does-not-hide-it
#[tokio::test]
async fn the_real_answer_reaches_its_caller_though_the_store_fails_to_take_it() {
    let upstream = Upstream::charging().await;
    let (gateway, store) = over_failing("", &upstream).await;
    store.arm(plan("fail:before:completed:1+"));
    let first = gateway.send(&keyed_charge()).await;
    assert_eq!((first.status, first.text()), (201, "{\"charge\":1}"));
    assert_eq!(gateway.record().await["state"], "dispatched");
    store.arm(Plan::default());
    let second = gateway.send(&keyed_charge()).await;
    assert_eq!((second.status, second.text()), (201, "{\"charge\":1}"));
    assert_eq!(second.replayed(), Some("true"));
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn the_status_and_admin_addresses_say_that_the_store_fails() {
    let upstream = Upstream::saying(&answer("500 No", "", "")).await;
    let (gateway, store) = over_failing("", &upstream).await;
    assert_eq!(gateway.send(&keyed_charge()).await.status, 500);
    let id = gateway.record().await["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    store.arm(plan("fail:before:read:1+"));
    let state = gateway
        .send(&get(&format!("/.steadfast/operations/{id}")))
        .await;
    state.is_problem(503, "store-unavailable", "none");
    for path in ["/api/records".to_owned(), format!("/api/records/{id}")] {
        let told = gateway.operate(get(&path)).await;
        assert_eq!(told.status, 503, "{told:?}");
        assert!(
            told.json()["detail"]
                .as_str()
                .is_some_and(|detail| detail.ends_with('.'))
        );
    }
    assert_eq!(gateway.operate(get("/livez")).await.status, 200);
}

// rule: what-a-store-does-not-say-is-no-metric
#[tokio::test]
async fn a_store_that_does_not_answer_leaves_its_metrics_out_and_all_others_stand() {
    for (fault, records, up) in [
        ("fail:before:by-id:1+", false, 0),
        ("hang:before:by-id:1+", false, 0),
        ("fail:before:status:1+", false, 1),
        ("fail:before:write:1+", true, 1),
    ] {
        let upstream = Upstream::charging().await;
        let (gateway, store) = over_failing("", &upstream).await;
        store.arm(plan(fault));
        let answer = gateway.operate(get("/metrics")).await;
        assert_eq!(answer.status, 200, "{fault}");
        let text = answer.text();
        assert!(
            text.contains(&format!("steadfast_store_up {up}\n")),
            "{fault}: {text}"
        );
        assert_eq!(
            text.contains("\nsteadfast_records{"),
            records,
            "{fault}: {text}"
        );
        assert_eq!(
            text.contains("\nsteadfast_expiry_lag_seconds "),
            records,
            "{fault}"
        );
        assert!(
            text.contains("steadfast_requests_total{"),
            "{fault}: {text}"
        );
    }
}

#[tokio::test]
async fn a_request_that_goes_out_unprotected_is_counted() {
    let upstream = Upstream::charging().await;
    let route = "idempotency = { on_store_failure = \"pass\" }";
    let (gateway, store) = over_failing(route, &upstream).await;
    store.arm(plan("fail:before:now:1+"));
    assert_eq!(gateway.send(&keyed_charge()).await.status, 201);
    let answer = gateway.operate(get("/metrics")).await;
    let text = answer.text();
    for series in [
        "steadfast_unprotected_total{route=\"/{*rest}\"} 1\n",
        "steadfast_keyed_total{route=\"/{*rest}\",outcome=\"executed\"} 1\n",
        "steadfast_attempts_total{route=\"/{*rest}\",attempt=\"1\",result=\"201\"} 1\n",
    ] {
        assert!(text.contains(series), "{series}: {text}");
    }
}
