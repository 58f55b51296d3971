//! What is repeated, what is not, and how the end is told.

use http::Method;
use steadfast::client::{Carried, ClientLayer, Ended, NoAnswer, Seen};
use steadfast::core::attempt::Failure;
use steadfast::core::breaker::BreakerPolicy;
use steadfast::core::budget::BudgetPolicy;
use steadfast::core::deferral::Defer;
use steadfast::core::policy::RoutePolicy;

use super::script::{Does, Script, answers};
use super::{ask, ends, ms, policy, request, told, with_attempts};

/// A budget that never stops anything.
fn boundless() -> RoutePolicy {
    RoutePolicy {
        budget: BudgetPolicy {
            floor_per_second: 1000,
            ..BudgetPolicy::default()
        },
        ..policy()
    }
}

// rule: the-client-repeats-by-the-table
#[tokio::test(start_paused = true)]
async fn a_failure_is_repeated_where_the_method_the_key_or_the_evidence_allows_it() {
    let fails = Does::Fails;
    for (method, keyed, does, times, end) in [
        (
            "GET",
            false,
            answers(503),
            3,
            ("failed", "attempts", "none"),
        ),
        (
            "GET",
            false,
            fails(Failure::Reset),
            3,
            ("failed", "attempts", "none"),
        ),
        ("GET", false, answers(404), 1, ("done", "answered", "none")),
        (
            "GET",
            false,
            fails(Failure::TlsIdentity),
            1,
            ("failed", "identity", "none"),
        ),
        (
            "PUT",
            false,
            fails(Failure::ReadTimeout),
            3,
            ("failed", "attempts", "unknown"),
        ),
        (
            "POST",
            false,
            fails(Failure::Connect),
            3,
            ("failed", "attempts", "none"),
        ),
        (
            "POST",
            false,
            fails(Failure::Reset),
            1,
            ("unknown", "maybe-executed", "unknown"),
        ),
        (
            "POST",
            false,
            answers(504),
            1,
            ("unknown", "maybe-executed", "unknown"),
        ),
        (
            "POST",
            false,
            answers(503),
            1,
            ("done", "unkeyed-write", "none"),
        ),
        (
            "POST",
            false,
            Does::Foreign,
            1,
            ("unknown", "maybe-executed", "unknown"),
        ),
        (
            "POST",
            true,
            answers(504),
            3,
            ("unknown", "attempts", "unknown"),
        ),
        (
            "POST",
            true,
            fails(Failure::Reset),
            3,
            ("unknown", "attempts", "unknown"),
        ),
        ("POST", true, answers(400), 1, ("done", "answered", "none")),
        (
            "POST",
            true,
            answers(201),
            1,
            ("done", "answered", "applied"),
        ),
    ] {
        let mut layer = ClientLayer::new(boundless());
        if keyed {
            layer = layer.endpoint_honours_keys();
        }
        let script = Script::of([does.clone()]);
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let ended = ask(&layer, &script, request(method.clone())).await;
        let what = format!("{method} {keyed} {does:?}");
        assert_eq!((script.times(), told(&ended)), (times, end), "{what}");
        let sent = script.given();
        assert!(sent.iter().all(|one| one.method == method));
        if !matches!(does, Does::Fails(_)) {
            assert!(
                sent.iter().all(|one| one.body == "amount=50"),
                "byte for byte"
            );
        }
    }
}

