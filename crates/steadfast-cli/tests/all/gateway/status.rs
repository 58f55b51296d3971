//! The status address of an operation: for its own principal, and for nobody else.

use std::sync::Arc;

use steadfast::store::faulty::Faulty;
use steadfast::store::memory::Memory;
use steadfast_core::record::OperationId;
use tokio::sync::Semaphore;

use super::caller::{Answer, Call, KEY, OTHER_KEY, call, charge, get, keyed_charge};
use super::running::{Gateway, config};
use super::upstream::{Upstream, answer};
use crate::listen::raw::soon;

const OWNER: &str = "Bearer of-the-owner";

fn owned(call: Call) -> Call {
    call.with("Authorization", OWNER)
}

/// A gateway with an operation at work, its caller, and what a duplicate was given.
async fn at_work(in_flight: &str) -> (Gateway, super::caller::Caller, Arc<Semaphore>, Answer) {
    let (upstream, gate) = Upstream::held(&answer("201 Created", "X-Made: 1\r\n", "made")).await;
    let route = format!("idempotency = {{ in_flight = \"{in_flight}\" }}");
    let gateway = Gateway::with(upstream.addr, &route).await;
    let mut first = gateway.connect().await;
    first.write(owned(keyed_charge()).bytes()).await;
    upstream.until_count(1).await;
    let duplicate = gateway.send(&owned(keyed_charge())).await;
    assert_eq!(upstream.count(), 1);
    (gateway, first, gate, duplicate)
}

// rule: the-status-address-is-the-principal-s-own
#[tokio::test]
async fn the_status_address_is_the_principal_s_own_and_nothing_tells_others_that_it_exists() {
    let (gateway, _first, _gate, duplicate) = at_work("conflict").await;
    let address = duplicate.field("location").expect("an address").to_owned();
    let own = gateway.send(&owned(get(&address))).await;
    assert_eq!(own.status, 200);
    let missing = "0123456789abcdef0123456789abcdef";
    let calls = [
        get(&address),
        get(&address).with("Authorization", "Bearer of-another"),
        get(&address).with("Cookie", "session=1"),
        owned(get(&format!("/.steadfast/operations/{missing}"))),
        owned(get("/.steadfast/operations/short")),
        owned(get("/.steadfast/operations/")),
        owned(get("/.steadfast/operations")),
        owned(get("/.steadfast")),
        owned(get("/.steadfast/")),
        owned(get(&format!("{address}/other"))),
        owned(get(&format!("{address}/response/"))),
        owned(get(&address.replace(".steadfast", "%2Esteadfast"))),
        owned(call("POST", &address)),
        owned(call("DELETE", &address)),
        get(&format!("{address}/response")),
    ];
    let mut bodies = Vec::new();
    for call in &calls {
        let answer = gateway.send(call).await;
        answer.is_problem(404, "operation-not-found", "none");
        bodies.push(answer.body);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "identical for everybody");
}

