//! What goes again, and what the settings of a route make of an end.

use super::caller::{KEY, OTHER_KEY, charge, keyed_charge};
use super::running::Gateway;
use super::upstream::{Upstream, answer};

/// Loses the answer to the first request, charges for the others.
async fn losing_the_first() -> Upstream {
    Upstream::start(|exchange| async move {
        match exchange.number {
            1 => exchange.reply_and_close("").await,
            _ => exchange.reply(answer("201 Created", "", "made")).await,
        }
    })
    .await
}

// rule: under-repeat-the-same-request-takes-over-with-a-new-fence
#[tokio::test]
async fn under_repeat_the_same_request_takes_over_with_a_new_fence_and_another_does_not() {
    let upstream = losing_the_first().await;
    let route = "retry = { max_attempts = 1 }\nidempotency = { on_unknown = \"repeat\" }";
    let gateway = Gateway::with(upstream.addr, route).await;
    let first = gateway.send(&keyed_charge()).await;
    first.is_problem(504, "outcome-unknown", "unknown");
    assert!(first.retryable());
    let other = gateway.send(&keyed_charge().body("{}")).await;
    other.is_problem(422, "key-reused", "none");
    assert_eq!(upstream.count(), 1);
    let second = gateway.send(&keyed_charge()).await;
    assert_eq!((second.status, second.replayed()), (201, Some("false")));
    let third = gateway.send(&keyed_charge()).await;
    assert_eq!((third.text(), third.replayed()), ("made", Some("true")));
    let fences: Vec<u64> = upstream
        .seen()
        .iter()
        .map(|seen| seen.one("idempotency-fence").parse().expect("a number"))
        .collect();
    assert!(fences.len() == 2 && fences[0] < fences[1], "{fences:?}");
    assert_eq!(upstream.seen()[1].one("idempotency-key"), KEY);
    assert_eq!(gateway.record().await["attempts"], 2);
}

// rule: under-repeat-the-gateway-goes-again-by-itself
#[tokio::test]
async fn under_repeat_a_lost_answer_is_asked_for_again_and_under_hold_it_never_is() {
    let upstream = losing_the_first().await;
    let route = "retry = { base = \"1ms\" }\nidempotency = { on_unknown = \"repeat\" }";
    let gateway = Gateway::with(upstream.addr, route).await;
    let answer = gateway.send(&keyed_charge()).await;
    assert_eq!((answer.status, answer.replayed()), (201, Some("false")));
    assert_eq!(answer.field("steadfast-attempts"), Some("2"));
    let seen = upstream.seen();
    let each = |name: &str| -> Vec<String> {
        let values = seen.iter().map(|request| request.one(name).to_owned());
        values.collect()
    };
    assert_eq!(each("idempotency-key"), [KEY, KEY]);
    assert_eq!(each("steadfast-attempt"), ["1", "2"]);
    let fences: Vec<u64> = each("idempotency-fence")
        .iter()
        .map(|fence| fence.parse().expect("a number"))
        .collect();
    assert!(fences[0] < fences[1], "{fences:?}");
    let record = gateway.record().await;
    assert_eq!(
        (&record["attempts"], &record["effect"]),
        (&2.into(), &"applied".into())
    );

    let upstream = losing_the_first().await;
    let gateway = Gateway::with(upstream.addr, "retry = { base = \"1ms\" }").await;
    let answer = gateway.send(&keyed_charge()).await;
    answer.is_problem(504, "outcome-unknown", "unknown");
    assert!(!answer.retryable());
    assert_eq!(upstream.count(), 1);
}

