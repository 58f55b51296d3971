//! One deadline for everything, and the limits within it.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use steadfast::client::{AnswerCut, Carried, ClientLayer, Ended};
use steadfast::clock;
use steadfast::core::deadline::Deadline;
use steadfast::core::policy::RoutePolicy;
use steadfast::core::timeouts::Timeouts;

use super::script::{Does, Gives, Script, answers};
use super::{ask, ends, ms, policy, request, told};

/// 900 ms in all, 500 ms an attempt.
fn worked() -> RoutePolicy {
    let policy = policy();
    RoutePolicy {
        deadline: ms(900),
        margin: ms(5),
        timeouts: Timeouts {
            attempt: ms(500),
            ..policy.timeouts
        },
        ..policy
    }
}

// rule: one-deadline-for-all-attempts
#[tokio::test(start_paused = true)]
async fn attempts_share_one_deadline_and_one_that_has_no_time_is_not_started() {
    let layer = ClientLayer::new(worked());
    let script = Script::of([Does::Hangs]);
    let began = clock::mono_now();
    let ended = ask(&layer, &script, request(Method::GET)).await;
    assert_eq!(clock::mono_now().since(began), ms(900));
    assert_eq!(told(&ended), ("failed", "deadline", "none"));
    let story = ended.account().story.attempts();
    let spans: Vec<_> = story
        .iter()
        .map(|told| (told.number, told.started, told.took))
        .collect();
    assert_eq!(spans, [(1, ms(0), ms(500)), (2, ms(600), ms(300))]);
    let left = script
        .given()
        .into_iter()
        .map(|one| one.headers["request-timeout-ms"].clone());
    let left: Vec<HeaderValue> = left.collect();
    assert_eq!(left, ["500", "295"]);
    assert_eq!(ends(&ended), ["read-timeout", "read-timeout"]);
    assert_eq!(script.inside(), 0, "what was given up is dropped");
}

// rule: a-wait-is-obeyed-in-full
#[tokio::test(start_paused = true)]
async fn a_service_s_wait_is_obeyed_in_full_or_it_is_not_come_back() {
    let layer = ClientLayer::new(policy());
    let wait = Does::Answers(ms(0), 503, &[("retry-after", "7")], "later");
    let script = Script::of([wait, answers(200)]);
    let ended = ask(&layer, &script, request(Method::GET)).await;
    let given = script.given();
    assert_eq!(given[1].at.since(given[0].at), ms(7000));
    assert_eq!(told(&ended).0, "done");
    let long = Does::Answers(ms(0), 503, &[("retry-after", "31")], "later");
    let began = clock::mono_now();
    let script = Script::of([long]);
    let ended = ask(&layer, &script, request(Method::GET)).await;
    assert_eq!(
        (script.times(), told(&ended)),
        (1, ("failed", "retry-after", "none"))
    );
    assert_eq!(
        ended.account().retry_after,
        Some(ms(31_000)),
        "for whoever can wait"
    );
    assert_eq!(clock::mono_now().since(began), ms(0), "at once");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_is_never_sent_to_and_ends_with_the_attempt() {
    let layer = ClientLayer::new(worked());
    let script = Script::of([Does::IsBusy]);
    let ended = ask(&layer, &script, request(Method::POST)).await;
    assert_eq!(script.times(), 0);
    assert_eq!(told(&ended), ("failed", "error-not-listed", "none"));
    assert_eq!(ends(&ended), ["pool"]);
}

// rule: a-deadline-that-has-passed-sends-nothing
#[tokio::test(start_paused = true)]
async fn under_a_carried_deadline_that_has_passed_nothing_is_sent() {
    let layer = ClientLayer::new(policy());
    for (told_ms, wait, times) in [("0", 0, 0), ("250", 250, 0), ("250", 100, 1)] {
        let mut came = HeaderMap::new();
        came.insert("request-timeout-ms", HeaderValue::from_static(told_ms));
        let carried = Carried::of(&came);
        clock::sleep(ms(wait)).await;
        let script = Script::of([answers(200)]);
        let mut request = request(Method::POST);
        request.extensions_mut().insert(carried);
        let ended = ask(&layer, &script, request).await;
        assert_eq!(script.times(), times, "{told_ms} after {wait}");
        match script.given().first() {
            Some(given) => assert_eq!(given.headers["request-timeout-ms"], "145"),
            None => assert_eq!(told(&ended), ("failed", "deadline", "none")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_carried_deadline_shortens_and_never_lengthens() {
    let layer = ClientLayer::new(worked());
    for (carried, ends_after) in [(ms(300), ms(300)), (ms(5000), ms(900))] {
        let mut request = request(Method::GET);
        let began = clock::mono_now();
        let until = Carried::until(Deadline::after(began, carried));
        request.extensions_mut().insert(until);
        ask(&layer, &Script::of([Does::Hangs]), request).await;
        assert_eq!(clock::mono_now().since(began), ends_after);
    }
}

/// How reading the body of an answer that came at once ends, and when.
async fn reading(layer: &ClientLayer, gives: Gives) -> (AnswerCut, Duration) {
    let began = clock::mono_now();
    let ended = ask(
        layer,
        &Script::of([Does::Body(200, gives)]),
        request(Method::GET),
    )
    .await;
    let Ended::Done { answer, .. } = ended else {
        panic!("its head came")
    };
    let cut = answer.into_body().bytes().await.expect_err("it never ends");
    (cut, clock::mono_now().since(began))
}

// rule: the-deadline-covers-the-body
#[tokio::test(start_paused = true)]
async fn an_answer_s_body_ends_at_the_deadline_or_with_a_pause_that_is_too_long() {
    let policy = RoutePolicy {
        deadline: ms(900),
        timeouts: Timeouts {
            idle: ms(200),
            ..Timeouts::default()
        },
        ..policy()
    };
    let layer = ClientLayer::new(policy.clone());
    let (cut, after) = reading(&layer, Gives::Bytes(ms(150))).await;
    assert!(matches!(cut, AnswerCut::Deadline), "{cut:?}");
    assert_eq!(after, ms(900));
    let (cut, after) = reading(&layer, Gives::Nothing).await;
    assert!(matches!(cut, AnswerCut::Idle), "{cut:?}");
    assert_eq!(after, ms(200));
    let (cut, _) = reading(&layer, Gives::Error).await;
    assert!(matches!(cut, AnswerCut::Failed(_)), "{cut:?}");
}
