//! Keyed work that goes again: each attempt with a fence of its own, and what is left of it when it
//! ends, is refused, or its store fails between two steps.

use steadfast::client::SharedUpstream;
use steadfast::core::attempt::Failure;
use steadfast::core::breaker::BreakerPolicy;
use steadfast::core::budget::BudgetPolicy;
use steadfast::core::effect::Effect;

use super::faults::{Act, Fault, unavailable};
use super::script::{Before, Turn};
use super::*;

/// Under `on_unknown = "repeat"`, before an upstream that may be sent to more than once.
async fn repeating() -> World {
    let mut world = World::repeating().await;
    world.script.repeating();
    world
}

/// The same under `hold`.
async fn holding() -> World {
    let mut world = World::new().await;
    world.script.repeating();
    world
}

fn fences(world: &World) -> Vec<u64> {
    let ledger = world.script.ledger();
    let fences = ledger.iter().map(|reached| reached.fence.expect("a fence"));
    fences.collect()
}

// rule: keyed-work-goes-again-under-repeat
#[tokio::test(start_paused = true)]
async fn under_repeat_an_unknown_end_goes_again_with_a_new_fence_and_the_same_bytes() {
    for first in [
        Turn::Fails(Failure::Reset),
        Turn::Fails(Failure::ReadTimeout),
        Turn::Fails(Failure::Truncated),
        Turn::Answer(500),
        Turn::Answer(502),
        Turn::Answer(504),
        Turn::Answer(503),
        Turn::Answer(429),
    ] {
        let world = repeating().await;
        world.script.then(first).then(Turn::Answer(201));
        let answer = world.send(charge(50)).await;
        assert_eq!(answer.status, 201);
        assert_eq!(answer.header("steadfast-attempts"), Some("2"));
        assert_eq!(answer.header("idempotent-replayed"), Some("false"));
        let ledger = world.script.ledger();
        assert_eq!(ledger.len(), 2);
        assert_eq!(ledger[0].body, ledger[1].body);
        let key = |at: usize| ledger[at].headers.get("idempotency-key").cloned();
        assert_eq!(key(0), key(1));
        let fences = fences(&world);
        assert!(fences[0] < fences[1], "{fences:?}");
        let row = world.row().await;
        let standing = &row.standing;
        assert_eq!(
            (standing.state, standing.effect),
            (State::Completed, Effect::Applied)
        );
        assert_eq!((standing.attempts, standing.fence), (2, fences[1]));
        let again = world.send(charge(50)).await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(world.script.effects(), 2);
    }
}

// rule: keyed-work-does-not-go-again-under-hold
#[tokio::test(start_paused = true)]
async fn under_hold_what_may_have_been_executed_never_goes_again() {
    for (first, status) in [
        (Turn::Fails(Failure::Reset), 504),
        (Turn::Fails(Failure::Truncated), 504),
        (Turn::Answer(500), 500),
        (Turn::Answer(504), 504),
        (Turn::Answer(503), 503),
        (Turn::Answer(429), 429),
    ] {
        let world = holding().await;
        world.script.then(first);
        let answer = world.send(charge(50)).await;
        assert_eq!(answer.status, status);
        assert_eq!(world.script.effects(), 1, "{status}");
    }
}

