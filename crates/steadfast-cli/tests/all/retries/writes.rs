//! Writes without a key: only evidence lets a POST go again, a body goes again byte for byte or not
//! at all, and what a repeat's answer says is read right.

use super::{QUICK, attempts, count, line, saying, skipped};
use crate::gateway::caller::{Answer, call, charge};
use crate::gateway::running::Gateway;
use crate::gateway::upstream::{Upstream, answer};

// rule: a-keyless-post-is-not-repeated-on-a-promise
#[tokio::test]
async fn a_post_without_key_is_not_repeated_after_an_answer_of_503() {
    let upstream = saying(&[503, 201]).await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let found = gateway.send(&charge()).await;
    assert_eq!((found.status, found.text()), (503, "answer 1"));
    assert_eq!(found.field("steadfast-attempts"), Some("1"));
    assert_eq!(upstream.count(), 1);
    assert_eq!(count(&gateway, &skipped("unkeyed-write")).await, 1.0);
}

// rule: an-unsent-write-goes-again
#[tokio::test]
async fn a_post_to_a_refusing_port_is_sent_once_when_it_listens() {
    let addr = Upstream::nowhere().await;
    let route = "retry = { max_attempts = 1000, base = \"5ms\", cap = \"5ms\" }\n\
                 breaker = { min_requests = 1000000 }";
    let gateway = Gateway::with(addr, route).await;
    let mut caller = gateway.connect().await;
    let asked = async { caller.ask(&charge()).await };
    let listens = async {
        super::until_count(&gateway, &attempts("2", "connect"), 1.0).await;
        let listener = tokio::net::TcpListener::bind(addr).await.expect("the port");
        Upstream::start_on(listener, |exchange| async move {
            exchange.reply(answer("201 Created", "", "made")).await
        })
    };
    let (found, upstream) = tokio::join!(asked, listens);
    assert_eq!((found.status, found.text()), (201, "made"));
    assert_eq!(
        found.field("steadfast-attempts"),
        Some("1"),
        "that were sent"
    );
    assert_eq!(upstream.only().text(), r#"{"amount":50}"#);
    // Where the operator does not trust the evidence, it stays with the first.
    let gateway = Gateway::with(Upstream::nowhere().await, "retry.unsent_writes = false").await;
    let found = gateway.send(&charge()).await;
    found.is_problem(503, "upstream-unreachable", "none");
    assert_eq!(count(&gateway, &skipped("unsent-writes")).await, 1.0);
}

// rule: a-repeatable-write-goes-again
#[tokio::test]
async fn a_put_that_is_reset_is_sent_again_with_the_same_bytes() {
    let body: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let upstream = Upstream::start(|mut exchange| async move {
        match exchange.number {
            1 => {
                exchange.read().await;
                exchange.reset()
            }
            _ => exchange.reply(answer("200 OK", "", "put")).await,
        }
    })
    .await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let found = gateway.send(&call("PUT", "/things/1").body(&body)).await;
    assert_eq!(
        (found.status, found.text(), found.effect()),
        (200, "put", None)
    );
    let seen = upstream.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        assert!(seen.whole && seen.body == body);
    }
}

#[tokio::test]
async fn a_body_that_is_still_coming_when_an_attempt_fails_is_whole_in_the_next() {
    let upstream = Upstream::start(|mut exchange| async move {
        match exchange.number {
            1 => {
                exchange.read_some().await;
                exchange.reset()
            }
            _ => exchange.reply(answer("200 OK", "", "put")).await,
        }
    })
    .await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let mut caller = gateway.connect().await;
    let head = "PUT /things/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    caller.write(format!("{head}3\r\none\r\n")).await;
    upstream.until_count(2).await;
    caller.write("3\r\ntwo\r\n0\r\n\r\n").await;
    assert_eq!(caller.answer().await.status, 200);
    assert_eq!(upstream.seen()[1].body, b"onetwo");
}

