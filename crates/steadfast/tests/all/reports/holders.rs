//! Reports about who holds a key, for how long, and what may be written then.

use std::time::Duration;

use steadfast::core::attempt::Failure;
use steadfast::core::policy::OnUnknown;
use steadfast::core::record::State;
use steadfast::server::sweep;

use crate::server::faults::{Act, Fault, unavailable};
use crate::server::script::{Before, Gate, Turn};
use crate::server::{SECOND, World, charge, end, idle, pass};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A world whose route lets work take an hour.
async fn patient() -> World {
    let mut world = World::new().await;
    world.policy.deadline = 3600 * SECOND;
    world
}

/// From now on no hold is renewed.
fn unrenewed(world: &World) {
    for _ in 0..200 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
}

// margince/margince#423: a sweep removed the row between the insert that met it and the second
// look, and the caller heard "in progress" for ever. mahendraHegde/node-idempotency: a record that
// was gone at the second look let the handler run without one.
#[tokio::test(start_paused = true)]
async fn a_row_that_goes_between_two_looks_leaves_the_key_to_exactly_one() {
    for winner_is_another_request in [false, true] {
        let world = World::new().await;
        world.send(charge(50)).await;
        pass(DAY).await;
        // It met the expired row, and is about to take its place.
        world.store.fault(Act::TakeOver, Fault::Slow(SECOND));
        let slow = world.spawn(charge(50));
        idle().await;
        assert!(world.store.is_spent());
        assert_eq!(sweep(&world.server).await.unwrap().expired, 1);
        assert!(world.rows().await.is_empty());
        if winner_is_another_request {
            let other = world.send(charge(60)).await;
            assert_eq!(other.told(), (201, Some("false"), None));
            end(slow).await.is_problem(422, "key-reused", "none", false);
        } else {
            let other = world.send(charge(50)).await;
            assert_eq!(other.told(), (201, Some("false"), None));
            let slow = end(slow).await;
            assert_eq!(slow.told(), (201, Some("true"), None));
            assert_eq!(slow.bytes(), other.bytes());
        }
        assert_eq!(world.script.effects(), 2, "one in each life of the key");
    }
}

// aws-powertools/powertools-lambda-typescript#5714: whoever had read the row while it was running
// took it for an orphan, and wrote over what had been completed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_recovery_that_was_decided_on_an_older_row_does_not_overwrite_what_completed_since() {
    let world = patient().await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    unrenewed(&world);
    pass(31 * SECOND).await;
    // The sweep has read the row, and its write is on the way.
    world.store.fault(Act::Settle, Fault::Slow(SECOND));
    let server = world.server.clone();
    let sweeping = tokio::spawn(async move { sweep(&server).await.unwrap() });
    idle().await;
    gate.open();
    assert_eq!(end(first).await.told(), (201, Some("false"), None));
    assert_eq!(world.state().await, State::Completed);
    assert_eq!(end(sweeping).await.recovered, 0);
    assert_eq!(world.state().await, State::Completed);
    let later = world.send(charge(50)).await;
    assert_eq!(later.told(), (201, Some("true"), None));
    assert_eq!(world.script.effects(), 1);
}

// KanishJebaMathewM/Truxify#4623: the first request outlived its lock, and on its way out deleted
// the lock of the second.
// KanishJebaMathewM/Truxify#5846: a lock shorter than the work let a duplicate in.
#[tokio::test(start_paused = true)]
async fn a_holder_that_lost_its_reservation_takes_nothing_from_the_next_one() {
    let world = patient().await;
    let connected = Gate::shut();
    world.script.connecting(Before::Waits(connected.clone()));
    let first = world.spawn(charge(50));
    world.script.prepared(1).await;
    unrenewed(&world);
    pass(31 * SECOND).await;
    // Nothing was sent, so the next request may have the key.
    let gate = world.script.gated(Turn::Answer(201));
    let second = world.spawn(charge(50));
    world.script.reached(1).await;
    let held = world.row().await;
    assert_eq!(held.standing.state, State::Dispatched);
    connected.open();
    idle().await;
    let stands = world.row().await;
    assert_eq!(stands.standing.owner, held.standing.owner);
    assert_eq!(stands.standing.state, State::Dispatched);
    gate.open();
    assert_eq!(end(second).await.told(), (201, Some("false"), None));
    let first = end(first).await;
    assert!(first.header("idempotent-replayed") != Some("false"));
    assert_eq!(world.script.effects(), 1);
    let third = world.send(charge(50)).await;
    assert_eq!(third.told(), (201, Some("true"), None));
}

