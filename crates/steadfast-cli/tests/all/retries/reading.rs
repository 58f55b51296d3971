//! Safe methods: what goes again, and what the caller gets when attempts end.

use std::num::NonZeroU32;

use super::{QUICK, attempts, count, line, saying, saying_with, skipped};
use crate::gateway::caller::{call, get};
use crate::gateway::running::Gateway;
use crate::gateway::upstream::{Upstream, answer};
use crate::listen::raw::{port, soon};
use steadfast::clock;
use steadfast_core::retry::RetryPolicy;
use tokio::io::AsyncReadExt;

// rule: a-safe-request-goes-again
#[tokio::test]
async fn a_get_that_is_answered_503_twice_is_asked_a_third_time() {
    // The default number of attempts, and the default waits.
    let three = RetryPolicy::default().max_attempts;
    assert_eq!(Some(three), NonZeroU32::new(3));
    for method in ["GET", "HEAD", "OPTIONS"] {
        let upstream = saying(&[503, 503, 200]).await;
        let gateway = Gateway::to(upstream.addr).await;
        let found = gateway.send(&call(method, "/orders")).await;
        let said = (found.status, found.field("steadfast-attempts"));
        assert_eq!(said, (200, Some("3")), "{method}");
        assert_eq!(found.effect(), None);
        let seen = upstream.seen();
        let numbers: Vec<&str> = seen.iter().map(|s| s.one("steadfast-attempt")).collect();
        assert_eq!(numbers, ["1", "2", "3"]);
        for (number, result) in [("1", "503"), ("2", "503"), ("3", "200")] {
            let series = attempts(number, result);
            assert_eq!(count(&gateway, &series).await, 1.0, "{series}");
        }
    }
}

// rule: the-real-last-answer-is-given
#[tokio::test]
async fn the_last_answer_itself_is_given_when_attempts_are_used() {
    let upstream = saying_with(&[500, 502, 503], "X-Own: yes\r\n").await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let found = gateway.send(&get("/")).await;
    assert_eq!((found.status, found.text()), (503, "answer 3"));
    assert_eq!(found.field("x-own"), Some("yes"));
    assert_eq!(found.field("steadfast-attempts"), Some("3"));
    assert_eq!(count(&gateway, &skipped("attempts")).await, 1.0);
    assert_eq!(upstream.count(), 3);
}

#[tokio::test]
async fn statuses_that_are_not_listed_stand() {
    let upstream = saying(&[404]).await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    assert_eq!(gateway.send(&get("/")).await.status, 404);
    assert_eq!(upstream.count(), 1);
    let route = "retry = { on_status = [404], base = \"1ms\" }";
    let gateway = Gateway::with(upstream.addr, route).await;
    assert_eq!(gateway.send(&get("/")).await.status, 404);
    assert_eq!(upstream.count(), 4, "three more");
}

#[tokio::test]
async fn a_retry_after_is_obeyed_in_full() {
    let upstream = saying_with(&[503, 200], "Retry-After: 1\r\n").await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let began = clock::mono_now();
    assert_eq!(gateway.send(&get("/")).await.status, 200);
    assert_eq!(upstream.count(), 2);
    let waited = clock::mono_now().since(began);
    assert!(waited.as_millis() >= 1000, "it came back early: {waited:?}");
}

// rule: a-retry-after-that-does-not-fit-ends-at-once
#[tokio::test]
async fn a_retry_after_that_does_not_fit_is_the_answer_itself_at_once() {
    let upstream = saying_with(&[503], "Retry-After: 3600\r\n").await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let found = gateway.send(&get("/")).await;
    assert_eq!((found.status, found.text()), (503, "answer 1"));
    assert_eq!(found.field("retry-after"), Some("3600"));
    assert_eq!(upstream.count(), 1);
    assert_eq!(count(&gateway, &skipped("retry-after")).await, 1.0);
    // The operator's own bound, where it would have fitted.
    let upstream = saying_with(&[503], "Retry-After: 9\r\n").await;
    let gateway = Gateway::with(upstream.addr, "retry.max_wait = \"8s\"").await;
    assert_eq!(gateway.send(&get("/")).await.status, 503);
    assert_eq!(upstream.count(), 1);
    assert_eq!(count(&gateway, &skipped("max-wait")).await, 1.0);
}

/// What comes of a request whose first attempt is reset, and whose service is gone then.
async fn sent_then_refused(method: &str) -> crate::gateway::caller::Answer {
    let listener = port().await;
    let addr = listener.local_addr().expect("its address");
    let service = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        drop(listener);
        let read = stream.read(&mut [0; 1024]).await.expect("a request");
        assert!(read > 0);
        stream.set_zero_linger().expect("an option");
    });
    let gateway = Gateway::with(addr, QUICK).await;
    let found = gateway.send(&call(method, "/")).await;
    soon("the service's end", service).await.expect("no panic");
    assert_eq!(count(&gateway, &attempts("3", "connect")).await, 1.0);
    found
}

// rule: unreachable-only-if-never-sent
#[tokio::test]
async fn an_upstream_is_called_unreachable_only_if_no_attempt_was_sent() {
    let read = sent_then_refused("GET").await;
    read.is_problem(502, "upstream-failed", "none");
    assert_eq!(
        read.field("steadfast-attempts"),
        Some("1"),
        "that were sent"
    );
    let delete = sent_then_refused("DELETE").await;
    delete.is_problem(502, "upstream-failed", "unknown");
    assert!(delete.retryable());
    let gateway = Gateway::with(Upstream::nowhere().await, QUICK).await;
    let found = gateway.send(&get("/")).await;
    found.is_problem(503, "upstream-unreachable", "none");
    assert_eq!(found.field("steadfast-attempts"), None);
}

// rule: nothing-goes-again-behind-a-head
#[tokio::test]
async fn an_answer_that_is_cut_behind_its_head_is_cut_for_its_caller_and_not_repeated() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    let upstream = Upstream::start(move |exchange| exchange.reply_and_close(half)).await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let found = gateway.connect().await.cut_answer(&get("/")).await;
    // The reset that tells of the cut may overtake what came before it.
    assert!(found.is_none_or(|found| found.cut && found.status == 200));
    assert_eq!(upstream.count(), 1);
    assert_eq!(count(&gateway, &skipped("passed-on")).await, 1.0);
}

// rule: an-answer-that-is-repeated-gives-its-connection-back
#[tokio::test]
async fn answers_that_are_repeated_leave_no_connection_in_use_however_long_they_are() {
    let long = "x".repeat(300_000);
    let upstream = Upstream::start(move |exchange| {
        let long = long.clone();
        async move {
            match exchange.number % 3 {
                0 => exchange.reply(answer("200 OK", "", "made")).await,
                1 => exchange.reply(answer(&line(503), "", "short")).await,
                _ => exchange.reply(answer(&line(503), "", &long)).await,
            }
        }
    })
    .await;
    let gateway = Gateway::with(upstream.addr, &format!("{QUICK}pool.max_per_host = 1")).await;
    for _ in 0..20 {
        let found = gateway.send(&get("/")).await;
        assert_eq!((found.status, found.text()), (200, "made"));
    }
    let addr = upstream.addr;
    let inflight = format!("steadfast_upstream_inflight{{upstream=\"{addr}\"}}");
    super::until_count(&gateway, &inflight, 0.0).await;
}
