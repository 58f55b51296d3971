//! A gateway behind a gateway, under one key.

use super::caller::{KEY, charge, keyed_charge};
use super::running::Gateway;
use super::upstream::{Upstream, answer};

// rule: two-gateways-in-a-row-have-one-effect
#[tokio::test]
async fn a_keyed_request_through_two_gateways_has_one_effect_and_one_marker() {
    let upstream = Upstream::charging().await;
    let inner = Gateway::to(upstream.addr).await;
    let outer = Gateway::to(inner.data).await;
    for marker in ["false", "true"] {
        let answer = outer.send(&keyed_charge()).await;
        assert_eq!((answer.status, answer.text()), (201, "{\"charge\":1}"));
        assert_eq!(answer.replayed(), Some(marker));
        assert_eq!(answer.field("steadfast-attempts").unwrap_or("1"), "1");
    }
    let direct = inner.send(&keyed_charge()).await;
    assert_eq!(direct.replayed(), Some("true"));
    assert_eq!(upstream.count(), 1);
    // The fence is the inner gateway's own: the outer one is a stranger to it.
    let seen = upstream.only();
    let fence: u64 = seen.one("idempotency-fence").parse().expect("a number");
    assert_eq!(inner.record().await["fence"], fence);
    assert_eq!(seen.one("idempotency-key"), KEY);
}

// rule: an-inner-outcome-unknown-is-unknown-outside
#[tokio::test]
async fn an_inner_unknown_outcome_is_unknown_outside_and_may_be_asked_again_with_the_key() {
    let lost = Upstream::start(|exchange| exchange.reply_and_close("")).await;
    let inner = Gateway::to(lost.addr).await;
    let outer = Gateway::to(inner.data).await;
    let first = outer.send(&keyed_charge()).await;
    assert_eq!((first.status, first.effect()), (504, Some("unknown")));
    assert_eq!(
        first.json()["type"],
        "urn:steadfast:problem:outcome-unknown"
    );
    let record = outer.record().await;
    assert_eq!(
        (&record["state"], &record["effect"]),
        (&"unknown".into(), &"unknown".into())
    );
    assert!(record["status"].is_null(), "no answer is kept: {record}");
    // The inner gateway honours the key, so asking it again is safe, whatever on_unknown says.
    let id = inner.record().await["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let resolve = super::caller::call("POST", &format!("/api/records/{id}/resolve"));
    let body = r#"{"status":201,"headers":{},"body":{"charge":1}}"#;
    assert_eq!(inner.operate(resolve.body(body)).await.status, 200);
    let second = outer.send(&keyed_charge()).await;
    assert_eq!((second.status, second.text()), (201, "{\"charge\":1}"));
    assert_eq!(outer.record().await["state"], "completed");
    assert_eq!(lost.count(), 1, "executed once");
}

#[tokio::test]
async fn an_inner_operation_in_progress_is_unknown_outside_and_asked_again() {
    for in_flight in ["conflict", "accept"] {
        let (upstream, gate) = Upstream::held(&answer("201 Created", "", "made")).await;
        let route = format!("idempotency = {{ in_flight = \"{in_flight}\" }}");
        let inner = Gateway::with(upstream.addr, &route).await;
        let outer = Gateway::to(inner.data).await;
        let mut direct = inner.connect().await;
        direct.write(keyed_charge().bytes()).await;
        upstream.until_count(1).await;
        let early = outer.send(&keyed_charge()).await;
        assert_eq!(early.effect(), Some("unknown"), "{early:?}");
        assert_eq!(outer.record().await["state"], "unknown");
        gate.add_permits(10);
        assert_eq!(direct.answer().await.status, 201);
        let late = outer.send(&keyed_charge()).await;
        assert_eq!((late.status, late.text()), (201, "made"));
        assert_eq!(upstream.count(), 1);
    }
}

#[tokio::test]
async fn what_the_inner_gateway_never_sent_is_free_again_outside() {
    let inner = Gateway::to(Upstream::nowhere().await).await;
    let outer = Gateway::to(inner.data).await;
    let answer = outer.send(&keyed_charge()).await;
    assert_eq!(answer.status, 503);
    assert_eq!(outer.record().await["state"], "released");
    assert_eq!(inner.record().await["state"], "released");
    assert_eq!(outer.send(&charge()).await.status, 503);
}