// johanhaleby/occurrent#659, mlflow/mlflow#25199: a lease written by one clock and judged by
// another let a second worker in while the first was at work.
// CrossPaste/crosspaste-desktop#4547, aponysus/redress#23: a deadline kept by the wall clock moved
// with it.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_over_a_live_hold_makes_no_second_effect_and_moves_no_deadline() {
    for way_out in [OnUnknown::Hold, OnUnknown::Repeat] {
        let mut world = World::with(|rules| rules.on_unknown = way_out).await;
        world.policy.idempotency.wait_limit = SECOND;
        let gate = world.script.gated(Turn::Answer(201));
        let first = world.spawn(charge(50));
        world.script.reached(1).await;
        // Forwards by less than a lease: it is not over for anybody.
        world.jump(15 * SECOND);
        let seen = world.neighbour().await.send(charge(50)).await;
        seen.is_problem(409, "in-progress", "unknown", true);
        assert_eq!(world.state().await, State::Dispatched);
        gate.open();
        assert_eq!(end(first).await.told(), (201, Some("false"), None));
        assert_eq!(world.script.effects(), 1);
    }
    // By more: the outcome is unknown to others, and the holder's answer is kept all the same.
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    world.jump(DAY);
    let seen = world.neighbour().await.send(charge(50)).await;
    assert_eq!(seen.status, 409);
    gate.open();
    assert_eq!(end(first).await.told(), (201, Some("false"), None));
    let later = world.send(charge(50)).await;
    assert_eq!(later.told(), (201, Some("true"), None));
    assert_eq!(world.script.effects(), 1);
}

// anthony-chaudhary/fak#8284, pathosDev/actor-ts#984: an error was taken for "nothing happened", so
// that the retry did it again.
// tulios/mappersmith#513, juspay/hyperswitch-prism#2257: a connection that ended was taken for one
// that had never been heard.
#[tokio::test(start_paused = true)]
async fn no_error_behind_the_dispatch_is_taken_for_nothing_happened() {
    let after = [
        Failure::Write,
        Failure::Reset,
        Failure::ReadTimeout,
        Failure::Truncated,
        Failure::Idle,
    ];
    for failure in after {
        let world = World::new().await;
        world.script.then(Turn::Fails(failure));
        for _ in 0..3 {
            let seen = world.send(charge(50)).await;
            assert_eq!(seen.problem().1, "outcome-unknown");
            assert_eq!(seen.header("steadfast-effect"), Some("unknown"));
            pass(DAY).await;
            sweep(&world.server).await.unwrap();
        }
        assert_eq!(world.script.effects(), 1, "{failure:?}");
    }
}

// MCPJam/inspector#4469: the stored hash of a body that could be guessed told what it had been.
#[tokio::test(start_paused = true)]
async fn what_is_stored_of_a_body_cannot_be_guessed_without_the_store_s_secret() {
    let (one, other) = (World::new().await, World::new().await);
    for world in [&one, &other] {
        world.send(charge(50)).await;
    }
    let (one, other) = (one.row().await, other.row().await);
    assert_ne!(one.standing.fingerprint, other.standing.fingerprint);
    assert_ne!(one.scope, other.scope);
    assert_ne!(one.tenant, other.tenant);
}

// langwatch/langwatch#6511, aws-powertools/powertools-lambda-python#8386: a record that was only
// old, or of which nobody knew how long it was held, was taken over while its holder was alive.
#[tokio::test(start_paused = true)]
async fn age_is_no_death_a_holder_that_renews_keeps_its_key_for_as_long_as_it_works() {
    let world = patient().await;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let neighbour = world.neighbour().await;
    for _ in 0..12 {
        pass(61 * SECOND).await;
        assert_eq!(sweep(&neighbour.server).await.unwrap().recovered, 0);
        let seen = neighbour.send(charge(50).within(SECOND)).await;
        seen.is_problem(409, "in-progress", "unknown", true);
    }
    gate.open();
    assert_eq!(end(first).await.told(), (201, Some("false"), None));
    assert_eq!(world.script.effects(), 1);
}

// n8n-io/n8n#32411, unjs/ofetch#626: once the head had come, nothing bounded the body, and each
// stuck run kept a worker for ever.
// sbstp/attohttpc#49: a body that ended in a time-out was given as if it were whole.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_ends_with_the_route_s_limit_and_is_never_taken_for_whole() {
    let world = World::new().await;
    let (frames, receiver) = tokio::sync::mpsc::channel(4);
    world.script.then(Turn::Stream(201, "text/plain", receiver));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    frames.send(Ok("{\"effect\":".into())).await.unwrap();
    // Its own deadline and the work's are one; which is told does not matter here.
    let seen = end(first).await;
    assert_eq!(seen.problem(), (504, "outcome-unknown".to_owned()));
    let row = world.until(State::Unknown).await;
    assert_eq!(row.standing.answer.status(), None);
    assert!(frames.is_closed(), "the work has let it go");
    drop(frames);
    let later = world.send(charge(50)).await;
    later.is_problem(409, "outcome-unknown", "unknown", false);
    assert_eq!(world.script.effects(), 1);
}
