//! Released answers and their waiters, finished records, their expiry.

use steadfast::core::attempt::Failure;

use super::script::{Before, Turn};
use super::*;

// rule: a-released-answer-is-joined
#[tokio::test(start_paused = true)]
async fn waiters_are_given_a_released_answer_and_never_execute_while_later_ones_do() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(429));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let waiters: Vec<_> = (0..5).map(|_| world.spawn(charge(50))).collect();
    idle().await;
    gate.open();
    assert_eq!(end(first).await.told(), (429, Some("false"), None));
    for waiter in waiters {
        assert_eq!(end(waiter).await.told(), (429, Some("true"), Some("none")));
    }
    assert_eq!(world.script.effects(), 1);
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("false"), None)
    );
}

#[tokio::test(start_paused = true)]
async fn waiters_for_what_was_never_sent_are_told_so_and_do_not_execute() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Fails(Failure::NotWritten));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let waiter = world.spawn(charge(50));
    idle().await;
    gate.open();
    end(first).await;
    let seen = end(waiter).await;
    seen.is_problem(503, "upstream-unreachable", "none", true);
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_released_answer_is_joined_even_when_another_took_the_key_meanwhile() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(429));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let waiter = world.spawn(charge(50));
    idle().await;
    let second = world.script.gated(Turn::Answer(201));
    gate.open();
    end(first).await;
    let next = world.spawn(charge(50));
    world.script.reached(2).await;
    assert_eq!(end(waiter).await.told(), (429, Some("true"), Some("none")));
    second.open();
    assert_eq!(end(next).await.status, 201);
}

// rule: unknown-does-not-expire
#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_without_an_answer_does_not_expire() {
    let world = World::new().await;
    world.script.then(Turn::Fails(Failure::Reset));
    world.send(charge(50)).await;
    pass(365 * 24 * 3600 * SECOND).await;
    let swept = steadfast::server::sweep(&world.server).await.unwrap();
    assert_eq!((swept.expired, swept.recovered), (0, 0));
    let seen = world.send(charge(50)).await;
    seen.is_problem(409, "outcome-unknown", "unknown", false);
    assert_eq!(world.script.effects(), 1);
}

// rule: expired-counts-as-absent-unswept
#[tokio::test(start_paused = true)]
async fn a_record_past_its_expiry_counts_as_absent_swept_or_not() {
    for status in [201, 404, 429, 500] {
        let world = World::new().await;
        world.script.then(Turn::Answer(status));
        world.send(charge(50)).await;
        let before = world.row().await;
        pass(24 * 3600 * SECOND).await;
        // Not even another request under the key meets it.
        let seen = world.send(charge(60)).await;
        assert_eq!(seen.told(), (201, Some("false"), None), "{status}");
        let after = world.row().await;
        assert_ne!(before.id, after.id, "another operation");
        assert!(before.standing.fence < after.standing.fence);
    }
}

// rule: a-clock-ahead-expires-nothing
#[tokio::test(start_paused = true)]
async fn a_clock_that_ran_ahead_expires_nothing() {
    let world = World::new().await;
    world.send(charge(50)).await;
    world.jump(48 * 3600 * SECOND);
    let swept = steadfast::server::sweep(&world.server).await.unwrap();
    assert_eq!((swept.expiry_stopped, swept.expired), (true, 0));
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    assert_eq!(world.script.effects(), 1);
}

// rule: a-clock-that-ran-ahead-before-the-start-expires-nothing
#[tokio::test(start_paused = true)]
async fn a_process_that_starts_on_a_store_whose_date_ran_ahead_expires_nothing() {
    let world = World::new().await;
    world.send(charge(50)).await;
    world.jump(48 * 3600 * SECOND);
    world.send(charge(50).under(OTHER_KEY)).await;
    world.put_right();
    let restarted = world.neighbour().await;
    let swept = steadfast::server::sweep(&restarted.server).await.unwrap();
    assert_eq!((swept.expiry_stopped, swept.expired), (true, 0));
    assert_eq!(
        restarted.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    assert_eq!(world.script.effects(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_connection_after_a_released_answer_leaves_the_key_free() {
    let world = World::new().await;
    world.script.then(Turn::Answer(429));
    world.send(charge(50)).await;
    world.script.connecting(Before::Fails(Failure::Connect));
    let seen = world.send(charge(50)).await;
    seen.is_problem(503, "upstream-unreachable", "none", true);
    assert_eq!(world.state().await, State::Released);
    assert_eq!(world.send(charge(50)).await.status, 201);
}

// rule: no-refusal-of-new-work-hides-a-finished-answer
#[tokio::test(start_paused = true)]
async fn too_much_work_refuses_new_work_and_hides_no_finished_answer() {
    let limits = Limits {
        tasks: 1,
        ..Limits::default()
    };
    let mut world = World::with_limits(limits).await;
    world.policy.idempotency.wait_limit = SECOND;
    world.send(charge(50)).await;
    let gate = world.script.gated(Turn::Answer(201));
    let busy = world.spawn(charge(50).under(OTHER_KEY));
    world.script.reached(2).await;
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    assert_eq!(world.send(charge(60)).await.status, 422);
    let waits = world.send(charge(50).under(OTHER_KEY)).await;
    waits.is_problem(409, "in-progress", "unknown", true);
    let new = world.send(charge(50).of("Bearer bob")).await;
    new.is_problem(503, "overloaded", "none", true);
    assert_eq!(world.rows().await.len(), 2, "refused before the insert");
    gate.open();
    end(busy).await;
    assert_eq!(world.send(charge(50).of("Bearer bob")).await.status, 201);
}