// rule: a-streamed-body-is-not-sent-again
#[tokio::test]
async fn a_put_above_the_body_limit_streams_on_and_is_not_sent_again() {
    let upstream = saying(&[503, 200]).await;
    let gateway = Gateway::with(upstream.addr, &format!("{QUICK}body_limit = \"4KiB\"")).await;
    let announced = call("PUT", "/things/1").body(vec![b'x'; 5000]);
    let found = gateway.send(&announced).await;
    assert_eq!((found.status, found.text()), (503, "answer 1"));
    assert_eq!(upstream.count(), 1);
    assert_eq!(count(&gateway, &skipped("body-streamed")).await, 1.0);
    let upstream = saying(&[503, 200]).await;
    let gateway = Gateway::with(upstream.addr, &format!("{QUICK}body_limit = \"4KiB\"")).await;
    let mut caller = gateway.connect().await;
    let head = "PUT /things/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("7d0\r\n{}\r\n", "x".repeat(2000));
    caller
        .write(format!("{head}{chunk}{chunk}{chunk}0\r\n\r\n"))
        .await;
    let found = caller.answer().await;
    assert_eq!((found.status, found.text()), (503, "answer 1"));
    assert_eq!(upstream.only().body.len(), 6000);
    // What was not sent was not read either: it goes again whatever its length.
    let route = format!("{QUICK}body_limit = \"1B\"");
    let gateway = Gateway::with(Upstream::nowhere().await, &route).await;
    let found = gateway.send(&announced).await;
    found.is_problem(503, "upstream-unreachable", "none");
    assert_eq!(count(&gateway, &attempts("3", "connect")).await, 1.0);
}

/// The answer to a request whose first attempt is reset behind its last byte.
async fn after_a_reset(method: &'static str, conditional: bool, status: u16) -> Answer {
    let upstream = Upstream::start(move |mut exchange| async move {
        match exchange.number {
            1 => {
                exchange.read().await;
                exchange.reset()
            }
            _ => exchange.reply(answer(&line(status), "", "said")).await,
        }
    })
    .await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let asked = call(method, "/things/1");
    let asked = match conditional {
        true => asked.with("If-Match", "\"1\"").body("new"),
        false => asked,
    };
    let found = gateway.send(&asked).await;
    assert_eq!((found.status, found.text()), (status, "said"));
    assert_eq!(found.field("steadfast-attempts"), Some("2"));
    found
}

// rule: a-repeat-is-read-right
#[tokio::test]
async fn what_a_repeat_s_answer_leaves_open_or_means_is_said() {
    let table = [
        ("DELETE", false, 404, Some("applied")),
        ("DELETE", false, 410, Some("applied")),
        ("DELETE", false, 200, None),
        ("DELETE", false, 409, Some("unknown")),
        ("PUT", true, 412, Some("unknown")),
        ("PUT", true, 200, None),
        ("GET", false, 404, None),
    ];
    for (method, conditional, status, effect) in table {
        let found = after_a_reset(method, conditional, status).await;
        assert_eq!(found.effect(), effect, "{method} {status}");
    }
    let upstream = saying(&[404]).await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let first = gateway.send(&call("DELETE", "/things/1")).await;
    assert_eq!(
        (first.status, first.effect()),
        (404, None),
        "nothing before it"
    );
}

// rule: the-contract-counts-over-the-method
#[tokio::test]
async fn a_route_says_what_is_safe_to_repeat_and_which_methods_are() {
    let table = [
        ("POST", "safe_to_repeat = true", 3),
        ("PUT", "safe_to_repeat = false", 1),
        ("PUT", "methods = [\"GET\"]", 1),
        ("GET", "methods = []", 1),
        ("GET", "max_attempts = 1", 1),
        ("GET", "max_attempts = 5", 5),
    ];
    for (method, setting, attempts) in table {
        let upstream = saying(&[503]).await;
        let route = format!("retry = {{ base = \"1ms\", cap = \"1ms\", {setting} }}");
        let gateway = Gateway::with(upstream.addr, &route).await;
        assert_eq!(gateway.send(&call(method, "/").body("")).await.status, 503);
        assert_eq!(upstream.count(), attempts, "{method}: {setting}");
    }
}

#[tokio::test]
async fn a_caller_s_cut_body_is_never_sent_as_a_whole_one() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.read().await;
        exchange.reset()
    })
    .await;
    let gateway = Gateway::with(upstream.addr, QUICK).await;
    let mut caller = gateway.connect().await;
    caller
        .write("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
        .await;
    upstream
        .until("some of it", |seen| seen.iter().any(|s| s.body == b"half"))
        .await;
    drop(caller);
    super::until_count(&gateway, &attempts("1", "caller-left"), 1.0).await;
    assert!(upstream.seen().iter().all(|seen| !seen.whole));
    assert_eq!(upstream.count(), 1);
}
