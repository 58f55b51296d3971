//! What an attempt's end means: for the record, for the caller, for who comes later.

use steadfast::core::attempt::Failure;

use super::script::{Before, Turn};
use super::*;

/// What a later duplicate is given.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Later {
    /// The stored answer: its effect, where it says one.
    Replay(Option<&'static str>),
    /// It executes.
    Executes,
    /// 409 `outcome-unknown`.
    Unknown,
}

use Later::{Executes, Replay};

const COMPLETED: State = State::Completed;
const RELEASED: State = State::Released;
const UNKNOWN: State = State::Unknown;

/// Status; the record; under hold; under repeat.
const ANSWERS: [(u16, State, Later, Later); 30] = [
    (200, COMPLETED, Replay(None), Replay(None)),
    (201, COMPLETED, Replay(None), Replay(None)),
    (204, COMPLETED, Replay(None), Replay(None)),
    (303, COMPLETED, Replay(None), Replay(None)),
    (307, RELEASED, Executes, Executes),
    (308, RELEASED, Executes, Executes),
    (
        301,
        COMPLETED,
        Replay(Some("unknown")),
        Replay(Some("unknown")),
    ),
    (
        302,
        COMPLETED,
        Replay(Some("unknown")),
        Replay(Some("unknown")),
    ),
    (401, RELEASED, Executes, Executes),
    (403, RELEASED, Executes, Executes),
    (407, RELEASED, Executes, Executes),
    (421, RELEASED, Executes, Executes),
    (423, RELEASED, Executes, Executes),
    (425, RELEASED, Executes, Executes),
    (428, RELEASED, Executes, Executes),
    (429, RELEASED, Executes, Executes),
    (431, RELEASED, Executes, Executes),
    (408, UNKNOWN, Replay(Some("unknown")), Executes),
    (400, COMPLETED, Replay(None), Replay(None)),
    (402, COMPLETED, Replay(None), Replay(None)),
    (404, COMPLETED, Replay(None), Replay(None)),
    (409, COMPLETED, Replay(None), Replay(None)),
    (410, COMPLETED, Replay(None), Replay(None)),
    (422, COMPLETED, Replay(None), Replay(None)),
    (503, RELEASED, Executes, Executes),
    (500, UNKNOWN, Replay(Some("unknown")), Executes),
    (501, UNKNOWN, Replay(Some("unknown")), Executes),
    (502, UNKNOWN, Replay(Some("unknown")), Executes),
    (504, UNKNOWN, Replay(Some("unknown")), Executes),
    (599, UNKNOWN, Replay(Some("unknown")), Executes),
];

async fn meets(world: &World, status: u16, later: Later) {
    let seen = world.send(charge(50)).await;
    match later {
        Replay(effect) => {
            assert_eq!(seen.told(), (status, Some("true"), effect));
            assert_eq!(seen.bytes(), b"{\"effect\":1}");
            assert_eq!(world.script.effects(), 1, "{status}");
        }
        Executes => {
            assert_eq!(seen.told(), (201, Some("false"), None), "{status}");
            assert_eq!(world.script.effects(), 2, "{status}");
            assert_eq!(world.state().await, State::Completed);
        }
        Later::Unknown => {
            seen.is_problem(409, "outcome-unknown", "unknown", false);
            assert_eq!(world.script.effects(), 1, "{status}");
        }
    }
}

// rule: what-a-duplicate-gets-of-each-answer
#[tokio::test(start_paused = true)]
async fn each_answer_leaves_the_record_and_the_duplicates_that_the_table_says() {
    for (status, state, hold, repeat) in ANSWERS {
        for (world, later) in [
            (World::new().await, hold),
            (World::repeating().await, repeat),
        ] {
            world.script.then(Turn::Answer(status));
            let first = world.send(charge(50)).await;
            let unknown = state == UNKNOWN || matches!(hold, Replay(Some(_)));
            let effect = unknown.then_some("unknown");
            assert_eq!(first.told(), (status, Some("false"), effect));
            assert_eq!(first.bytes(), b"{\"effect\":1}");
            assert_eq!(world.state().await, state, "{status}");
            meets(&world, status, later).await;
        }
    }
}

// rule: no-whole-answer-is-unknown
#[tokio::test(start_paused = true)]
async fn an_attempt_without_a_whole_answer_is_unknown_and_executes_again_only_under_repeat() {
    for failure in [
        Failure::Write,
        Failure::ReadTimeout,
        Failure::Reset,
        Failure::BelowGoaway,
        Failure::Truncated,
        Failure::Idle,
        Failure::Abandoned,
    ] {
        let held = World::new().await;
        held.script.then(Turn::Fails(failure));
        let first = held.send(charge(50)).await;
        first.is_problem(504, "outcome-unknown", "unknown", false);
        let row = held.row().await;
        assert_eq!(row.standing.state, UNKNOWN);
        assert_eq!(row.standing.expires_at, None, "it is nobody's to forget");
        assert_eq!(first.json()["operation_id"], row.id.to_string());
        meets(&held, 504, Later::Unknown).await;

        let repeated = World::repeating().await;
        repeated.script.then(Turn::Fails(failure));
        let first = repeated.send(charge(50)).await;
        first.is_problem(504, "outcome-unknown", "unknown", true);
        meets(&repeated, 504, Executes).await;
    }
}

