//! Holders that come late, and those who stand there then.

use steadfast::core::attempt::Failure;
use steadfast::core::record::{Answer, StoredAnswer};
use steadfast::server::{operate, sweep};

use super::faults::{Act, Fault, unavailable};
use super::script::{Gate, Turn};
use super::*;

/// The first holder is at work and cannot renew; its row is swept to unknown.
async fn swept(world: &World, turn: Turn) -> (Gate, JoinHandle<Seen>) {
    let gate = world.script.gated(turn);
    let first = world.spawn(charge(50).within(3600 * SECOND));
    world.script.reached(1).await;
    let renewals = world.store.acts(Act::Renew);
    for _ in 0..200 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(31 * SECOND).await;
    assert!(world.store.acts(Act::Renew) > renewals, "it tried");
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 1);
    assert_eq!(world.state().await, State::Unknown);
    (gate, first)
}

async fn patient(mut world: World) -> World {
    world.policy.deadline = 3600 * SECOND;
    world
}

// rule: a-lease-is-renewed-while-the-work-goes-on
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_for_as_long_as_the_work_goes_on() {
    let world = patient(World::new().await).await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    for _ in 0..20 {
        pass(29 * SECOND).await;
        assert_eq!(sweep(&world.server).await.unwrap().recovered, 0);
    }
    gate.open();
    assert_eq!(end(first).await.status, 201);
    let renewals = world.store.acts(Act::Renew);
    pass(300 * SECOND).await;
    assert_eq!(
        world.store.acts(Act::Renew),
        renewals,
        "and no longer than that"
    );
}

// rule: a-late-holder-completes-while-nobody-newer-stands
#[tokio::test(start_paused = true)]
async fn a_late_holder_s_answer_is_kept_while_nobody_newer_stands() {
    let world = patient(World::new().await).await;
    let (gate, first) = swept(&world, Turn::Answer(201)).await;
    gate.open();
    assert_eq!(end(first).await.told(), (201, Some("false"), None));
    assert_eq!(
        world.send(charge(50)).await.told(),
        (201, Some("true"), None)
    );
    assert_eq!(world.script.effects(), 1);
}

// rule: a-late-holder-is-given-what-a-newer-one-completed
#[tokio::test(start_paused = true)]
async fn a_late_holder_does_not_overwrite_what_a_newer_one_completed_and_is_given_it() {
    let world = patient(World::repeating().await).await;
    let (gate, first) = swept(&world, Turn::Answer(201)).await;
    assert_eq!(world.send(charge(50)).await.bytes(), b"{\"effect\":2}");
    gate.open();
    let seen = end(first).await;
    assert_eq!(seen.told(), (201, Some("true"), None));
    assert_eq!(seen.bytes(), b"{\"effect\":2}");
    assert_eq!(world.send(charge(50)).await.bytes(), b"{\"effect\":2}");
}

#[tokio::test(start_paused = true)]
async fn a_late_holder_waits_for_a_newer_one_that_is_at_work() {
    let world = patient(World::repeating().await).await;
    let (gate, first) = swept(&world, Turn::Answer(201)).await;
    let newer_gate = world.script.gated(Turn::Answer(201));
    let newer = world.spawn(charge(50));
    world.script.reached(2).await;
    gate.open();
    idle().await;
    assert!(!first.is_finished(), "it waits as a duplicate would");
    newer_gate.open();
    assert_eq!(end(newer).await.bytes(), b"{\"effect\":2}");
    assert_eq!(end(first).await.bytes(), b"{\"effect\":2}");
}

// rule: a-late-success-completes-a-newer-unknown
#[tokio::test(start_paused = true)]
async fn a_late_success_completes_what_a_newer_holder_left_unknown() {
    for waits in [true, false] {
        let world = patient(World::repeating().await).await;
        let (gate, first) = swept(&world, Turn::Answer(201)).await;
        let newer_gate = world.script.gated(Turn::Fails(Failure::Reset));
        let newer = world.spawn(charge(50));
        world.script.reached(2).await;
        if waits {
            gate.open();
            idle().await;
            newer_gate.open();
        } else {
            newer_gate.open();
        }
        assert_eq!(end(newer).await.problem().1, "outcome-unknown");
        gate.open();
        let seen = end(first).await;
        assert_eq!(seen.told(), (201, Some("false"), None));
        assert_eq!(
            world.send(charge(50)).await.told(),
            (201, Some("true"), None)
        );
        assert_eq!(world.script.effects(), 2);
    }
}

// rule: an-operator-s-word-stands-against-a-late-holder
#[tokio::test(start_paused = true)]
async fn a_late_holder_does_not_overwrite_what_an_operator_settled() {
    let world = patient(World::new().await).await;
    let (gate, first) = swept(&world, Turn::Answer(201)).await;
    let answer = StoredAnswer {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"settled"),
    };
    let (store, seen) = (world.store.memory(), world.row().await);
    operate::resolve(store, &seen, answer, "ops").await.unwrap();
    gate.open();
    assert_eq!(end(first).await.bytes(), b"settled");
    let standing = world.row().await.standing;
    assert!(matches!(standing.answer, Answer::Stored(stored) if stored.body == "settled"));
}

