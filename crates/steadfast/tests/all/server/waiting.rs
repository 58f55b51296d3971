//! A duplicate of what is at work: it waits, is refused, or is sent to the status address.

use steadfast::core::attempt::Failure;
use steadfast::core::policy::InFlight;

use super::script::Turn;
use super::*;

async fn at_work(world: &World) -> (script::Gate, JoinHandle<Seen>) {
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(world.script.effects().max(1)).await;
    (gate, first)
}

#[track_caller]
fn is_in_progress(seen: &Seen, id: &str) {
    seen.is_problem(409, "in-progress", "unknown", true);
    let address = format!("/.steadfast/operations/{id}");
    assert_eq!(seen.header("location"), Some(address.as_str()));
    assert_eq!(seen.header("retry-after"), Some("1"));
    assert_eq!(seen.json()["operation_id"], id);
}

// rule: in-flight-conflict-is-refused-at-once
#[tokio::test(start_paused = true)]
async fn under_conflict_a_duplicate_is_refused_at_once() {
    let world = World::with(|rules| rules.in_flight = InFlight::Conflict).await;
    let (gate, first) = at_work(&world).await;
    let id = world.row().await.id.to_string();
    is_in_progress(&world.send(charge(50)).await, &id);
    gate.open();
    end(first).await;
    assert_eq!(
        world.send(charge(50)).await.header("idempotent-replayed"),
        Some("true")
    );
}

// rule: in-flight-accept-is-sent-to-the-status-address
#[tokio::test(start_paused = true)]
async fn under_accept_a_duplicate_is_sent_to_the_status_address() {
    let world = World::with(|rules| rules.in_flight = InFlight::Accept).await;
    let (gate, first) = at_work(&world).await;
    let seen = world.send(charge(50)).await;
    assert_eq!(seen.told(), (202, None, Some("unknown")));
    let id = world.row().await.id.to_string();
    let address = format!("/.steadfast/operations/{id}");
    assert_eq!(seen.header("location"), Some(address.as_str()));
    assert_eq!(seen.header("retry-after"), Some("1"));
    let body = seen.json();
    assert_eq!(body["operation_id"], id);
    assert_eq!(body["state"], "dispatched");
    assert_eq!(body["effect"], "unknown");
    gate.open();
    end(first).await;
}

// rule: a-wait-is-bounded
#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_the_wait_limit_or_the_caller_s_deadline() {
    let world = World::new().await;
    let (gate, first) = at_work(&world).await;
    let id = world.row().await.id.to_string();
    let begun = clock::mono_now();
    is_in_progress(&world.send(charge(50).within(3 * SECOND)).await, &id);
    assert_eq!(clock::mono_now().since(begun).as_secs(), 3);
    is_in_progress(&world.send(charge(50)).await, &id);
    assert_eq!(
        clock::mono_now().since(begun).as_secs(),
        13,
        "wait_limit is 10 s"
    );
    gate.open();
    end(first).await;
}

// rule: waiters-are-bounded
#[tokio::test(start_paused = true)]
async fn waiters_are_bounded_for_each_key_and_in_all() {
    let limits = Limits {
        waiters: 3,
        ..Limits::default()
    };
    let mut world = World::with_limits(limits).await;
    world.policy.idempotency.waiters_per_key = 2;
    let (gate, first) = at_work(&world).await;
    let other_gate = world.script.gated(Turn::Answer(201));
    let other = world.spawn(charge(50).under(OTHER_KEY));
    world.script.reached(2).await;
    let waiters: Vec<_> = (0..2).map(|_| world.spawn(charge(50))).collect();
    idle().await;
    assert_eq!(world.send(charge(50)).await.problem().1, "in-progress");
    let third = world.spawn(charge(50).under(OTHER_KEY));
    idle().await;
    let fourth = world.send(charge(50).under(OTHER_KEY)).await;
    assert_eq!(fourth.problem().1, "in-progress", "three wait in all");
    // One that leaves makes room.
    third.abort();
    idle().await;
    let fifth = world.spawn(charge(50).under(OTHER_KEY));
    idle().await;
    gate.open();
    other_gate.open();
    for ask in waiters.into_iter().chain([first, other, fifth]) {
        assert_eq!(end(ask).await.status, 201);
    }
    assert_eq!(world.script.effects(), 2);
}

/// `Preference-Applied`, over all lines.
fn applied(seen: &Seen) -> Vec<&str> {
    let lines = seen.headers.get_all("preference-applied").iter();
    lines.map(|line| line.to_str().unwrap()).collect()
}

// rule: a-duplicate-gets-what-its-caller-prefers
#[tokio::test(start_paused = true)]
async fn a_duplicate_is_given_what_its_caller_prefers_whatever_the_route_says() {
    use InFlight::{Accept, Conflict, Wait};
    for in_flight in [Wait, Conflict, Accept] {
        let world = World::with(|rules| rules.in_flight = in_flight).await;
        let (gate, first) = at_work(&world).await;
        let id = world.row().await.id.to_string();
        // What is preferred, the seconds it takes, the status, what was applied.
        let table = [
            ("wait=3", 3, 409, "wait=3"),
            ("wait=0", 0, 409, "wait=0"),
            ("wait=60", 10, 409, "wait=10"),
            ("respond-async", 0, 202, "respond-async"),
            ("wait=3, respond-async", 3, 202, "respond-async, wait=3"),
        ];
        for (prefer, seconds, status, said) in table {
            let begun = clock::mono_now();
            let seen = world.send(charge(50).with("prefer", prefer)).await;
            let took = clock::mono_now().since(begun).as_secs();
            assert_eq!((seen.status.as_u16(), took), (status, seconds), "{prefer}");
            assert_eq!(applied(&seen), [said], "{in_flight:?}");
            let address = format!("/.steadfast/operations/{id}");
            assert_eq!(seen.header("location"), Some(address.as_str()));
        }
        let late = charge(50).with("prefer", "wait=9, respond-async");
        let begun = clock::mono_now();
        let late = world.send(late.within(2 * SECOND)).await;
        let took = clock::mono_now().since(begun).as_secs();
        assert_eq!((late.status.as_u16(), took), (202, 2), "its own deadline");
        gate.open();
        assert_eq!(applied(&end(first).await), [""; 0]);
        assert_eq!(world.script.effects(), 1);
    }
}

