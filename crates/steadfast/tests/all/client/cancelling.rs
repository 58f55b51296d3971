//! Whoever leaves takes everything along.

use http::Method;
use steadfast::client::ClientLayer;
use steadfast::core::attempt::Failure;
use steadfast::core::breaker::{BreakerPolicy, Phase};
use steadfast::core::budget::BudgetPolicy;
use steadfast::core::policy::RoutePolicy;

use super::script::{Does, Script, answers};
use super::{ask, ms, policy, request, told};

async fn until(held: impl Fn() -> bool) {
    while !held() {
        tokio::task::yield_now().await;
    }
}

// rule: who-leaves-leaves-nothing
#[tokio::test(start_paused = true)]
async fn a_hundred_who_leave_in_flight_and_in_back_off_leave_no_charge_and_no_request() {
    let policy = RoutePolicy {
        budget: BudgetPolicy {
            floor_per_second: 10,
            ..BudgetPolicy::default()
        },
        breaker: BreakerPolicy {
            min_requests: u32::MAX,
            ..BreakerPolicy::default()
        },
        ..policy()
    };
    let layer = ClientLayer::new(policy);
    let full = layer.upstream().budget_balance();
    for script in [
        Script::of([Does::Hangs]),
        Script::of([answers(503)]),
        Script::of([Does::IsBusy]),
    ] {
        let all: Vec<_> = (0..100)
            .map(|_| {
                let (layer, script) = (layer.clone(), script.clone());
                tokio::spawn(async move { ask(&layer, &script, request(Method::GET)).await })
            })
            .collect();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        for one in &all {
            one.abort();
        }
        for one in all {
            assert!(one.await.is_err(), "it was still at work");
        }
        assert_eq!(script.inside(), 0);
        assert_eq!(layer.upstream().budget_balance(), full);
    }
}

/// In flight on a repeat that was paid for.
#[tokio::test(start_paused = true)]
async fn who_leaves_during_a_repeat_gets_its_charge_back() {
    let layer = ClientLayer::new(policy());
    let full = layer.upstream().budget_balance();
    let script = Script::of([answers(503), Does::Hangs]);
    let one = tokio::spawn({
        let (layer, script) = (layer.clone(), script.clone());
        async move { ask(&layer, &script, request(Method::GET)).await }
    });
    steadfast::clock::sleep(ms(101)).await;
    until(|| script.times() == 2).await;
    assert!(layer.upstream().budget_balance() < full, "it paid");
    one.abort();
    assert!(one.await.is_err());
    assert_eq!(layer.upstream().budget_balance(), full);
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_caller_leaves_does_not_keep_the_breaker_half_open() {
    let policy = RoutePolicy {
        breaker: BreakerPolicy {
            min_requests: 1,
            ..BreakerPolicy::default()
        },
        ..super::with_attempts(policy(), 1)
    };
    let layer = ClientLayer::new(policy);
    let failing = Script::of([Does::Fails(Failure::Connect)]);
    ask(&layer, &failing, request(Method::GET)).await;
    steadfast::clock::sleep(ms(5000)).await;
    let hangs = Script::of([Does::Hangs]);
    let probe = tokio::spawn({
        let (layer, hangs) = (layer.clone(), hangs.clone());
        async move { ask(&layer, &hangs, request(Method::GET)).await }
    });
    until(|| hangs.times() == 1).await;
    let good = Script::of([answers(200)]);
    let ended = ask(&layer, &good, request(Method::GET)).await;
    assert_eq!(told(&ended).1, "circuit-open", "one probe at a time");
    probe.abort();
    assert!(probe.await.is_err());
    let ended = ask(&layer, &good, request(Method::GET)).await;
    assert_eq!(told(&ended).0, "done");
    assert_eq!(layer.upstream().phase(), Phase::Closed);
}