// rule: a-keyed-stale-connection-sends-nothing-twice
#[tokio::test]
async fn a_keyed_write_meets_closed_connections_and_none_is_executed_twice() {
    const ROUNDS: usize = 200;
    let upstream = Upstream::start(|exchange| async move {
        exchange
            .reply_and_close(answer("201 Created", "", "made"))
            .await
    })
    .await;
    let route = "pool = { idle = \"60s\", reuse_unsafe_within = \"60s\" }\n\
                 retry = { base = \"1ms\" }\nbudget = { floor_per_second = 1000 }";
    let gateway = Gateway::with(upstream.addr, route).await;
    let mut caller = gateway.connect().await;
    let mut unknown = 0;
    for round in 0..ROUNDS {
        let key = format!("{round:08x}-6a62-4d4b-9f0c-3d5f6f1a7c01");
        let charge = charge().with("Idempotency-Key", &key);
        let wrote = caller.ask(&charge).await;
        match wrote.status {
            201 => {}
            504 => unknown += 1,
            other => panic!("round {round}: {other}"),
        }
    }
    // A fence goes out with every attempt, and one that executed is never followed by another.
    let seen = upstream.seen();
    let keys: std::collections::BTreeSet<String> = seen
        .iter()
        .map(|request| request.one("idempotency-key").to_owned())
        .collect();
    assert_eq!(seen.len(), keys.len(), "one execution a key");
    assert!(seen.len() + unknown >= ROUNDS);
}

#[tokio::test]
async fn what_a_status_means_is_the_route_s_to_say() {
    let route = "idempotency = { final = [503], released = [404], unknown = [409] }";
    for (status, state, effect) in [
        ("503 Service Unavailable", "completed", "none"),
        ("404 Not Found", "released", "none"),
        ("409 Conflict", "unknown", "unknown"),
    ] {
        let upstream = Upstream::saying(&answer(status, "", "told")).await;
        let gateway = Gateway::with(upstream.addr, route).await;
        assert_eq!(gateway.send(&keyed_charge()).await.text(), "told");
        let record = gateway.record().await;
        assert_eq!(
            (&record["state"], &record["effect"]),
            (&state.into(), &effect.into())
        );
    }
}

// rule: a-connection-that-the-upstream-closed-carries-no-request
#[tokio::test]
async fn a_connection_that_the_upstream_closed_without_a_word_carries_no_request() {
    let made = answer("201 Created", "", "made");
    let upstream = Upstream::start(move |exchange| exchange.reply_and_close(made.clone())).await;
    let gateway = Gateway::to(upstream.addr).await;
    for key in [KEY, OTHER_KEY] {
        assert_eq!(gateway.send(&charge().key(key)).await.status, 201);
    }
    for _ in 0..3 {
        assert_eq!(gateway.send(&charge()).await.status, 201);
    }
    assert_eq!(upstream.count(), 5);
}

#[tokio::test]
async fn an_upstream_s_retry_after_reaches_the_caller() {
    let upstream =
        Upstream::saying(&answer("429 Too Many Requests", "Retry-After: 7\r\n", "")).await;
    let gateway = Gateway::to(upstream.addr).await;
    for call in [keyed_charge(), charge()] {
        let answer = gateway.send(&call).await;
        assert_eq!(
            (answer.status, answer.field("retry-after")),
            (429, Some("7"))
        );
    }
}

// rule: bodies-are-compared-by-meaning
#[tokio::test]
async fn a_json_body_is_the_same_by_meaning_unless_the_route_says_bytes() {
    let upstream = Upstream::charging().await;
    let same = "{ \"b\": [1.0, \"\\u0061\"], \"a\" : 1e1 }";
    let first = charge().body("{\"a\":10,\"b\":[1,\"a\"]}").key(KEY);
    for (route, status) in [
        ("", 201),
        ("idempotency = { fingerprint = \"bytes\" }", 422),
    ] {
        let gateway = Gateway::with(upstream.addr, route).await;
        assert_eq!(gateway.send(&first).await.replayed(), Some("false"));
        assert_eq!(
            gateway.send(&charge().body(same).key(KEY)).await.status,
            status
        );
        let ordered = gateway
            .send(&charge().body("{\"a\":10,\"b\":[\"a\",1]}").key(KEY))
            .await;
        ordered.is_problem(422, "key-reused", "none");
        let conditional = first.clone().with("If-Match", "\"1\"");
        gateway
            .send(&conditional)
            .await
            .is_problem(422, "key-reused", "none");
    }
    let route = "idempotency = { fingerprint_ignore = [\"/sent_at\"] }";
    let gateway = Gateway::with(upstream.addr, route).await;
    for (sent_at, marker) in [(1, "false"), (2, "true")] {
        let body = format!("{{\"amount\":50,\"sent_at\":{sent_at}}}");
        assert_eq!(
            gateway.send(&charge().body(body).key(KEY)).await.replayed(),
            Some(marker)
        );
    }
}
