//! A store that fails to take a result: the caller has it, and it is written later.

use steadfast::core::attempt::Failure;
use steadfast::store::StoreError;

use super::faults::{Act, Fault, unavailable};
use super::script::Turn;
use super::*;

// rule: a-result-that-the-store-did-not-take-is-written-later
#[tokio::test(start_paused = true)]
async fn a_result_that_the_store_fails_to_take_reaches_the_caller_and_is_written_later() {
    for fault in [
        Fault::Fails(unavailable()),
        Fault::Fails(StoreError::Full("as asked".to_owned())),
        Fault::LosesReply,
        Fault::Hangs,
        Fault::HangsDone,
    ] {
        let world = World::new().await;
        // Twice: the first of the later tries fails alike.
        world.store.fault(Act::Settle, fault.clone());
        world.store.fault(Act::Settle, fault);
        let seen = world.send(charge(50)).await;
        assert_eq!(seen.told(), (201, Some("false"), None));
        let row = world.until(State::Completed).await;
        assert_eq!(Some(row.standing.fence), world.script.ledger()[0].fence);
        assert_eq!(
            world.send(charge(50)).await.told(),
            (201, Some("true"), None)
        );
        assert_eq!(world.script.effects(), 1);
    }
}

// rule: a-store-that-takes-no-writes-hides-no-finished-answer
#[tokio::test(start_paused = true)]
async fn a_store_that_takes_no_writes_gives_finished_answers_and_refuses_new_work() {
    let world = World::new().await;
    world.send(charge(50)).await;
    let full = || Fault::Fails(StoreError::Full("as asked".to_owned()));
    world.store.fault(Act::Insert, full());
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    world.store.fault(Act::Insert, full());
    let refused = world.send(charge(50).under(OTHER_KEY)).await;
    refused.is_problem(503, "store-unavailable", "none", true);
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn under_pass_a_row_that_cannot_be_dealt_with_is_not_passed_by() {
    let world = World::with(|rules| {
        rules.on_store_failure = steadfast::core::policy::OnStoreFailure::Pass;
    })
    .await;
    world.send(charge(50)).await;
    world.store.fault(
        Act::Insert,
        Fault::Fails(StoreError::Full("as asked".to_owned())),
    );
    world.store.fault(Act::Get, Fault::Fails(unavailable()));
    let refused = world.send(charge(50)).await;
    refused.is_problem(503, "store-unavailable", "none", true);
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_is_written_even_after_the_lease_has_ended() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    world.store.down(true);
    gate.open();
    assert_eq!(end(first).await.status, 201);
    pass(90 * SECOND).await;
    // Its row is unknown to everybody else meanwhile.
    world.store.down(false);
    let fence = world.row().await.standing.fence;
    let row = world.until(State::Completed).await;
    assert_eq!(row.standing.fence, fence);
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_holder_is_not_told_that_nothing_was_sent_when_the_store_fails_then() {
    let mut world = World::repeating().await;
    world.policy.deadline = 3600 * SECOND;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    for _ in 0..200 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(31 * SECOND).await;
    let newer_gate = world.script.gated(Turn::Answer(201));
    let newer = world.spawn(charge(50));
    world.script.reached(2).await;
    gate.open();
    idle().await;
    // The first waits for the newer one; then the store fails it.
    world.store.down(true);
    newer_gate.open();
    pass(60 * SECOND).await;
    let seen = end(first).await;
    assert_eq!(seen.told(), (201, Some("false"), None));
    assert_eq!(end(newer).await.status, 201);
    world.store.down(false);
    world.until(State::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn a_success_that_waits_to_be_written_still_completes_what_a_newer_one_leaves_unknown() {
    let mut world = World::repeating().await;
    world.policy.deadline = 3600 * SECOND;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    for _ in 0..200 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(31 * SECOND).await;
    let newer_gate = world.script.gated(Turn::Fails(Failure::Reset));
    let newer = world.spawn(charge(50));
    world.script.reached(2).await;
    world.store.fault(Act::Settle, Fault::Fails(unavailable()));
    gate.open();
    assert_eq!(end(first).await.told(), (201, Some("false"), None));
    pass(5 * SECOND).await;
    assert_eq!(world.state().await, State::Dispatched, "the newer one's");
    newer_gate.open();
    end(newer).await;
    world.until(State::Completed).await;
    assert_eq!(world.send(charge(50)).await.bytes(), b"{\"effect\":1}");
}