// rule: never-sent-answers-503-and-the-next-executes
#[tokio::test(start_paused = true)]
async fn what_was_never_sent_answers_503_releases_the_key_and_the_next_executes() {
    for failure in [
        Failure::Resolve,
        Failure::Connect,
        Failure::Pool,
        Failure::TlsHandshake,
    ] {
        let world = World::new().await;
        world.script.connecting(Before::Fails(failure));
        let first = world.send(charge(50)).await;
        first.is_problem(503, "upstream-unreachable", "none", true);
        assert_eq!(first.header("retry-after"), Some("1"));
        assert_eq!(world.state().await, RELEASED);
        assert_eq!(world.script.effects(), 0);
        assert_eq!(world.send(charge(50)).await.status, 201);
    }
    for failure in [
        Failure::NotWritten,
        Failure::RefusedStream,
        Failure::AboveGoaway,
    ] {
        let world = World::new().await;
        world.script.then(Turn::Fails(failure));
        let first = world.send(charge(50)).await;
        first.is_problem(503, "upstream-unreachable", "none", true);
        assert_eq!(world.state().await, RELEASED);
        assert_eq!(
            world.send(charge(60)).await.status,
            422,
            "for this request only"
        );
        assert_eq!(world.send(charge(50)).await.status, 201);
    }
}

#[tokio::test(start_paused = true)]
async fn a_408_before_the_request_was_written_releases() {
    let world = World::new().await;
    world.script.then(Turn::Early(408));
    assert_eq!(world.send(charge(50)).await.status, 408);
    assert_eq!(world.state().await, RELEASED);
}

#[tokio::test(start_paused = true)]
async fn a_503_from_an_intermediary_is_unknown_and_replayed_under_hold() {
    let world = World::new().await;
    let head: Vec<(&str, &[u8])> = vec![("server", b"envoy")];
    world.script.then(Turn::Whole(503, head, Bytes::new()));
    let first = world.send(charge(50)).await;
    assert_eq!(first.told(), (503, Some("false"), Some("unknown")));
    assert_eq!(world.state().await, UNKNOWN);
    let second = world.send(charge(50)).await;
    assert_eq!(second.told(), (503, Some("true"), Some("unknown")));
    assert_eq!(world.script.effects(), 1);
}

// rule: an-upstream-that-says-unknown-is-asked-again
#[tokio::test(start_paused = true)]
async fn an_upstream_that_says_unknown_keeps_no_answer_and_is_asked_again_under_any_way_out() {
    let problem = |slug| format!("{{\"type\":\"urn:steadfast:problem:{slug}\"}}");
    let says: [(&str, &[u8], String); 3] = [
        ("steadfast-effect", b"unknown", String::new()),
        (
            "content-type",
            b"application/problem+json",
            problem("in-progress"),
        ),
        (
            "content-type",
            b"application/problem+json; charset=utf-8",
            problem("outcome-unknown"),
        ),
    ];
    for (name, value, body) in says {
        for world in [World::new().await, World::repeating().await] {
            let head = vec![(name, value)];
            world
                .script
                .then(Turn::Whole(409, head, body.clone().into()));
            let first = world.send(charge(50)).await;
            assert_eq!(first.told(), (409, Some("false"), Some("unknown")));
            assert_eq!(first.bytes(), body.as_bytes());
            let standing = world.row().await.standing;
            assert_eq!(standing.state, UNKNOWN);
            assert_eq!(standing.answer.status(), None);
            assert_eq!(standing.expires_at, None);
            meets(&world, 409, Executes).await;
            let keys: Vec<_> = world.script.ledger();
            assert_eq!(
                keys[0].headers["idempotency-key"],
                keys[1].headers["idempotency-key"]
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn under_repeat_only_success_or_a_final_4xx_ends_an_unknown_outcome() {
    for (status, state) in [
        (201, COMPLETED),
        (422, COMPLETED),
        (409, UNKNOWN),
        (401, UNKNOWN),
        (503, UNKNOWN),
        (302, UNKNOWN),
    ] {
        let world = World::repeating().await;
        world.script.then(Turn::Fails(Failure::Reset));
        world.script.then(Turn::Answer(status));
        world.send(charge(50)).await;
        let second = world.send(charge(50)).await;
        assert_eq!(second.status, status);
        assert_eq!(world.state().await, state, "{status}");
        let unknown = (state == UNKNOWN).then_some("unknown");
        assert_eq!(second.header("steadfast-effect"), unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_that_was_never_sent_leaves_the_outcome_unknown() {
    let world = World::repeating().await;
    world.script.then(Turn::Fails(Failure::Reset));
    world.send(charge(50)).await;
    world.script.connecting(Before::Fails(Failure::Connect));
    let second = world.send(charge(50)).await;
    second.is_problem(409, "outcome-unknown", "unknown", true);
    assert_eq!(world.state().await, UNKNOWN);
}

#[tokio::test(start_paused = true)]
async fn the_stricter_of_the_record_s_and_the_present_way_out_holds_and_is_told() {
    let mut world = World::new().await;
    world.script.then(Turn::Fails(Failure::Reset));
    world.send(charge(50)).await;
    world.policy.idempotency.on_unknown = OnUnknown::Repeat;
    let seen = world.send(charge(50)).await;
    seen.is_problem(409, "outcome-unknown", "unknown", false);
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_never_taken_for_never_sent() {
    let world = World::new().await;
    let (frames, receiver) = tokio::sync::mpsc::channel(4);
    world.script.then(Turn::Stream(201, "text/plain", receiver));
    frames.send(Err(Failure::NotWritten)).await.unwrap();
    let first = world.send(charge(50)).await;
    first.is_problem(504, "outcome-unknown", "unknown", false);
    assert_eq!(world.state().await, UNKNOWN);
}
