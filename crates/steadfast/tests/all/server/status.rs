//! The status address, as a service with the layer mounts it.

use steadfast::core::attempt::Failure;
use steadfast::core::record::OperationId;
use steadfast::server::status;

use super::faults::Act;
use super::script::Turn;
use super::*;

/// What `who` is given of `path`.
async fn ask(world: &World, method: Method, path: &str, who: &'static str) -> Seen {
    let asks = |rule: &str| {
        Some(Principal {
            rule: rule.to_owned(),
            kind: "authorization".to_owned(),
            value: who.into(),
        })
    };
    let answer = status::serve(&world.server, &method, path, asks).await;
    let answer = answer.unwrap_or_else(|problem| steadfast::server::problem(&problem));
    Seen::of(answer).await
}

async fn get(world: &World, path: &str) -> Seen {
    ask(world, Method::GET, path, "Bearer alice").await
}

fn address(id: impl std::fmt::Display) -> String {
    format!("{}{id}", status::OPERATIONS)
}

// rule: nothing-tells-a-missing-operation-from-another-s
#[tokio::test(start_paused = true)]
async fn missing_foreign_expired_and_malformed_ids_take_the_same_calls_and_get_one_answer() {
    let world = World::new().await;
    world.send(charge(50)).await;
    let expired = world.row().await;
    pass(24 * 3600 * SECOND).await;
    world.send(charge(50).under(OTHER_KEY)).await;
    let rows = world.rows().await;
    let [_, live] = &rows[..] else {
        panic!("the expired one is not swept: {rows:?}")
    };
    let own = address(live.id);
    let response = |of: &str| format!("{of}/response");
    let alice = "Bearer alice";
    let looks = [
        (own.clone(), alice, true),
        (response(&own), alice, true),
        (own.clone(), "Bearer bob", false),
        (response(&own), "Bearer bob", false),
        (address(expired.id), alice, false),
        (response(&address(expired.id)), alice, false),
        (address(OperationId::new(&live.scope, 7)), alice, false),
        (address(OperationId::from_bits(7)), alice, false),
        (address("short"), alice, false),
        (address(""), alice, false),
        (format!("{own}/other"), alice, false),
        ("/.steadfast".to_owned(), alice, false),
    ];
    let mut refusals = Vec::new();
    for (path, who, is_there) in looks {
        let before = world.store.all_acts().len();
        let seen = ask(&world, Method::GET, &path, who).await;
        assert_eq!(
            world.store.all_acts()[before..],
            [Act::ById, Act::Now],
            "{path} of {who}"
        );
        assert_eq!(seen.status.is_success(), is_there, "{path} of {who}");
        if !is_there {
            seen.is_problem(404, "operation-not-found", "none", false);
            refusals.push((seen.headers.clone(), seen.bytes().to_vec()));
        }
    }
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "and all are told the same");
}

// rule: the-status-address-says-when-to-ask-again
#[tokio::test(start_paused = true)]
async fn what_is_not_final_says_when_to_ask_again_and_what_has_no_answer_says_why() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Fails(Failure::Reset));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let own = address(world.row().await.id);
    let answer = format!("{own}/response");
    let state = async |state: &str, again: Option<&str>| {
        let seen = get(&world, &own).await;
        assert_eq!(
            (seen.status.as_u16(), &seen.json()["state"]),
            (200, &state.into())
        );
        assert_eq!(seen.header("retry-after"), again, "{state}");
    };
    state("dispatched", Some("1")).await;
    let running = get(&world, &answer).await;
    running.is_problem(409, "in-progress", "unknown", true);
    assert_eq!(running.header("retry-after"), Some("1"));
    gate.open();
    end(first).await;
    state("unknown", Some("1")).await;
    let unknown = get(&world, &answer).await;
    unknown.is_problem(409, "outcome-unknown", "unknown", false);
    assert_eq!(unknown.header("retry-after"), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_released_operation_without_an_answer_is_final_and_says_that_none_is_stored() {
    let world = World::new().await;
    world.script.then(Turn::Fails(Failure::NotWritten));
    world.send(charge(50)).await;
    let own = address(world.row().await.id);
    let seen = get(&world, &own).await;
    assert_eq!(
        (&seen.json()["state"], seen.header("retry-after")),
        (&"released".into(), None)
    );
    let none = get(&world, &format!("{own}/response")).await;
    none.is_problem(409, "response-not-stored", "none", false);
    assert_eq!(none.header("retry-after"), None);
}

// rule: the-status-address-is-only-read
#[tokio::test(start_paused = true)]
async fn the_status_address_is_read_by_get_and_head_and_takes_nothing_else() {
    let world = World::new().await;
    world.send(charge(50)).await;
    let own = address(world.row().await.id);
    let got = get(&world, &own).await;
    let head = ask(&world, Method::HEAD, &own, "Bearer alice").await;
    assert_eq!((head.status, &head.headers), (got.status, &got.headers));
    let before = world.store.all_acts().len();
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        for who in ["Bearer alice", "Bearer bob"] {
            let seen = ask(&world, method.clone(), &own, who).await;
            seen.is_problem(405, "bad-request", "none", false);
            assert_eq!(seen.header("allow"), Some("GET, HEAD"));
        }
    }
    assert_eq!(
        world.store.all_acts().len(),
        before,
        "whether it is there is not even asked"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_that_its_store_does_not_give_is_503() {
    let world = World::new().await;
    world.send(charge(50)).await;
    let own = address(world.row().await.id);
    world.store.fault(Act::ById, faults::Fault::Hangs);
    let seen = get(&world, &own).await;
    seen.is_problem(503, "store-unavailable", "none", true);
}
