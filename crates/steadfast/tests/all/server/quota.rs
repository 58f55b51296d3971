//! How many live keys one principal may have.

use steadfast::core::attempt::Failure;
use steadfast::core::policy::InFlight;

use super::faults::{Act, Fault, unavailable};
use super::script::Turn;
use super::*;

/// The charge under key `n`.
fn nth(n: u32) -> Ask {
    let key = format!("9b2e{n:04x}-4d1c-4f5e-8a77-6c0d3e5f{n:04x}");
    charge(50).under(key.leak())
}

async fn with_quota(quota: u64) -> World {
    World::with(|rules| rules.key_quota = quota).await
}

#[track_caller]
fn is_beyond(seen: &Seen, after: &str) {
    seen.is_problem(429, "quota-exceeded", "none", true);
    assert_eq!(seen.header("retry-after"), Some(after));
    assert_eq!(seen.json()["operation_id"], serde_json::Value::Null);
}

// rule: beyond-the-quota-no-new-key-begins
#[tokio::test(start_paused = true)]
async fn beyond_the_quota_a_new_key_is_refused_and_all_that_stand_go_on() {
    let world = with_quota(3).await;
    world.script.then(Turn::Answer(429));
    assert_eq!(world.send(nth(1)).await.status, 429);
    assert_eq!(world.send(nth(2)).await.status, 201);
    let gate = world.script.gated(Turn::Answer(201));
    let running = world.spawn(nth(3));
    world.script.reached(3).await;
    // A third of a day apart, where keys are kept for one: an hour is the longest wait told.
    is_beyond(&world.send(nth(4)).await, "3600");
    assert_eq!(world.rows().await.len(), 3, "nothing is written of it");
    assert_eq!(world.send(nth(2)).await.told(), (201, Some("true"), None));
    let other = Ask {
        body: "{}".into(),
        ..nth(2)
    };
    assert_eq!(world.send(other).await.problem().1, "key-reused");
    let waits = world.spawn(nth(3));
    idle().await;
    gate.open();
    assert_eq!(end(running).await.told(), (201, Some("false"), None));
    assert_eq!(end(waits).await.told(), (201, Some("true"), None));
    // Released: known not executed, and its own repeat is no new key.
    assert_eq!(world.send(nth(1)).await.told(), (201, Some("false"), None));
    is_beyond(&world.send(nth(4)).await, "3600");
    for who in ["Bearer bob", "Bearer carol"] {
        assert_eq!(world.send(nth(4).of(who)).await.status, 201, "another's");
    }
    assert_eq!(world.script.effects(), 6);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_quota_an_unknown_outcome_is_taken_over_and_a_running_one_is_in_progress() {
    let mut world = World::repeating().await;
    world.policy.idempotency.key_quota = 1;
    world.policy.idempotency.in_flight = InFlight::Conflict;
    let gate = world.script.gated(Turn::Fails(Failure::Reset));
    let running = world.spawn(nth(1));
    world.script.reached(1).await;
    assert_eq!(world.send(nth(1)).await.problem().1, "in-progress");
    is_beyond(&world.send(nth(2)).await, "3600");
    gate.open();
    assert_eq!(end(running).await.problem().1, "outcome-unknown");
    is_beyond(&world.send(nth(2)).await, "3600");
    assert_eq!(world.send(nth(1)).await.told(), (201, Some("false"), None));
    assert_eq!(world.script.effects(), 2);
}

// rule: an-expired-key-is-none-of-the-quota-s
#[tokio::test(start_paused = true)]
async fn what_has_expired_or_was_removed_makes_room_swept_or_not() {
    let world = with_quota(2).await;
    world.send(nth(1)).await;
    pass(3600 * SECOND).await;
    world.send(nth(2)).await;
    pass(23 * 3600 * SECOND).await;
    // The first has expired and is not swept; its key is as new as any other.
    assert_eq!(world.send(nth(3)).await.status, 201);
    is_beyond(&world.send(nth(1)).await, "3600");
    is_beyond(&world.send(nth(4)).await, "3600");
    pass(3600 * SECOND).await;
    assert_eq!(world.send(nth(1)).await.told(), (201, Some("false"), None));
    is_beyond(&world.send(nth(2)).await, "3600");
    let swept = steadfast::server::sweep(&world.server).await.unwrap();
    assert_eq!(swept.expired, 1);
    is_beyond(&world.send(nth(2)).await, "3600");
    assert_eq!(world.script.effects(), 4);
}

// rule: in-one-process-the-quota-is-exact
#[tokio::test(start_paused = true)]
async fn of_many_new_keys_at_once_exactly_as_many_begin_as_there_is_room_for() {
    let world = with_quota(5).await;
    for n in 0..2 {
        world.send(nth(n)).await;
    }
    // One that comes to nothing leaves its place to another.
    world.store.fault(Act::Insert, Fault::Slow(SECOND));
    world.store.fault(Act::Insert, Fault::Fails(unavailable()));
    let asks: Vec<_> = (10..30).map(|n| world.spawn(nth(n))).collect();
    let mut statuses = Vec::new();
    for ask in asks {
        statuses.push(end(ask).await.status.as_u16());
    }
    let count = |status| statuses.iter().filter(|s| **s == status).count();
    assert_eq!(
        (count(201), count(503), count(429)),
        (3, 1, 16),
        "{statuses:?}"
    );
    assert_eq!(world.rows().await.len(), 5);
}

// rule: processes-exceed-the-quota-by-what-is-on-its-way
#[tokio::test(start_paused = true)]
async fn two_processes_over_one_store_keep_the_quota() {
    let world = with_quota(4).await;
    let neighbour = world.neighbour().await;
    for n in 0..4 {
        let either = [&world, &neighbour][n as usize % 2];
        assert_eq!(either.send(nth(n)).await.status, 201);
    }
    for either in [&world, &neighbour] {
        is_beyond(&either.send(nth(9)).await, "3600");
        assert_eq!(either.send(nth(0)).await.told(), (201, Some("true"), None));
    }
    // At once, each process counts what is on its own way and not on the other's.
    let [one, other] = [world.neighbour().await, world.neighbour().await];
    let asks: Vec<_> = (20..40)
        .map(|n| [&one, &other][n as usize % 2].spawn(nth(n).of("Bearer bob")))
        .collect();
    let mut began = 0;
    for ask in asks {
        began += usize::from(end(ask).await.status == 201);
    }
    assert!((4..=8).contains(&began), "{began} began");
}

// rule: far-from-the-quota-the-store-is-not-asked
#[tokio::test(start_paused = true)]
async fn far_from_the_quota_the_store_is_asked_for_a_count_once_a_second() {
    let world = World::new().await;
    for n in 0..100 {
        assert_eq!(world.send(nth(n)).await.status, 201);
    }
    assert_eq!(world.store.acts(Act::Count), 1);
    assert_eq!(world.send(nth(1).of("Bearer bob")).await.status, 201);
    assert_eq!(
        world.store.acts(Act::Count),
        2,
        "another's is counted apart"
    );
    pass(2 * SECOND).await;
    for n in 200..300 {
        assert_eq!(world.send(nth(n)).await.status, 201);
    }
    assert_eq!(world.store.acts(Act::Count), 3);
}

#[tokio::test(start_paused = true)]
async fn where_the_store_gives_no_count_nothing_is_sent() {
    for fault in [Fault::Fails(unavailable()), Fault::Hangs] {
        let world = with_quota(3).await;
        world.store.fault(Act::Count, fault);
        let seen = world.send(nth(1)).await;
        seen.is_problem(503, "store-unavailable", "none", true);
        assert_eq!(world.script.effects(), 0);
        assert_eq!(world.send(nth(1)).await.status, 201);
    }
}