// rule: an-operation-in-flight-is-409-with-its-address
#[tokio::test]
async fn a_conflict_names_the_address_where_the_state_and_then_the_answer_is() {
    let (gateway, mut first, gate, duplicate) = at_work("conflict").await;
    duplicate.is_problem(409, "in-progress", "unknown");
    assert!(duplicate.retryable());
    assert!(duplicate.field("retry-after").is_some());
    let address = duplicate.field("location").expect("an address").to_owned();
    let state = gateway.send(&owned(get(&address))).await;
    assert!(state.field("retry-after").is_some(), "{state:?}");
    let told = state.json();
    assert_eq!(told["operation_id"], duplicate.operation_id());
    assert_eq!(
        (&told["state"], &told["effect"]),
        (&"dispatched".into(), &"unknown".into())
    );
    assert!(
        told["status"].is_null() && told["expires_at"].is_null(),
        "{told}"
    );
    assert!(
        told["created_at"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z')),
        "{told}"
    );
    let none = gateway
        .send(&owned(get(&format!("{address}/response"))))
        .await;
    none.is_problem(409, "in-progress", "unknown");
    gate.add_permits(1);
    assert_eq!(first.answer().await.status, 201);
    let state = gateway.send(&owned(get(&address))).await;
    assert_eq!(state.field("retry-after"), None);
    let told = state.json();
    assert_eq!(
        (&told["state"], &told["effect"]),
        (&"completed".into(), &"applied".into())
    );
    assert_eq!(told["status"], 201);
    assert!(told["expires_at"].is_string(), "{told}");
    let stored = gateway
        .send(&owned(get(&format!("{address}/response"))))
        .await;
    assert_eq!((stored.status, stored.text()), (201, "made"));
    assert_eq!(
        (stored.field("x-made"), stored.replayed()),
        (Some("1"), Some("true"))
    );
}

// rule: in-flight-accept-is-202-with-the-address
#[tokio::test]
async fn accept_gives_202_with_the_address_and_later_the_answer() {
    let (gateway, mut first, gate, duplicate) = at_work("accept").await;
    assert_eq!(duplicate.status, 202);
    assert_eq!(
        (duplicate.effect(), duplicate.replayed()),
        (Some("unknown"), None)
    );
    assert!(duplicate.field("retry-after").is_some());
    assert_eq!(duplicate.json()["state"], "dispatched");
    let address = duplicate.field("location").expect("an address").to_owned();
    assert!(address.ends_with(&duplicate.operation_id()), "{address}");
    gate.add_permits(1);
    assert_eq!(first.answer().await.status, 201);
    let stored = gateway
        .send(&owned(get(&format!("{address}/response"))))
        .await;
    assert_eq!((stored.status, stored.text()), (201, "made"));
    let replayed = gateway.send(&owned(keyed_charge())).await;
    assert_eq!((replayed.status, replayed.replayed()), (201, Some("true")));
}

#[tokio::test]
async fn wait_gives_a_duplicate_the_answer_of_the_attempt_it_waited_for_also_a_released_one() {
    for (status, effect) in [
        ("201 Created", None),
        ("503 Service Unavailable", Some("none")),
    ] {
        let (upstream, gate) = Upstream::held(&answer(status, "", "told")).await;
        let gateway = Gateway::to(upstream.addr).await;
        let mut first = gateway.connect().await;
        first.write(keyed_charge().bytes()).await;
        upstream.until_count(1).await;
        let mut waiter = gateway.connect().await;
        waiter.write(keyed_charge().bytes()).await;
        // A third that does not wait long shows that the second is at its place before it.
        let third = keyed_charge().with("Request-Timeout-Ms", "200");
        gateway
            .send(&third)
            .await
            .is_problem(409, "in-progress", "unknown");
        gate.add_permits(10);
        assert_eq!(first.answer().await.replayed(), Some("false"));
        let joined = waiter.answer().await;
        assert!(status.starts_with(&joined.status.to_string()), "{joined:?}");
        if upstream.count() == 1 {
            assert_eq!((joined.replayed(), joined.effect()), (Some("true"), effect));
        }
    }
}

#[tokio::test]
async fn the_stored_answer_of_an_unknown_or_large_operation_is_said_to_be_none() {
    let large = "x".repeat(5_000);
    let upstream = Upstream::start(move |exchange| {
        let large = large.clone();
        async move {
            match exchange.seen().one("idempotency-key") {
                KEY => exchange.reply_and_close("").await,
                _ => exchange.reply(answer("201 Created", "", &large)).await,
            }
        }
    })
    .await;
    let gateway = Gateway::with(upstream.addr, "response_limit = \"1KiB\"").await;
    let unknown = gateway.send(&keyed_charge()).await.operation_id();
    assert_eq!(gateway.send(&charge().key(OTHER_KEY)).await.status, 201);
    let records = gateway.records().await;
    let stored = records
        .iter()
        .find(|record| record["state"] == "completed")
        .expect("one");
    let response = |id: &str| get(&format!("/.steadfast/operations/{id}/response"));
    let answer = gateway.send(&response(&unknown)).await;
    answer.is_problem(409, "outcome-unknown", "unknown");
    let answer = gateway
        .send(&response(stored["id"].as_str().expect("an id")))
        .await;
    answer.is_problem(409, "response-not-stored", "applied");
    assert_eq!(answer.json()["original_status"], 201);
}

#[tokio::test]
async fn an_expired_record_is_404_at_its_address_also_while_it_is_not_removed_yet() {
    let upstream = Upstream::charging().await;
    let never = "fail:before:expire:1+".parse().expect("a plan");
    let store = Arc::new(Faulty::new(Memory::new(), never));
    let text = config(upstream.addr, "idempotency = { retention = \"1ms\" }");
    let gateway = Gateway::over(&text, store).await;
    assert_eq!(gateway.send(&keyed_charge()).await.status, 201);
    let id = gateway.record().await["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let row = gateway
        .store
        .by_id(OperationId::parse(&id).expect("an id"))
        .await;
    let ends = row.expect("a read").expect("the row").standing.expires_at;
    let expiry = async {
        while gateway.store.now().await.ok() < ends {
            tokio::task::yield_now().await;
        }
    };
    soon("the record's expiry", expiry).await;
    for address in ["", "/response"] {
        let call = get(&format!("/.steadfast/operations/{id}{address}"));
        let answer = gateway.send(&call).await;
        answer.is_problem(404, "operation-not-found", "none");
    }
    assert_eq!(gateway.record().await["id"], id, "it is still there");
}

// rule: body-retention-ends-replays-and-runs-nothing
#[tokio::test]
async fn after_its_body_retention_an_answer_is_given_to_nobody_and_nothing_runs_again() {
    let upstream = Upstream::charging().await;
    let text = config(upstream.addr, "idempotency = { body_retention = \"1ms\" }");
    let gateway = Gateway::start(&text).await;
    assert_eq!(gateway.send(&keyed_charge()).await.status, 201);
    let id = gateway.record().await["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let row = gateway
        .store
        .by_id(OperationId::parse(&id).expect("an id"))
        .await;
    let ends = row.expect("a read").expect("the row").body_ends_at();
    assert!(ends.is_some(), "shorter than its record's");
    let over = async {
        while gateway.store.now().await.ok() < ends {
            tokio::task::yield_now().await;
        }
    };
    soon("the body's end", over).await;
    let address = get(&format!("/.steadfast/operations/{id}/response"));
    for call in [keyed_charge(), address] {
        let answer = gateway.send(&call).await;
        answer.is_problem(409, "response-not-stored", "applied");
        assert_eq!(answer.json()["original_status"], 201);
    }
    assert_eq!(upstream.count(), 1);
}