#[tokio::test(start_paused = true)]
async fn an_operator_s_release_stands_against_a_late_holder_and_the_next_executes() {
    let world = patient(World::new().await).await;
    let (gate, first) = swept(&world, Turn::Answer(422)).await;
    let (store, seen) = (world.store.memory(), world.row().await);
    operate::release(store, &seen, "ops").await.unwrap();
    gate.open();
    end(first).await;
    assert_eq!(world.state().await, State::Released);
    assert_eq!(world.send(charge(50)).await.bytes(), b"{\"effect\":2}");
}

#[tokio::test(start_paused = true)]
async fn a_late_holder_is_not_told_that_nothing_was_sent_because_an_operator_released_it() {
    let world = patient(World::new().await).await;
    let (gate, first) = swept(&world, Turn::Answer(201)).await;
    let (store, seen) = (world.store.memory(), world.row().await);
    operate::release(store, &seen, "ops").await.unwrap();
    gate.open();
    assert_eq!(end(first).await.told(), (201, Some("false"), None));
    assert_eq!(world.state().await, State::Released, "the operator's word");
}

// rule: an-overtaken-reservation-is-met-as-a-stranger
#[tokio::test(start_paused = true)]
async fn a_holder_whose_place_another_request_took_is_not_given_that_one_s_answer() {
    let world = patient(World::new().await).await;
    let connected = Gate::shut();
    world
        .script
        .connecting(script::Before::Waits(connected.clone()));
    let first = world.spawn(charge(50).within(3600 * SECOND));
    world.script.prepared(1).await;
    for _ in 0..200 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(31 * SECOND).await;
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 1);
    assert_eq!(world.send(charge(60)).await.status, 201);
    connected.open();
    end(first)
        .await
        .is_problem(422, "key-reused", "none", false);
    assert_eq!(world.script.effects(), 1);
}

// rule: an-uncertain-holder-sends-nothing
#[tokio::test(start_paused = true)]
async fn a_holder_that_could_not_renew_for_two_thirds_of_its_lease_sends_nothing() {
    let world = patient(World::new().await).await;
    let connected = Gate::shut();
    world
        .script
        .connecting(script::Before::Waits(connected.clone()));
    let first = world.spawn(charge(50));
    world.script.prepared(1).await;
    // The mark renews; so it is what takes long.
    world.store.fault(Act::Mark, Fault::Fails(unavailable()));
    for _ in 0..20 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(25 * SECOND).await;
    connected.open();
    end(first)
        .await
        .is_problem(503, "store-unavailable", "none", true);
    pass(SECOND).await;
    assert_eq!(world.script.effects(), 0);
    assert!(world.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_whose_write_took_two_thirds_of_its_lease_sends_nothing() {
    for (act, unconnected) in [(Act::Insert, false), (Act::Mark, true)] {
        let world = World::with(|rules| rules.lease = 2 * SECOND).await;
        if unconnected {
            world.script.unconnected();
        }
        let slow = Fault::Slow(Duration::from_millis(1500));
        world.store.fault(act, slow);
        let seen = world.send(charge(50)).await;
        seen.is_problem(503, "store-unavailable", "none", true);
        assert_eq!(world.script.effects(), 0);
        assert!(world.rows().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_was_lost_before_its_mark_sends_nothing() {
    let world = patient(World::new().await).await;
    let connected = Gate::shut();
    world
        .script
        .connecting(script::Before::Waits(connected.clone()));
    let first = world.spawn(charge(50));
    world.script.prepared(1).await;
    for _ in 0..200 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(31 * SECOND).await;
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 1);
    assert!(world.rows().await.is_empty(), "nothing stood before");
    connected.open();
    let seen = end(first).await;
    seen.is_problem(503, "store-unavailable", "none", true);
    assert_eq!(world.script.effects(), 0);
    assert!(world.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_never_answered_keeps_nobody_from_the_answer() {
    for fault in [Fault::Hangs, Fault::HangsDone, Fault::LosesReply] {
        let world = patient(World::new().await).await;
        let gate = world.script.gated(Turn::Answer(201));
        let first = world.spawn(charge(50));
        world.script.reached(1).await;
        world.store.fault(Act::Renew, fault);
        pass(11 * SECOND).await;
        assert!(world.store.is_spent());
        gate.open();
        let seen = end(first).await;
        assert_eq!(seen.told(), (201, Some("false"), None));
        world.until(State::Completed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_over_a_renewal_whose_reply_was_lost_still_comes_to_stand() {
    let world = patient(World::new().await).await;
    let connected = Gate::shut();
    world
        .script
        .connecting(script::Before::Waits(connected.clone()));
    let first = world.spawn(charge(50));
    world.script.prepared(1).await;
    world.store.fault(Act::Renew, Fault::HangsDone);
    pass(11 * SECOND).await;
    assert!(world.store.is_spent());
    connected.open();
    assert_eq!(end(first).await.status, 201);
    assert_eq!(world.state().await, State::Completed);
}
