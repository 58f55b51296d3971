//! What a decision and a waiting operation take: no allocation, and two KiB.

use std::future::poll_fn;
use std::hint::black_box;
use std::task::Poll;
use std::time::Duration;

use http::{Method, StatusCode};
use steadfast::client::ClientLayer;
use steadfast::core::attempt::{Answered, AttemptEnd};
use steadfast::core::policy::{RoutePolicy, Statuses};
use steadfast::core::repeat::{BodyKind, KeyUse, Operation};
use steadfast::core::retry::{Course, Next, RetryPolicy, Signs, Situation, on_end};
use steadfast::core::time::{Draw, MonoTime};
use steadfast::core::upstream::{Outcome, Sends, Upstream};
use tower::{Layer, Service};

use super::script::{Script, answers};
use super::{ms, policy, request};

// rule: a-decision-allocates-nothing
#[test]
fn a_whole_decision_allocates_nothing() {
    let (policy, statuses) = (RetryPolicy::default(), Statuses::default());
    let route = RoutePolicy::default();
    let mut upstream = Upstream::new(route.budget, route.breaker);
    let situation = Situation {
        operation: Operation {
            method: &Method::GET,
            key: KeyUse::None,
            body: BodyKind::Whole,
            conditional: false,
        },
        policy: &policy,
        statuses: &statuses,
        course: Course::FIRST,
        remaining: Duration::from_secs(30),
        attempt_limit: Duration::from_secs(20),
        min_attempt: Duration::ZERO,
        passed_on: false,
        may_defer: false,
    };
    let end = AttemptEnd::Answered(Answered {
        status: StatusCode::SERVICE_UNAVAILABLE,
        request_written: true,
        through_intermediary: false,
        says_unknown: false,
    });
    let now = MonoTime::from_origin(Duration::from_secs(1));
    let mut retried = 0;
    let counted = allocation_counter::measure(|| {
        for bits in 0..1000 {
            let draw = || Draw::from_bits(bits);
            let may_go = |wait| upstream.may_retry(now, wait);
            let decision = on_end(black_box(&situation), &end, &Signs::NONE, draw, may_go);
            if let Next::Retry { .. } = decision.next {
                retried += 1;
            }
            let mut ticket = upstream.admit(Sends::Again, now, ms(20)).expect("closed");
            let _ = upstream.pay(&mut ticket, now);
            upstream.ended(ticket, Outcome::Nothing, now);
        }
    });
    assert_eq!((counted.count_total, retried), (0, 1000));
}

/// Operations that wait at once.
const WAITING: usize = 10_000;

/// Bytes of one that waits, with its timer and the answer that is kept, at most. The
/// fields and the body of its request are what its caller makes them: here there are none.
const ROOM: usize = 2048;

// rule: a-waiting-operation-is-small
#[test]
fn ten_thousand_operations_in_back_off_take_two_kib_each_and_no_thread() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let policy = RoutePolicy {
        budget: steadfast::core::budget::BudgetPolicy {
            floor_per_second: 100_000,
            ..Default::default()
        },
        breaker: steadfast::core::breaker::BreakerPolicy {
            min_requests: u32::MAX,
            ..Default::default()
        },
        ..policy()
    };
    let layer = ClientLayer::new(policy);
    let script = Script::of([answers(503)]);
    let mut service = layer.layer(script.clone());
    let mut held = Vec::with_capacity(WAITING);
    let counted = allocation_counter::measure(|| {
        runtime.block_on(async {
            for _ in 0..WAITING {
                held.push(service.call(request(Method::PUT)));
            }
            // Polled in turns, since the runtime lets one task do only so much at a time.
            while script.times() < WAITING || script.inside() > 0 {
                poll_fn(|cx| {
                    for call in &mut held {
                        assert!(call.as_mut().poll(cx).is_pending(), "it waits");
                    }
                    Poll::Ready(())
                })
                .await;
                tokio::task::yield_now().await;
            }
            script.forget();
        });
    });
    let each = usize::try_from(counted.bytes_current).expect("more than none") / WAITING;
    assert!(each <= ROOM, "{each} bytes each");
    let (workers, tasks) = (
        runtime.metrics().num_workers(),
        runtime.metrics().num_alive_tasks(),
    );
    assert_eq!((workers, tasks), (1, 0), "one thread for all of them");
}
