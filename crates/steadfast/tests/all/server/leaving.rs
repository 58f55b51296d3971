//! Callers that hang up, handlers that panic, processes that end.

use steadfast::server::sweep;

use super::faults::{Act, Fault, unavailable};
use super::script::{Before, Turn};
use super::*;

// rule: a-caller-that-hangs-up-does-not-stop-the-work
#[tokio::test(start_paused = true)]
async fn the_work_of_a_caller_that_hangs_up_ends_and_is_replayed() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    first.abort();
    assert!(first.await.is_err());
    gate.open();
    world.until(State::Completed).await;
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    assert_eq!(world.script.effects(), 1);
}

// rule: a-panic-is-unknown
#[tokio::test(start_paused = true)]
async fn a_panic_is_unknown_at_once() {
    let world = World::new().await;
    world.script.then(Turn::Panics);
    let seen = world.send(charge(50)).await;
    seen.is_problem(504, "outcome-unknown", "unknown", false);
    assert_eq!(world.state().await, State::Unknown);
    world
        .send(charge(50))
        .await
        .is_problem(409, "outcome-unknown", "unknown", false);
    assert_eq!(world.server.drain(SECOND).await, 0);
}

// rule: what-runs-at-the-end-of-a-drain-is-unknown
#[tokio::test(start_paused = true)]
async fn what_still_runs_at_the_end_of_a_drain_is_unknown_with_its_reason() {
    let mut world = World::new().await;
    world.policy.deadline = 3600 * SECOND;
    world.script.then(Turn::Never);
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let begun = clock::mono_now();
    assert_eq!(world.server.drain(35 * SECOND).await, 1);
    assert!(clock::mono_now().since(begun) <= 41 * SECOND);
    let row = world.row().await;
    assert_eq!(row.standing.state, State::Unknown);
    assert_eq!(row.standing.reason, "shutdown");
    end(first)
        .await
        .is_problem(504, "outcome-unknown", "unknown", false);
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_work_that_ends_in_time() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let server = world.server.clone();
    let drain = tokio::spawn(async move { server.drain(35 * SECOND).await });
    idle().await;
    gate.open();
    assert_eq!(end(drain).await, 0);
    assert_eq!(end(first).await.status, 201);
    assert_eq!(world.state().await, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_drain_gives_back_what_was_not_sent_yet() {
    let mut world = World::new().await;
    world.policy.deadline = 3600 * SECOND;
    world.script.connecting(Before::Never);
    let first = world.spawn(charge(50));
    world.script.prepared(1).await;
    assert_eq!(world.server.drain(SECOND).await, 1);
    let seen = end(first).await;
    assert_eq!(seen.status, 503);
    assert_eq!(seen.json()["effect"], "none");
    assert_eq!(seen.json()["retryable"], true);
    assert!(world.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_comes_after_the_end_of_a_drain_is_not_sent() {
    let world = World::new().await;
    let slow = Fault::Slow(Duration::from_millis(1500));
    world.store.fault(Act::Insert, slow);
    let first = world.spawn(charge(50));
    idle().await;
    assert_eq!(world.server.drain(Duration::ZERO).await, 1);
    end(first).await.is_problem(503, "overloaded", "none", true);
    assert_eq!(world.script.effects(), 0);
    assert!(world.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_while_the_store_is_away() {
    let mut world = World::new().await;
    world.policy.deadline = 3600 * SECOND;
    world.script.then(Turn::Never).then(Turn::Answer(201));
    let running = world.spawn(charge(50));
    world.script.reached(1).await;
    for _ in 0..1000 {
        world.store.fault(Act::Settle, Fault::Fails(unavailable()));
    }
    world.send(charge(50).under(OTHER_KEY)).await;
    world.store.down(true);
    assert_eq!(
        world.server.drain(SECOND).await,
        2,
        "one runs, one is to be written"
    );
    end(running).await;
    assert_eq!(world.script.effects(), 2);
}

#[tokio::test(start_paused = true)]
async fn during_a_drain_finished_answers_are_still_given_and_nothing_new_begins() {
    let world = World::new().await;
    world.send(charge(50)).await;
    let gate = world.script.gated(Turn::Answer(201));
    let busy = world.spawn(charge(50).under(OTHER_KEY));
    world.script.reached(2).await;
    let server = world.server.clone();
    let drain = tokio::spawn(async move { server.drain(35 * SECOND).await });
    idle().await;
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    let new = world.send(charge(50).of("Bearer bob")).await;
    new.is_problem(503, "overloaded", "none", true);
    gate.open();
    assert_eq!(end(drain).await, 0);
    assert_eq!(end(busy).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn after_a_drain_finished_answers_are_still_given_and_nothing_new_begins() {
    let world = World::new().await;
    world.send(charge(50)).await;
    assert_eq!(world.server.drain(SECOND).await, 0);
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    let new = world.send(charge(50).under(OTHER_KEY)).await;
    new.is_problem(503, "overloaded", "none", true);
    assert_eq!(world.script.effects(), 1);
}

/// A holder that came late with a success, and waits for a newer one that is at work in `there`.
async fn overtaken(world: &World, there: &World) -> (JoinHandle<Seen>, JoinHandle<Seen>) {
    let gate = world.script.gated(Turn::Answer(201));
    let late = world.spawn(charge(50));
    world.script.reached(1).await;
    for _ in 0..200 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(31 * SECOND).await;
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 1);
    world.store.heal();
    world.script.then(Turn::Never);
    let newer = there.spawn(charge(50));
    world.script.reached(2).await;
    gate.open();
    idle().await;
    assert!(!late.is_finished(), "it waits for the newer one");
    (late, newer)
}

async fn repeating_for_an_hour() -> World {
    let mut world = World::repeating().await;
    world.policy.deadline = 3600 * SECOND;
    world
}

// rule: a-stop-does-not-lose-a-late-success
#[tokio::test(start_paused = true)]
async fn a_late_success_is_written_over_what_a_stop_leaves_unknown() {
    // Whichever of the two hears of the stop first.
    for _ in 0..32 {
        let world = repeating_for_an_hour().await;
        let (late, newer) = overtaken(&world, &world).await;
        assert_eq!(world.server.drain(SECOND).await, 2);
        let row = world.row().await;
        assert_eq!(row.standing.state, State::Completed, "{:?}", row.history);
        let before = &row.history[row.history.len() - 2];
        assert_eq!((before.event, &*before.detail), ("unknown", "shutdown"));
        assert_eq!(end(late).await.told(), (201, Some("false"), None));
        end(newer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_success_that_is_still_to_be_written_is_written_at_a_stop() {
    for _ in 0..32 {
        let world = repeating_for_an_hour().await;
        let (late, newer) = overtaken(&world, &world).await;
        world.store.down(true);
        // The look at the newer one fails, so that the answer is given before it is recorded.
        pass(60 * SECOND).await;
        assert_eq!(end(late).await.told(), (201, Some("false"), None));
        world.store.heal();
        assert_eq!(world.server.drain(SECOND).await, 2);
        assert_eq!(world.state().await, State::Completed);
        end(newer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_newer_holder_elsewhere() {
    let world = repeating_for_an_hour().await;
    let elsewhere = world.neighbour().await;
    let (late, newer) = overtaken(&world, &elsewhere).await;
    let begun = clock::mono_now();
    assert_eq!(world.server.drain(SECOND).await, 1);
    assert!(clock::mono_now().since(begun) < 5 * SECOND);
    let told = end(late).await;
    told.is_problem(409, "in-progress", "unknown", true);
    assert_eq!(
        world.state().await,
        State::Dispatched,
        "it is the newer one's"
    );
    newer.abort();
}