// rule: preference-applied-says-what-was-applied
#[tokio::test(start_paused = true)]
async fn an_answer_says_that_a_preference_was_applied_only_where_it_was() {
    let world = World::with(|rules| rules.in_flight = InFlight::Conflict).await;
    let both = || charge(50).with("prefer", "respond-async, wait=5");
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(both());
    world.script.reached(1).await;
    let waiter = world.spawn(both());
    idle().await;
    gate.open();
    // Nothing was in flight when the first one came, and it had nothing to wait for.
    assert_eq!(applied(&end(first).await), [""; 0]);
    let joined = end(waiter).await;
    assert_eq!(joined.told(), (201, Some("true"), None));
    assert_eq!(
        applied(&joined),
        ["wait=5"],
        "it waited, and got the answer itself"
    );
    let replayed = world.send(both()).await;
    assert_eq!(replayed.told(), (201, Some("true"), None));
    assert_eq!(applied(&replayed), [""; 0], "it was finished already");
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_of_waiters_nobody_waits_whatever_is_preferred() {
    let world = World::with(|rules| rules.waiters_per_key = 1).await;
    let (gate, first) = at_work(&world).await;
    let waiter = world.spawn(charge(50));
    idle().await;
    let refused = world.send(charge(50).with("prefer", "wait=5")).await;
    assert_eq!(refused.problem().1, "in-progress");
    assert_eq!(applied(&refused), [""; 0], "it did not wait");
    let accepted = world.send(charge(50).with("prefer", "respond-async")).await;
    assert_eq!(accepted.status, 202, "which takes no place");
    gate.open();
    for ask in [first, waiter] {
        assert_eq!(end(ask).await.status, 201);
    }
}

#[tokio::test(start_paused = true)]
async fn under_hold_waiters_for_what_ends_unknown_are_told_so() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Fails(Failure::Reset));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let waiters: Vec<_> = (0..3).map(|_| world.spawn(charge(50))).collect();
    idle().await;
    gate.open();
    end(first).await;
    for waiter in waiters {
        end(waiter)
            .await
            .is_problem(409, "outcome-unknown", "unknown", false);
    }
    assert_eq!(world.script.effects(), 1);
}

// rule: under-repeat-exactly-one-takes-over
#[tokio::test(start_paused = true)]
async fn under_repeat_exactly_one_waiter_takes_over_what_ends_unknown() {
    let world = World::repeating().await;
    let gate = world.script.gated(Turn::Fails(Failure::Reset));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let waiters: Vec<_> = (0..10).map(|_| world.spawn(charge(50))).collect();
    idle().await;
    let second = world.script.gated(Turn::Answer(201));
    gate.open();
    end(first)
        .await
        .is_problem(504, "outcome-unknown", "unknown", true);
    world.script.reached(2).await;
    idle().await;
    second.open();
    let mut executing = 0;
    for waiter in waiters {
        let seen = end(waiter).await;
        assert_eq!(seen.bytes(), b"{\"effect\":2}");
        executing += usize::from(seen.header("idempotent-replayed") == Some("false"));
    }
    assert_eq!((executing, world.script.effects()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_first_500_are_given_it_and_do_not_repeat_it() {
    let world = World::repeating().await;
    let gate = world.script.gated(Turn::Answer(500));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let waiter = world.spawn(charge(50));
    idle().await;
    gate.open();
    end(first).await;
    assert_eq!(
        end(waiter).await.told(),
        (500, Some("true"), Some("unknown"))
    );
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_holder_vanished_meets_the_end_of_its_lease() {
    let world = World::new().await;
    world.script.then(Turn::Never);
    // The holder's process is gone: its renewals are never done.
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    for _ in 0..1000 {
        world.store.fault(
            faults::Act::Renew,
            faults::Fault::Fails(faults::unavailable()),
        );
    }
    let mut patient = world.neighbour().await;
    patient.policy.idempotency.wait_limit = 60 * SECOND;
    let seen = patient.send(charge(50).within(60 * SECOND)).await;
    seen.is_problem(409, "outcome-unknown", "unknown", false);
    assert_eq!(world.state().await, State::Unknown);
    assert_eq!(world.script.effects(), 1);
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_even_if_the_store_says_nothing_any_more() {
    let world = World::new().await;
    let (gate, first) = at_work(&world).await;
    let waiter = world.spawn(charge(50));
    idle().await;
    // The look that the waiter takes next is never answered.
    world.store.fault(faults::Act::Now, faults::Fault::Hangs);
    pass(9 * SECOND).await;
    world.store.fault(faults::Act::Now, faults::Fault::Hangs);
    world.store.fault(faults::Act::Get, faults::Fault::Hangs);
    assert_eq!(end(waiter).await.problem().1, "in-progress");
    gate.open();
    end(first).await;
}
