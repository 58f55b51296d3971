//! The caller's deadline decides whether to start and bounds its answer; the work goes on.

use super::script::{Before, Turn};
use super::*;

// rule: work-outlives-its-caller-s-deadline
#[tokio::test(start_paused = true)]
async fn a_first_caller_whose_deadline_ends_is_told_unknown_and_the_work_goes_on() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.send(charge(50).within(2 * SECOND)).await;
    first.is_problem(504, "outcome-unknown", "unknown", true);
    let id = world.row().await.id.to_string();
    assert_eq!(first.json()["operation_id"], id);
    assert_eq!(first.header("retry-after"), Some("1"));
    assert_eq!(world.state().await, State::Dispatched);
    gate.open();
    world.until(State::Completed).await;
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    assert_eq!(world.script.effects(), 1);
}

// rule: a-deadline-before-dispatch-leaves-nothing
#[tokio::test(start_paused = true)]
async fn a_deadline_that_ends_before_dispatch_leaves_no_record_and_no_effect() {
    let world = World::new().await;
    world.script.connecting(Before::Never);
    let seen = world.send(charge(50).within(2 * SECOND)).await;
    seen.is_problem(504, "deadline-exceeded", "none", true);
    pass(SECOND).await;
    assert!(world.rows().await.is_empty());
    assert_eq!(world.script.effects(), 0);
    assert_eq!(world.send(charge(50)).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_comes_after_the_deadline_is_not_used() {
    let world = World::new().await;
    let gate = script::Gate::shut();
    world.script.connecting(Before::Waits(gate.clone()));
    let seen = world.send(charge(50).within(2 * SECOND)).await;
    seen.is_problem(504, "deadline-exceeded", "none", true);
    gate.open();
    pass(SECOND).await;
    assert!(world.rows().await.is_empty());
    assert_eq!(world.script.effects(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_spent_already_reserves_nothing() {
    let world = World::new().await;
    let seen = world.send(charge(50).within(Duration::ZERO)).await;
    seen.is_problem(504, "deadline-exceeded", "none", true);
    idle().await;
    assert_eq!(world.store.acts(faults::Act::Insert), 0);
    assert_eq!(world.script.effects(), 0);
}

#[tokio::test(start_paused = true)]
async fn dispatched_work_is_bounded_by_the_route_s_deadline() {
    let world = World::new().await;
    world.script.then(Turn::Never);
    let seen = world.send(charge(50).within(10 * SECOND)).await;
    assert_eq!(seen.problem(), (504, "outcome-unknown".to_owned()));
    let row = world.until(State::Unknown).await;
    assert_eq!(row.standing.answer.status(), None);
    assert!(row.standing.reason.starts_with("read-timeout"));
    assert_eq!(world.server.drain(SECOND).await, 0, "the task has ended");
}

#[tokio::test(start_paused = true)]
async fn a_first_caller_s_deadline_ends_over_an_earlier_unknown_and_puts_it_back() {
    let world = World::repeating().await;
    world
        .script
        .then(Turn::Fails(steadfast::core::attempt::Failure::Reset));
    world.send(charge(50)).await;
    let before = world.row().await.standing;
    world.script.connecting(Before::Never);
    let seen = world.send(charge(50).within(2 * SECOND)).await;
    seen.is_problem(504, "deadline-exceeded", "none", true);
    pass(SECOND).await;
    assert_eq!(world.row().await.standing, before);
}
