//! What holds whatever the service does: time, number, waits, budget, and nothing twice.

use http::Method;
use proptest::prelude::*;
use steadfast::client::ClientLayer;
use steadfast::clock;
use steadfast::core::attempt::{AttemptEnd, Failure};
use steadfast::core::budget::BudgetPolicy;
use steadfast::core::policy::RoutePolicy;
use steadfast::core::retry::Next;
use steadfast::core::timeouts::Timeouts;

use super::script::{Does, Script, answers};
use super::{ask, ms, policy, request, with_attempts};

const WAITS: [&[(&str, &str)]; 3] = [&[], &[("retry-after", "1")], &[("retry-after", "3")]];

fn does() -> impl Strategy<Value = Does> {
    let statuses =
        prop::sample::select(vec![200, 201, 404, 408, 409, 425, 429, 500, 502, 503, 504]);
    let answered = (0..800u64, statuses, 0..WAITS.len()).prop_map(|(after, status, wait)| {
        Does::Answers(ms(after), status, WAITS[wait], "an answer")
    });
    let failures = [
        Failure::Connect,
        Failure::NotWritten,
        Failure::Write,
        Failure::Reset,
        Failure::RefusedStream,
        Failure::BelowGoaway,
        Failure::ReadTimeout,
    ];
    let failed = prop::sample::select(failures.to_vec()).prop_map(Does::Fails);
    prop_oneof![4 => answered, 3 => failed, 1 => Just(Does::Hangs), 1 => Just(Does::Foreign)]
}

#[derive(Clone, Debug)]
struct Case {
    method: &'static str,
    keyed: bool,
    most: u32,
    attempt: u64,
    deadline: u64,
    script: Vec<Does>,
}

fn case() -> impl Strategy<Value = Case> {
    let method = prop::sample::select(vec!["GET", "PUT", "DELETE", "POST", "PATCH"]);
    let script = prop::collection::vec(does(), 1..6);
    (
        method,
        any::<bool>(),
        1..6u32,
        1..2000u64,
        0..6000u64,
        script,
    )
        .prop_map(|(method, keyed, most, attempt, deadline, script)| Case {
            method,
            keyed,
            most,
            attempt,
            deadline,
            script,
        })
}

/// Time that stands still unless everybody waits.
fn paused() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

async fn holds(case: &Case) {
    let base = with_attempts(policy(), case.most);
    let policy = RoutePolicy {
        deadline: ms(case.deadline),
        timeouts: Timeouts {
            attempt: ms(case.attempt),
            ..Timeouts::default()
        },
        budget: BudgetPolicy {
            floor_per_second: 1000,
            ..BudgetPolicy::default()
        },
        ..base
    };
    let mut layer = ClientLayer::new(policy);
    if case.keyed {
        layer = layer.endpoint_honours_keys();
    }
    let script = Script::of(case.script.clone());
    let method = Method::from_bytes(case.method.as_bytes()).expect("a method");
    let began = clock::mono_now();
    let ended = ask(&layer, &script, request(method.clone())).await;
    let account = ended.account();
    let took = clock::mono_now().since(began);
    // The runtime's timers count whole milliseconds, upwards.
    assert!(took <= ms(case.deadline) + ms(1), "{took:?}");
    let story = account.story.attempts();
    let (given, most) = (script.given(), usize::try_from(case.most).expect("small"));
    assert!(story.len() <= most && given.len() <= most);
    let honoured = case.keyed && matches!(case.method, "POST" | "PATCH");
    for (this, next) in story.iter().zip(story.iter().skip(1)) {
        let Next::Retry { wait, .. } = this.decision.next else {
            panic!("another followed {this}")
        };
        assert!(
            next.started >= this.started + this.took + wait,
            "{this}, {next}"
        );
        // Nothing that may have happened goes again, but by its method or its key.
        let harmless = method.is_idempotent() || honoured || this.end.never_sent();
        assert!(harmless, "{this}, {next}");
    }
    assert_eq!(script.inside(), 0, "nothing is left running");
    let asked_again = story.iter().filter(|told| {
        let again = matches!(told.decision.next, Next::Retry { .. });
        again && told.end == AttemptEnd::Failed(Failure::ReadTimeout) && case.method == "POST"
    });
    assert!(honoured || asked_again.count() == 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // rule: no-operation-outlives-its-limits
    #[test]
    fn time_attempts_waits_and_what_may_have_happened_are_kept_whatever_the_service_does(
        case in case(),
    ) {
        paused().block_on(holds(&case));
    }
}

/// Every wait that an answer asked for lies between it and the next attempt.
#[tokio::test(start_paused = true)]
async fn no_attempt_comes_earlier_than_the_service_said() {
    let all = |wait: usize| Does::Answers(ms(10), 503, WAITS[wait], "later");
    let layer = ClientLayer::new(with_attempts(policy(), 5));
    for order in [[1, 2, 0], [2, 1, 1], [0, 2, 1]] {
        let script = order.map(all).into_iter().chain([answers(200)]);
        let script = Script::of(script);
        ask(&layer, &script, request(Method::GET)).await;
        let given = script.given();
        for (nth, wait) in order.into_iter().enumerate() {
            let gap = given[nth + 1].at.since(given[nth].at);
            let said = [ms(0), ms(1000), ms(3000)][wait];
            assert!(gap >= said + ms(10), "{gap:?} of {said:?}");
        }
    }
}

// rule: retries-stay-within-the-budget-of-all-callers
#[tokio::test(start_paused = true)]
async fn repeats_of_all_callers_together_stay_within_the_budget() {
    let policy = RoutePolicy {
        budget: BudgetPolicy {
            floor_per_second: 2,
            ..BudgetPolicy::default()
        },
        breaker: steadfast::core::breaker::BreakerPolicy {
            min_requests: u32::MAX,
            ..Default::default()
        },
        ..policy()
    };
    let layer = ClientLayer::new(policy);
    let (good, bad) = (Script::of([answers(200)]), Script::of([answers(503)]));
    for _ in 0..100 {
        ask(&layer, &good, request(Method::GET)).await;
    }
    let asked = 500;
    let all: Vec<_> = (0..asked)
        .map(|_| {
            let (layer, bad) = (layer.clone(), bad.clone());
            tokio::spawn(async move { ask(&layer, &bad, request(Method::GET)).await })
        })
        .collect();
    for one in all {
        one.await.expect("no panic");
    }
    let repeats = bad.times() - asked;
    // A fifth of a hundred successes, and two a second of the window's ten.
    assert!((20..=40).contains(&repeats), "{repeats}");
}
