//! A store that fails before anything is sent: then nothing is, and what was doubted is taken back.

use steadfast::core::attempt::Failure;
use steadfast::core::fingerprint::FingerprintSecret;
use steadfast::core::policy::OnStoreFailure;
use steadfast::store::StoreError;

use super::faults::{Act, Fault, unavailable};
use super::script::{Gate, Turn};
use super::*;

const DOUBTS: [Fault; 4] = [
    Fault::LosesReply,
    Fault::Hangs,
    Fault::HangsDone,
    Fault::LandsLater,
];

fn lands_later(fault: &Fault) -> bool {
    matches!(fault, Fault::LandsLater)
}

// rule: no-store-nothing-is-sent
#[tokio::test(start_paused = true)]
async fn without_a_store_a_keyed_request_is_refused_and_nothing_is_sent() {
    let world = World::new().await;
    world.store.down(true);
    let seen = world.send(charge(50)).await;
    seen.is_problem(503, "store-unavailable", "none", true);
    assert_eq!(seen.header("retry-after"), Some("1"));
    world.store.down(false);
    for error in [
        StoreError::Full("as asked".to_owned()),
        StoreError::ReadOnly("as asked".to_owned()),
        StoreError::Closed,
    ] {
        world.store.fault(Act::Insert, Fault::Fails(error));
        let seen = world.send(charge(50)).await;
        seen.is_problem(503, "store-unavailable", "none", true);
    }
    assert_eq!(world.script.effects(), 0);
    assert_eq!(world.send(charge(50)).await.status, 201);
}

// rule: on-store-failure-pass-sends-on-unprotected
#[tokio::test(start_paused = true)]
async fn under_pass_a_request_without_a_store_is_sent_on_unmarked() {
    let world = World::with(|rules| rules.on_store_failure = OnStoreFailure::Pass).await;
    world.store.down(true);
    let ask = charge(50).with("idempotency-fence", "7");
    let seen = world.send(ask).await;
    assert_eq!(seen.told(), (201, None, None));
    assert_eq!(seen.header("steadfast-attempts"), Some("1"));
    let reached = &world.script.ledger()[0];
    assert_eq!(reached.fence, None, "a caller's own fence never passes");
    assert_eq!(reached.headers["idempotency-key"], KEY);
    world.script.then(Turn::Fails(Failure::Connect));
    let seen = world.send(charge(50)).await;
    seen.is_problem(503, "upstream-unreachable", "none", true);
    world.script.then(Turn::Fails(Failure::Reset));
    let seen = world.send(charge(50)).await;
    seen.is_problem(504, "outcome-unknown", "unknown", false);
}

#[tokio::test(start_paused = true)]
async fn under_pass_a_caller_whose_deadline_ends_after_sending_is_told_unknown() {
    let world = World::with(|rules| rules.on_store_failure = OnStoreFailure::Pass).await;
    world.store.down(true);
    world.script.then(Turn::Never);
    let seen = world.send(charge(50).within(2 * SECOND)).await;
    seen.is_problem(504, "outcome-unknown", "unknown", false);
    assert_eq!(world.script.effects(), 1);
    pass(60 * SECOND).await;
    assert_eq!(world.server.drain(SECOND).await, 0, "the task has ended");
}

