//! Kept connections that the service closes whenever it likes: the race of every keep-alive client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use http::Method;
use steadfast::client::pool::PoolStatus;
use steadfast::client::{Client, Ended};
use steadfast::core::breaker::BreakerPolicy;
use steadfast::core::budget::BudgetPolicy;
use steadfast::core::policy::RoutePolicy;

use super::ready::to;
use super::{policy, told};
use crate::pool::upstream::{OK, Upstream};

/// How often each request was received, by the number that it carries.
type Received = Arc<Mutex<HashMap<String, u32>>>;

/// Closes each connection at some moment after an answer or two.
async fn closing(clean: bool) -> (Upstream, Received) {
    let received = Received::default();
    let noted = Arc::clone(&received);
    let upstream = Upstream::start(move |mut peer| {
        let noted = Arc::clone(&noted);
        async move {
            for _ in 0..=peer.nth % 2 {
                let Some(request) = peer.request().await else {
                    return;
                };
                let mut lines = request.lines();
                let number = lines.find_map(|line| line.strip_prefix("x-number: "));
                let number = number.expect("each has one").to_owned();
                *noted.lock().expect("no panic").entry(number).or_default() += 1;
                peer.say(OK).await;
            }
            for _ in 0..peer.nth % 7 {
                tokio::task::yield_now().await;
            }
            if !clean {
                peer.reset();
            }
        }
    })
    .await;
    (upstream, received)
}

async fn nothing_twice(clean: bool) {
    let (upstream, received) = closing(clean).await;
    let client = Client::new(RoutePolicy {
        budget: BudgetPolicy {
            floor_per_second: 10_000,
            ..BudgetPolicy::default()
        },
        breaker: BreakerPolicy {
            min_requests: u32::MAX,
            ..BreakerPolicy::default()
        },
        ..super::with_attempts(policy(), 5)
    });
    let mut unknown = 0;
    for number in 0..600u32 {
        let method = match number % 2 {
            0 => Method::GET,
            _ => Method::POST,
        };
        let mut request = to(&upstream, method.clone());
        request.headers_mut().insert("x-number", number.into());
        match client.send(request).await {
            Ended::Done { answer, .. } => {
                assert_eq!(answer.status(), 200);
                assert_eq!(answer.into_body().bytes().await.expect("whole"), "ok");
            }
            ended => {
                assert_eq!(
                    method,
                    Method::POST,
                    "a safe request failed: {:?}",
                    told(&ended)
                );
                assert_eq!(told(&ended), ("unknown", "maybe-executed", "unknown"));
                unknown += 1;
            }
        }
    }
    let received = received.lock().expect("no panic");
    for number in (1..600).step_by(2) {
        let times = received
            .get(&number.to_string())
            .copied()
            .unwrap_or_default();
        assert!(times <= 1, "POST {number} was received {times} times");
    }
    // Not every one can be unknown, or the test shows nothing.
    assert!(unknown < 300, "{unknown} unknown");
    let PoolStatus {
        in_use, waiting, ..
    } = client.pool().status();
    assert_eq!((in_use, waiting), (0, 0));
}

// rule: a-stale-connection-repeats-no-write
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_end_at_any_moment_repeat_no_post_and_fail_no_get() {
    nothing_twice(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_reset_at_any_moment_repeat_no_post_and_fail_no_get() {
    nothing_twice(false).await;
}