// rule: never-sent-goes-again-with-any-key
#[tokio::test(start_paused = true)]
async fn what_was_never_sent_goes_again_whatever_the_way_out() {
    for world in [holding().await, repeating().await] {
        world.script.connecting(Before::Fails(Failure::Connect));
        world
            .script
            .connecting(Before::Fails(Failure::TlsHandshake));
        let answer = world.send(charge(50)).await;
        assert_eq!(answer.status, 201);
        assert_eq!(answer.header("steadfast-attempts"), Some("1"));
        assert_eq!(world.script.effects(), 1);
        assert_eq!(world.row().await.standing.attempts, 1);

        let other = charge(50).under(OTHER_KEY);
        world.script.then(Turn::Fails(Failure::NotWritten));
        world.script.then(Turn::Answer(201));
        let answer = world.send(other).await;
        assert_eq!(answer.status, 201);
        let fences = fences(&world);
        assert!(fences[1] < fences[2], "{fences:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_in_any_attempt_leaves_no_record_and_the_key_free() {
    let world = holding().await;
    for _ in 0..3 {
        world.script.connecting(Before::Fails(Failure::Connect));
    }
    let answer = world.send(charge(50)).await;
    answer.is_problem(503, "upstream-unreachable", "none", true);
    assert_eq!(answer.header("steadfast-attempts"), None);
    assert_eq!(world.script.effects(), 0);
    assert_eq!(world.send(charge(50)).await.status, 201);

    // A refused identity is not asked again.
    let world = holding().await;
    world.script.connecting(Before::Fails(Failure::TlsIdentity));
    let answer = world.send(charge(50)).await;
    answer.is_problem(503, "upstream-unreachable", "none", true);
}

// rule: worst-effect-of-keyed-attempts
#[tokio::test(start_paused = true)]
async fn after_an_unknown_end_only_what_settles_it_is_stored_as_final() {
    for (second, state, effect) in [
        (201, State::Completed, Effect::Applied),
        (422, State::Completed, Effect::None),
        (409, State::Unknown, Effect::Unknown),
        (401, State::Unknown, Effect::Unknown),
    ] {
        let world = repeating().await;
        world.script.then(Turn::Fails(Failure::Reset));
        world.script.then(Turn::Answer(second));
        let answer = world.send(charge(50)).await;
        assert_eq!(answer.status, second);
        let row = world.row().await;
        assert_eq!(
            (row.standing.state, row.standing.effect),
            (state, effect),
            "{second}"
        );
        let says = (state == State::Unknown).then_some("unknown");
        assert_eq!(answer.header("steadfast-effect"), says, "{second}");
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_that_are_used_up_leave_what_they_left() {
    let world = repeating().await;
    for _ in 0..3 {
        world.script.then(Turn::Fails(Failure::Reset));
    }
    let answer = world.send(charge(50)).await;
    answer.is_problem(504, "outcome-unknown", "unknown", true);
    assert_eq!(answer.header("steadfast-attempts"), Some("3"));
    assert_eq!(world.state().await, State::Unknown);

    let world = repeating().await;
    for _ in 0..3 {
        world.script.then(Turn::Answer(503));
    }
    let answer = world.send(charge(50)).await;
    assert_eq!((answer.status.as_u16(), world.script.effects()), (503, 3));
    assert_eq!(world.state().await, State::Released);

    // No connection after an unknown end: as unknown as before.
    let world = repeating().await;
    let gate = world.script.gated(Turn::Fails(Failure::Reset));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    world.script.connecting(Before::Fails(Failure::Connect));
    world.script.connecting(Before::Fails(Failure::Connect));
    gate.open();
    let answer = end(first).await;
    answer.is_problem(504, "outcome-unknown", "unknown", true);
    assert_eq!(answer.header("steadfast-attempts"), Some("1"));
    assert_eq!(world.state().await, State::Unknown);
}

// rule: in-progress-upstream-is-waited-for
#[tokio::test(start_paused = true)]
async fn an_upstream_that_says_our_key_is_at_work_is_asked_again_also_under_hold() {
    let problem = b"{\"type\":\"urn:steadfast:problem:in-progress\"}";
    let world = holding().await;
    world.script.then(Turn::Whole(
        409,
        vec![("content-type", b"application/problem+json")],
        Bytes::from_static(problem),
    ));
    world.script.then(Turn::Answer(201));
    let answer = world.send(charge(50)).await;
    assert_eq!((answer.status.as_u16(), world.script.effects()), (201, 2));
    assert_eq!(world.state().await, State::Completed);
}

// rule: a-lost-mark-of-another-attempt-sends-nothing
#[tokio::test(start_paused = true)]
async fn without_the_mark_of_another_attempt_nothing_is_sent_and_the_end_before_it_stands() {
    for (name, fault) in [
        ("fails", Fault::Fails(unavailable())),
        ("loses its reply", Fault::LosesReply),
        ("hangs", Fault::Hangs),
        ("hangs, done", Fault::HangsDone),
    ] {
        let world = repeating().await;
        world.script.then(Turn::Fails(Failure::Reset));
        world.store.fault(Act::TakeOver, fault);
        let answer = world.send(charge(50)).await;
        answer.is_problem(504, "outcome-unknown", "unknown", true);
        assert_eq!(world.script.effects(), 1, "{name}");
        let row = world.until(State::Unknown).await;
        assert!(row.standing.ambiguous, "{name}");
        // It is still the same request's to repeat.
        let second = world.send(charge(50)).await;
        assert_eq!((second.status.as_u16(), world.script.effects()), (201, 2));
        let fences = fences(&world);
        assert!(fences[0] < fences[1], "{fences:?}");
    }
}

// rule: duplicates-wait-through-attempts
#[tokio::test(start_paused = true)]
async fn duplicates_wait_through_all_attempts_and_are_given_the_settled_answer() {
    let world = repeating().await;
    let gate = world.script.gated(Turn::Fails(Failure::Reset));
    world.script.then(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let waits = world.spawn(charge(50));
    idle().await;
    gate.open();
    assert_eq!(end(first).await.status, 201);
    let second = end(waits).await;
    assert_eq!(second.status, 201);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(world.script.effects(), 2);
}

// rule: a-stop-starts-no-other-attempt
#[tokio::test(start_paused = true)]
async fn a_process_that_ends_starts_no_other_attempt() {
    let mut world = repeating().await;
    let retry = Arc::make_mut(&mut world.policy.retry);
    retry.backoff = steadfast::core::backoff::Backoff::new(
        steadfast::core::backoff::Curve::Fixed,
        10 * SECOND,
        10 * SECOND,
        steadfast::core::backoff::Jitter::None,
    )
    .expect("sound");
    world.script.then(Turn::Fails(Failure::Reset));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    idle().await;
    world.server.drain(Duration::ZERO).await;
    let answer = end(first).await;
    answer.is_problem(504, "outcome-unknown", "unknown", true);
    assert_eq!(world.script.effects(), 1);
    assert_eq!(world.state().await, State::Unknown);
}

// rule: the-breaker-hides-nothing-finished
#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_new_work_before_a_record_and_hides_no_finished_answer() {
    let breaker = BreakerPolicy {
        min_requests: 3,
        ..BreakerPolicy::default()
    };
    let upstream = SharedUpstream::new(BudgetPolicy::default(), breaker);
    let mut world = World::new().await;
    world.script.behind(&upstream);
    assert_eq!(world.send(charge(50)).await.status, 201);
    for _ in 0..2 {
        world.script.then(Turn::Answer(500));
    }
    for key in [
        "11111111-40d5-43dd-bc93-6894a57f9324",
        "22222222-40d5-43dd-bc93-6894a57f9324",
    ] {
        world.send(charge(50).under(key)).await;
    }
    let refused = world.send(charge(50).under(OTHER_KEY)).await;
    refused.is_problem(503, "circuit-open", "none", true);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(world.rows().await.len(), 3, "no record of it");
    let replayed = world.send(charge(50)).await;
    assert_eq!(
        (
            replayed.status.as_u16(),
            replayed.header("idempotent-replayed")
        ),
        (201, Some("true"))
    );
    pass(5 * SECOND).await;
    assert_eq!(world.send(charge(50).under(OTHER_KEY)).await.status, 201);
}

// rule: an-empty-budget-gives-the-last-answer
#[tokio::test(start_paused = true)]
async fn without_budget_the_last_real_answer_is_given() {
    let budget = BudgetPolicy {
        floor_per_second: 0,
        ..BudgetPolicy::default()
    };
    let upstream = SharedUpstream::new(budget, BreakerPolicy::default());
    let mut world = World::repeating().await;
    world.script.behind(&upstream);
    world.script.then(Turn::Answer(503));
    let answer = world.send(charge(50)).await;
    assert_eq!((answer.status.as_u16(), world.script.effects()), (503, 1));
}