// rule: an-unreadable-record-never-executes
#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_refused_and_never_executes() {
    for way in [OnStoreFailure::Refuse, OnStoreFailure::Pass] {
        let world = World::with(|rules| rules.on_store_failure = way).await;
        let unreadable = StoreError::Unreadable("as asked".to_owned());
        world.store.fault(Act::Insert, Fault::Fails(unreadable));
        let seen = world.send(charge(50)).await;
        seen.is_problem(503, "store-unavailable", "none", true);
        assert_eq!(world.script.effects(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fingerprint_whose_secret_is_not_known_is_refused_and_never_executes() {
    for turn in [
        Turn::Answer(201),
        Turn::Answer(429),
        Turn::Fails(Failure::Reset),
    ] {
        let world = World::repeating().await;
        world.script.then(turn);
        world.send(charge(50)).await;
        let mut secrets = world.server.secrets().clone();
        secrets.fingerprints = vec![FingerprintSecret::new(99, &[7; 32])];
        world.store.give(secrets);
        let stranger = world.neighbour().await;
        for amount in [50, 60] {
            let seen = stranger.send(charge(amount)).await;
            seen.is_problem(503, "store-unavailable", "none", true);
        }
        assert_eq!(world.script.effects(), 1);
    }
}

// rule: a-lost-reservation-is-withdrawn
#[tokio::test(start_paused = true)]
async fn a_reservation_whose_reply_was_lost_is_withdrawn_and_the_next_executes() {
    for unconnected in [false, true] {
        for fault in DOUBTS {
            let world = World::new().await;
            if unconnected {
                world.script.unconnected();
            }
            world.store.fault(Act::Insert, fault.clone());
            let seen = world.send(charge(50)).await;
            seen.is_problem(503, "store-unavailable", "none", true);
            pass(5 * SECOND).await;
            if lands_later(&fault) {
                world.store.land().await;
                pass(2 * SECOND).await;
            }
            assert!(world.rows().await.is_empty(), "withdrawn");
            assert_eq!(world.script.effects(), 0);
            assert_eq!(
                world.send(charge(50)).await.told(),
                (201, Some("false"), None)
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_meets_a_withdrawn_reservation_takes_its_place_at_once() {
    let world = World::new().await;
    world.store.fault(Act::Insert, Fault::LandsLater);
    world.send(charge(50)).await;
    pass(20 * SECOND).await;
    world.store.land().await;
    let begun = clock::mono_now();
    // Another request even: the reservation does not count.
    assert_eq!(
        world.send(charge(60)).await.told(),
        (201, Some("false"), None)
    );
    assert_eq!(clock::mono_now(), begun);
}

// rule: a-lost-take-over-puts-back-what-stood-before
#[tokio::test(start_paused = true)]
async fn a_take_over_whose_reply_was_lost_puts_back_what_stood_before() {
    for unconnected in [false, true] {
        for fault in DOUBTS {
            for turn in [Turn::Answer(429), Turn::Fails(Failure::Reset)] {
                let world = World::repeating().await;
                world.script.then(turn);
                world.send(charge(50)).await;
                let before = world.row().await.standing;
                if unconnected {
                    world.script.unconnected();
                }
                world.store.fault(Act::TakeOver, fault.clone());
                let seen = world.send(charge(50)).await;
                seen.is_problem(503, "store-unavailable", "none", true);
                pass(5 * SECOND).await;
                if lands_later(&fault) {
                    world.store.land().await;
                    pass(2 * SECOND).await;
                }
                assert_eq!(world.row().await.standing, before);
                assert_eq!(world.script.effects(), 1);
                assert_eq!(world.send(charge(50)).await.bytes(), b"{\"effect\":2}");
            }
        }
    }
}

// rule: a-lost-dispatch-mark-is-withdrawn
#[tokio::test(start_paused = true)]
async fn a_dispatch_mark_whose_reply_was_lost_sends_nothing_and_is_withdrawn() {
    for fault in DOUBTS {
        let world = World::new().await;
        world.script.unconnected();
        world.store.fault(Act::Mark, fault.clone());
        let seen = world.send(charge(50)).await;
        seen.is_problem(503, "store-unavailable", "none", true);
        pass(5 * SECOND).await;
        assert!(world.rows().await.is_empty(), "withdrawn");
        if lands_later(&fault) {
            world.store.land().await;
            assert!(world.rows().await.is_empty(), "its guard is gone");
        }
        assert_eq!(world.script.effects(), 0);
        assert_eq!(world.send(charge(50)).await.status, 201);
    }
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_outlasts_a_store_that_is_away_for_longer_than_the_leases() {
    let world = World::new().await;
    world.store.fault(Act::Insert, Fault::LosesReply);
    let first = world.spawn(charge(50));
    idle().await;
    world.store.down(true);
    end(first)
        .await
        .is_problem(503, "store-unavailable", "none", true);
    pass(3600 * SECOND).await;
    world.store.down(false);
    pass(2 * SECOND).await;
    assert!(world.rows().await.is_empty(), "put back, not left unknown");
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_gets_no_answer_does_not_hold_up_the_others() {
    let world = World::new().await;
    for key in [KEY, OTHER_KEY] {
        world.store.fault(Act::Insert, Fault::LosesReply);
        world.store.fault(Act::Get, Fault::Fails(unavailable()));
        world.send(charge(50).under(key)).await;
    }
    for _ in 0..3 {
        world.store.fault(Act::Get, Fault::Hangs);
    }
    pass(30 * SECOND).await;
    assert!(world.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_does_not_keep_the_others_from_being_withdrawn() {
    let world = World::new().await;
    let users = [
        "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o",
    ];
    for who in users {
        world.store.fault(Act::Insert, Fault::LosesReply);
        // Nobody looks until all are there.
        world.store.fault(Act::Get, Fault::Fails(unavailable()));
        world.send(charge(50).of(who)).await;
    }
    let rows = world.rows().await;
    let (left, spoilt) = rows.split_last().unwrap();
    for row in spoilt {
        world.store.spoil(row.scope);
    }
    pass(30 * SECOND).await;
    let rows = world.rows().await;
    assert!(rows.iter().all(|row| row.id != left.id), "withdrawn");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_bounds_every_request_and_every_task() {
    for act in [Act::Now, Act::Insert] {
        let world = World::new().await;
        world.store.fault(act, Fault::Hangs);
        let begun = clock::mono_now();
        let seen = world.send(charge(50)).await;
        seen.is_problem(503, "store-unavailable", "none", true);
        assert_eq!(clock::mono_now().since(begun).as_secs(), 2, "store_timeout");
    }
    let world = World::new().await;
    let gate = Gate::shut();
    world.script.connecting(script::Before::Waits(gate.clone()));
    let seen = world.spawn(charge(50).within(5 * SECOND));
    world.script.prepared(1).await;
    for _ in 0..3 {
        world.store.fault(Act::Get, Fault::Hangs);
        world.store.fault(Act::Now, Fault::Hangs);
        world.store.fault(Act::Remove, Fault::Hangs);
    }
    assert_eq!(end(seen).await.problem().1, "deadline-exceeded");
    pass(60 * SECOND).await;
    assert!(world.rows().await.is_empty(), "given back in the end");
    assert_eq!(world.server.drain(SECOND).await, 0, "the task has ended");
}
