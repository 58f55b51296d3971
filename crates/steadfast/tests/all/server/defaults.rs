//! Numbers that hold where nobody sets anything, at work: docs/defaults.md names these tests. Time
//! stands still, so that a day passes at once.

use std::convert::Infallible;

use steadfast::body::full;
use steadfast::core::record::OperationId;
use steadfast::server::{IdempotencyLayer, sweep};
use steadfast::store::Op;
use steadfast::store::conformance::rows;
use tower::{Layer, ServiceExt, service_fn};

use super::script::Turn;
use super::*;

/// Principals enough for thousands of operations under one key.
fn who(number: usize) -> &'static str {
    Box::leak(format!("Bearer {number}").into_boxed_str())
}

#[tokio::test(start_paused = true)]
async fn a_record_is_held_for_24_hours_from_its_end_and_no_longer() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    // How long the work took does not count.
    pass(15 * SECOND).await;
    gate.open();
    end(first).await;
    pass(24 * 3600 * SECOND - SECOND).await;
    assert_eq!(sweep(&world.server).await.unwrap().expired, 0);
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    pass(SECOND).await;
    assert_eq!(sweep(&world.server).await.unwrap().expired, 1);
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("false"), None)
    );
    assert_eq!(world.script.effects(), 2);
}

#[tokio::test(start_paused = true)]
async fn of_one_principal_100_000_keys_live_and_the_next_is_refused() {
    let world = World::new().await;
    world.send(charge(50)).await;
    let mut row = world.row().await;
    for n in 2..100_000 {
        row.scope = rows::scope(n);
        row.id = OperationId::new(&row.scope, u128::from(n));
        let insert = Op::Insert(Box::new(row.clone()));
        world.store.memory().apply(insert).await.unwrap();
    }
    pass(2 * SECOND).await;
    let last = world.send(charge(50).under(OTHER_KEY)).await;
    assert_eq!(last.told(), (201, Some("false"), None));
    let next = charge(50).under("5d0b1f9e-7d0a-4b43-9a3a-3b0c8a4a7d10");
    let refused = world.send(next.clone()).await;
    refused.is_problem(429, "quota-exceeded", "none", true);
    // A day's keys end so far apart: 0.864 s.
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(world.send(next.of("Bearer bob")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn of_a_key_s_duplicates_256_wait_and_the_next_is_refused_at_once() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let waiters: Vec<_> = (0..256).map(|_| world.spawn(charge(50))).collect();
    idle().await;
    let begun = clock::mono_now();
    let next = world.send(charge(50)).await;
    next.is_problem(409, "in-progress", "unknown", true);
    assert_eq!(clock::mono_now().since(begun), Duration::ZERO);
    gate.open();
    end(first).await;
    for waiter in waiters {
        assert_eq!(end(waiter).await.told(), (201, Some("true"), None));
    }
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn with_10_000_keyed_requests_at_work_the_next_is_refused_at_once() {
    let world = World::new().await;
    let gates: Vec<_> = (0..10_000)
        .map(|_| world.script.gated(Turn::Answer(201)))
        .collect();
    let at_work: Vec<_> = (0..10_000)
        .map(|number| world.spawn(charge(50).of(who(number))))
        .collect();
    world.script.reached(10_000).await;
    let next = world.send(charge(50)).await;
    next.is_problem(503, "overloaded", "none", true);
    assert_eq!(world.script.effects(), 10_000);
    gates.iter().for_each(script::Gate::open);
    for work in at_work {
        assert_eq!(end(work).await.status, 201);
    }
    assert_eq!(world.send(charge(50)).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn with_10_000_duplicates_waiting_the_next_is_refused_at_once() {
    let world = World::new().await;
    // So many keys that no one of them is full.
    let keys = 50;
    let gates: Vec<_> = (0..keys)
        .map(|_| world.script.gated(Turn::Answer(201)))
        .collect();
    let ask = |number: usize| charge(50).of(who(number % keys));
    let at_work: Vec<_> = (0..keys).map(|number| world.spawn(ask(number))).collect();
    world.script.reached(keys).await;
    let waiting: Vec<_> = (0..10_000).map(|number| world.spawn(ask(number))).collect();
    idle().await;
    let next = world.send(ask(0)).await;
    next.is_problem(409, "in-progress", "unknown", true);
    gates.iter().for_each(script::Gate::open);
    for answered in at_work.into_iter().chain(waiting) {
        assert_eq!(end(answered).await.status, 201);
    }
    assert_eq!(world.script.effects(), keys);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_1_mib_is_kept_and_one_of_a_byte_more_is_not() {
    for (length, kept) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        let world = World::new().await;
        let body = Bytes::from(vec![b'x'; length]);
        world.script.then(Turn::Whole(201, vec![], body.clone()));
        assert_eq!(world.send(charge(50)).await.bytes(), body);
        let again = world.send(charge(50)).await;
        if kept {
            assert_eq!(again.bytes(), body);
        } else {
            again.is_problem(409, "response-not-stored", "applied", false);
        }
        assert_eq!(world.script.effects(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_of_1_mib_is_taken_and_one_of_a_byte_more_is_refused() {
    let server = Server::new(Arc::new(Memory::new()), Limits::default());
    let layer = IdempotencyLayer::new(server.await.unwrap());
    let service = layer.layer(service_fn(|request: Request<Body>| async {
        let length = request
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .len();
        Ok::<_, Infallible>(Response::new(full(length.to_string())))
    }));
    let send = |key: &str, length: usize| {
        let request = Request::post("/v1/charges").header("idempotency-key", key);
        let request = request.body(full(vec![b'x'; length])).unwrap();
        let service = service.clone();
        async move { Seen::of(service.oneshot(request).await.unwrap()).await }
    };
    assert_eq!(send(KEY, 1 << 20).await.bytes(), b"1048576");
    let above = send(OTHER_KEY, (1 << 20) + 1).await;
    above.is_problem(413, "body-too-large", "none", false);
}