// rule: one-key-an-operation
#[tokio::test(start_paused = true)]
async fn an_operation_has_one_key_for_all_its_attempts_and_another_has_another() {
    let layer = ClientLayer::new(boundless()).endpoint_honours_keys();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let script = Script::of([answers(504), Does::Fails(Failure::Reset), answers(201)]);
        let ended = ask(&layer, &script, request(Method::POST)).await;
        let keys = script.given().into_iter().map(|one| {
            let mut lines = one.headers.get_all("idempotency-key").iter();
            let key = lines
                .next()
                .expect("a key")
                .to_str()
                .expect("text")
                .to_owned();
            assert!(lines.next().is_none(), "once");
            key
        });
        let keys: Vec<String> = keys.collect();
        assert_eq!(keys.len(), 3);
        assert!(
            keys.iter().all(|key| *key == keys[0] && key.len() == 36),
            "{keys:?}"
        );
        let told = ended.account().key.as_ref().expect("it is told");
        assert_eq!(told.as_str(), keys[0]);
        seen.push(keys[0].clone());
    }
    assert_ne!(seen[0], seen[1]);
    // What is safe to repeat anyhow needs none; a key that the caller has is kept.
    let script = Script::of([answers(200)]);
    ask(&layer, &script, request(Method::PUT)).await;
    assert!(!script.given()[0].headers.contains_key("idempotency-key"));
    let script = Script::of([answers(504), answers(200)]);
    let mut own = request(Method::POST);
    let value = http::HeaderValue::from_static("order-1f8cd2b4-a6cd923");
    own.headers_mut().insert("idempotency-key", value.clone());
    ask(&layer, &script, own).await;
    assert_eq!(script.times(), 2);
    assert!(
        script
            .given()
            .iter()
            .all(|one| one.headers["idempotency-key"] == value)
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_on_an_endpoint_that_is_not_known_to_honour_it_repeats_nothing() {
    let layer = ClientLayer::new(boundless());
    let script = Script::of([answers(504)]);
    let mut keyed = request(Method::POST);
    let value = http::HeaderValue::from_static("order-1f8cd2b4-a6cd923");
    keyed.headers_mut().insert("idempotency-key", value);
    let ended = ask(&layer, &script, keyed).await;
    assert_eq!(script.times(), 1);
    assert_eq!(told(&ended), ("unknown", "maybe-executed", "unknown"));
    let account = ended.account();
    assert_eq!(
        account.key.as_ref().expect("told").as_str(),
        "order-1f8cd2b4-a6cd923"
    );
    let text = account.to_string();
    assert!(text.contains("under the same key"), "{text}");
    assert!(!text.contains("1f8cd2b4"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_first_that_still_runs_is_waited_for_under_its_key() {
    const RUNS: &str = r#"{"type":"urn:steadfast:problem:in-progress","status":409}"#;
    const FIELDS: &[(&str, &str)] = &[
        ("content-type", "application/problem+json"),
        ("steadfast-effect", "unknown"),
    ];
    let running = Does::Answers(ms(0), 409, FIELDS, RUNS);
    let layer = ClientLayer::new(boundless()).endpoint_honours_keys();
    let script = Script::of([running.clone(), answers(201)]);
    let ended = ask(&layer, &script, request(Method::POST)).await;
    assert_eq!(
        (script.times(), told(&ended)),
        (2, ("done", "answered", "applied"))
    );
    // What was read to find out is still the answer's.
    let one = ClientLayer::new(with_attempts(boundless(), 1)).endpoint_honours_keys();
    let ended = ask(&one, &Script::of([running]), request(Method::POST)).await;
    assert_eq!(told(&ended).0, "unknown");
    let answer = ended.into_answer().expect("it came");
    assert_eq!(answer.into_body().bytes().await.expect("whole"), RUNS);
}

// rule: the-last-answer-is-given
#[tokio::test(start_paused = true)]
async fn the_last_answer_is_given_when_attempts_end() {
    let layer = ClientLayer::new(boundless());
    let last = Does::Answers(ms(0), 503, &[("x-which", "third")], "the third");
    let script = Script::of([answers(503), answers(503), last]);
    let ended = ask(&layer, &script, request(Method::GET)).await;
    let answer = ended.into_answer().expect("an answer came");
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["x-which"], "third");
    let account = answer.extensions().get::<steadfast::client::Account>();
    assert_eq!(account.expect("the account").reason.as_str(), "attempts");
    assert_eq!(
        answer.into_body().bytes().await.expect("whole"),
        "the third"
    );
}

// rule: a-client-says-that-it-stopped-itself
#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_stops_repeats_and_says_so() {
    let policy = RoutePolicy {
        budget: BudgetPolicy {
            floor_per_second: 0,
            ..BudgetPolicy::default()
        },
        ..policy()
    };
    let layer = ClientLayer::new(policy);
    let script = Script::of([answers(503)]);
    let ended = ask(&layer, &script, request(Method::GET)).await;
    assert_eq!(
        (script.times(), told(&ended)),
        (1, ("failed", "budget", "none"))
    );
    let text = ended.account().to_string();
    assert!(text.contains("answered with 503"), "{text}");
    assert!(text.contains("We stopped here, not the server"), "{text}");
    assert!(
        matches!(
            ended,
            Ended::Failed {
                answer: Some(_),
                ..
            }
        ),
        "the answer is given"
    );
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_before_anything_is_sent_and_says_when_to_come_back() {
    let policy = RoutePolicy {
        breaker: BreakerPolicy {
            min_requests: 2,
            ..BreakerPolicy::default()
        },
        ..with_attempts(policy(), 1)
    };
    let layer = ClientLayer::new(policy);
    let failing = Script::of([Does::Fails(Failure::Connect)]);
    for _ in 0..2 {
        ask(&layer, &failing, request(Method::GET)).await;
    }
    let script = Script::of([answers(200)]);
    let ended = ask(&layer, &script, request(Method::POST)).await;
    assert_eq!(
        (script.times(), told(&ended)),
        (0, ("failed", "circuit-open", "none"))
    );
    let account = ended.account();
    assert_eq!(account.retry_after, Some(ms(5000)));
    let text = account.to_string();
    assert!(text.starts_with("Nothing was sent."), "{text}");
    assert!(text.contains("We stopped here, not the service."), "{text}");
    assert!(matches!(ended.into_answer(), Err(NoAnswer::Failed(_))));
}

#[tokio::test(start_paused = true)]
async fn the_answer_that_waited_is_given_when_the_breaker_refuses_its_repeat() {
    let policy = RoutePolicy {
        breaker: BreakerPolicy {
            min_requests: 2,
            ..BreakerPolicy::default()
        },
        ..boundless()
    };
    let layer = ClientLayer::new(policy);
    let script = Script::of([answers(503)]);
    let waiting = tokio::spawn({
        let (layer, script) = (layer.clone(), script.clone());
        async move { ask(&layer, &script, request(Method::GET)).await }
    });
    while script.times() < 1 {
        tokio::task::yield_now().await;
    }
    // Meanwhile another one fails, and opens it.
    let other = Script::of([Does::Fails(Failure::TlsIdentity)]);
    ask(&layer, &other, request(Method::GET)).await;
    let ended = waiting.await.expect("no panic");
    assert_eq!(
        (script.times(), told(&ended)),
        (1, ("failed", "circuit-open", "none"))
    );
    let answer = ended.into_answer().expect("kept while it waited");
    assert_eq!(
        answer.into_body().bytes().await.expect("whole"),
        "an answer"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_connection_is_met_again_at_once_without_a_charge() {
    let policy = RoutePolicy {
        budget: BudgetPolicy {
            floor_per_second: 0,
            ..BudgetPolicy::default()
        },
        ..policy()
    };
    let layer =
        ClientLayer::new(policy).with_evidence(|_: &steadfast::body::BoxError| Failure::Reset);
    // A door that knows no "stale" gives none; ours does.
    drop(layer);
    struct Stale;
    impl steadfast::client::Evidence<steadfast::body::BoxError> for Stale {
        fn seen(&self, _: steadfast::body::BoxError) -> Seen {
            Seen {
                stale: true,
                ..Seen::from(Failure::NotWritten)
            }
        }
    }
    impl Clone for Stale {
        fn clone(&self) -> Stale {
            Stale
        }
    }
    use tower::{Layer, Service};
    let policy = RoutePolicy {
        budget: BudgetPolicy {
            floor_per_second: 0,
            ..BudgetPolicy::default()
        },
        ..super::policy()
    };
    let layer = ClientLayer::new(policy).with_evidence(Stale);
    let script = Script::of([Does::Fails(Failure::NotWritten), answers(201)]);
    let began = steadfast::clock::mono_now();
    let mut service = layer.layer(script.clone());
    let ended = service
        .call(request(Method::POST))
        .await
        .expect("never an error");
    assert_eq!(
        (ends(&ended), told(&ended).0),
        (vec!["not-written".to_owned(), "201".to_owned()], "done")
    );
    assert_eq!(steadfast::clock::mono_now().since(began), ms(0), "at once");
}

// rule: an-outer-layer-owns-retries
#[tokio::test(start_paused = true)]
async fn behind_a_layer_that_repeats_only_what_was_never_sent_goes_again_where_that_is_honoured() {
    let policy = RoutePolicy {
        honor_attempts: true,
        ..boundless()
    };
    let layer = ClientLayer::new(policy);
    let mut came = http::HeaderMap::new();
    came.insert("steadfast-attempt", http::HeaderValue::from_static("2"));
    let carried = Carried::of(&came).with_trusted_attempt(&came);
    for (does, times) in [(answers(503), 1), (Does::Fails(Failure::Connect), 3)] {
        let script = Script::of([does]);
        let mut request = request(Method::GET);
        request.extensions_mut().insert(carried);
        ask(&layer, &script, request).await;
        assert_eq!(script.times(), times);
        let numbers = script
            .given()
            .into_iter()
            .map(|one| one.headers["steadfast-attempt"].clone());
        let numbers: Vec<_> = numbers.collect();
        let told: Vec<String> = (2..2 + times).map(|n| n.to_string()).collect();
        assert_eq!(numbers, told);
    }
}

// rule: the-client-tells-what-is-to-be-sent-later
#[tokio::test(start_paused = true)]
async fn a_keyed_operation_that_does_not_fit_its_deadline_ends_deferred_where_its_policy_says_so() {
    const LATER: Does = Does::Answers(
        std::time::Duration::ZERO,
        503,
        &[("retry-after", "3600")],
        "",
    );
    let deferring = RoutePolicy {
        defer: Defer::Allowed,
        ..boundless()
    };
    let table = [
        (deferring.clone(), true, "deferred"),
        (deferring, false, "done"),
        (boundless(), true, "failed"),
    ];
    for (policy, keyed, end) in table {
        let mut layer = ClientLayer::new(policy);
        if keyed {
            layer = layer.endpoint_honours_keys();
        }
        let script = Script::of([LATER]);
        let ended = ask(&layer, &script, request(Method::POST)).await;
        assert_eq!(told(&ended).0, end, "{keyed}");
        assert_eq!(script.times(), 1, "{keyed}");
        if let Ended::Deferred { not_before, .. } = &ended {
            assert_eq!(*not_before, ms(3_600_000));
            assert_eq!(told(&ended).2, "none");
        }
    }
}
