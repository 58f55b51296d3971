//! Answers that are not held back: too large to keep, or without an end to wait for.

use steadfast::core::attempt::Failure;
use tokio::sync::mpsc;

use super::faults::{Act, Fault, unavailable};
use super::script::Turn;
use super::*;

type Frames = mpsc::Sender<Result<Bytes, Failure>>;

/// The answer's head, and the way to its body.
async fn streaming(world: &World, status: u16, kind: &'static str) -> (Response<Body>, Frames) {
    let (frames, receiver) = mpsc::channel(64);
    world.script.then(Turn::Stream(status, kind, receiver));
    let answer = clock::within(LONG, world.respond(charge(50))).await;
    (answer.expect("the head goes out at once"), frames)
}

// rule: an-answer-above-the-limit-is-passed-on-and-never-run-again
#[tokio::test(start_paused = true)]
async fn an_answer_above_the_limit_is_passed_on_whole_and_never_run_again() {
    for (status, effect) in [(201, "applied"), (404, "none"), (500, "unknown")] {
        let mut world = World::new().await;
        world.policy.response_limit = 10;
        let body = Bytes::from_static(b"eleven bytes and more");
        let head: Vec<(&str, &[u8])> = vec![("content-type", b"text/plain")];
        world.script.then(Turn::Whole(status, head, body.clone()));
        let first = world.send(charge(50)).await;
        let unknown = (status == 500).then_some("unknown");
        assert_eq!(first.told(), (status, Some("false"), unknown));
        assert_eq!(first.bytes(), body);
        for _ in 0..2 {
            let later = world.send(charge(50)).await;
            later.is_problem(409, "response-not-stored", effect, false);
            assert_eq!(later.json()["original_status"], status);
        }
        assert_eq!(world.script.effects(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_limit_s_length_is_kept() {
    let mut world = World::new().await;
    world.policy.response_limit = 10;
    let body = Bytes::from_static(b"ten bytes.");
    world.script.then(Turn::Whole(201, vec![], body.clone()));
    world.send(charge(50)).await;
    assert_eq!(world.send(charge(50)).await.bytes(), body);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_grows_above_the_limit_is_passed_on_from_its_first_byte() {
    let mut world = World::new().await;
    world.policy.response_limit = 10;
    let (frames, receiver) = mpsc::channel(64);
    world.script.then(Turn::Stream(201, "text/plain", receiver));
    for part in ["one", "two", "three", "four"] {
        frames.send(Ok(part.into())).await.unwrap();
    }
    let answer = world.respond(charge(50)).await;
    assert_eq!(world.state().await, State::Dispatched);
    drop(frames);
    assert_eq!(Seen::of(answer).await.bytes(), b"onetwothreefour");
    assert_eq!(world.state().await, State::Completed);
}

// rule: an-event-stream-s-head-goes-out-at-once
#[tokio::test(start_paused = true)]
async fn the_head_of_an_event_stream_goes_out_at_once_and_its_end_completes_the_record() {
    for kind in [
        "text/event-stream",
        "Text/Event-Stream; charset=utf-8",
        "application/grpc",
    ] {
        let world = World::new().await;
        let (answer, frames) = streaming(&world, 200, kind).await;
        assert_eq!(answer.headers()["idempotent-replayed"], "false");
        assert_eq!(world.state().await, State::Dispatched);
        frames.send(Ok("data: 1\n\n".into())).await.unwrap();
        drop(frames);
        assert_eq!(Seen::of(answer).await.bytes(), b"data: 1\n\n");
        let later = world.send(charge(50)).await;
        later.is_problem(409, "response-not-stored", "applied", false);
        assert_eq!(later.json()["original_status"], 200);
    }
}

// rule: a-cut-stream-is-unknown
#[tokio::test(start_paused = true)]
async fn a_cut_stream_ends_the_caller_s_body_with_an_error_and_is_unknown() {
    for parts in [0, 1, 30] {
        let world = World::new().await;
        let (answer, frames) = streaming(&world, 200, "text/event-stream").await;
        for _ in 0..parts {
            frames.send(Ok("data: 1\n\n".into())).await.unwrap();
        }
        frames.send(Err(Failure::Reset)).await.unwrap();
        // A caller that reads late finds more than fits on the way to it.
        pass(40 * SECOND).await;
        assert!(Seen::of(answer).await.body.is_err(), "{parts} parts");
        let row = world.until(State::Unknown).await;
        assert_eq!(row.standing.expires_at, None);
        let later = world.send(charge(50)).await;
        later.is_problem(409, "outcome-unknown", "unknown", false);
        assert_eq!(world.script.effects(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_a_stream_does_not_stop_it() {
    let world = World::new().await;
    let (answer, frames) = streaming(&world, 200, "text/event-stream").await;
    drop(answer);
    for _ in 0..20 {
        frames.send(Ok("data: 1\n\n".into())).await.unwrap();
    }
    drop(frames);
    world.until(State::Completed).await;
    assert_eq!(world.server.drain(SECOND).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_s_end_reaches_its_caller_even_if_the_store_does_not_take_it() {
    let world = World::new().await;
    let (answer, frames) = streaming(&world, 200, "text/event-stream").await;
    for _ in 0..10 {
        world.store.fault(Act::Settle, Fault::Fails(unavailable()));
    }
    frames.send(Ok("data: 1\n\n".into())).await.unwrap();
    drop(frames);
    let begun = clock::mono_now();
    assert_eq!(Seen::of(answer).await.bytes(), b"data: 1\n\n");
    assert!(clock::mono_now().since(begun) <= 3 * SECOND);
    assert_eq!(world.state().await, State::Dispatched);
    world.until(State::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_s_lease_is_renewed_until_its_last_byte() {
    let mut world = World::new().await;
    world.policy.deadline = 3600 * SECOND;
    let (answer, frames) = streaming(&world, 200, "text/event-stream").await;
    let reading = tokio::spawn(Seen::of(answer));
    for _ in 0..10 {
        pass(29 * SECOND).await;
        let swept = steadfast::server::sweep(&world.server).await.unwrap();
        assert_eq!(swept.recovered, 0);
        frames.send(Ok("data: 1\n\n".into())).await.unwrap();
    }
    drop(frames);
    assert_eq!(end(reading).await.bytes().len(), 90);
    assert_eq!(world.state().await, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_for_a_stream_is_told_that_its_answer_was_not_stored() {
    let world = World::new().await;
    let (answer, frames) = streaming(&world, 200, "text/event-stream").await;
    let waiter = world.spawn(charge(50));
    idle().await;
    drop(frames);
    Seen::of(answer).await;
    let seen = end(waiter).await;
    seen.is_problem(409, "response-not-stored", "applied", false);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_overtaken_ends_without_waiting_for_the_newer_holder() {
    let mut world = World::repeating().await;
    world.policy.deadline = 3600 * SECOND;
    let (answer, frames) = streaming(&world, 200, "text/event-stream").await;
    for _ in 0..200 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(31 * SECOND).await;
    let newer_gate = world.script.gated(Turn::Answer(201));
    let newer = world.spawn(charge(50));
    world.script.reached(2).await;
    frames.send(Ok("data: 1\n\n".into())).await.unwrap();
    drop(frames);
    let begun = clock::mono_now();
    assert_eq!(Seen::of(answer).await.bytes(), b"data: 1\n\n");
    assert_eq!(clock::mono_now(), begun);
    newer_gate.open();
    assert_eq!(end(newer).await.status, 201);
}
