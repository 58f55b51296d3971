//! Request bodies: asked for only when wanted, streamed where no rule needs them, bounded where one
//! does.

use super::caller::{KEY, charge, keyed_charge};
use super::running::Gateway;
use super::upstream::Upstream;

/// A POST that waits for the 100 before its body of four bytes.
fn expecting(key: &str) -> String {
    format!(
        "POST /v1/charges HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\
         Idempotency-Key: {key}\r\n\r\n"
    )
}

// rule: the-body-is-asked-for-only-when-it-is-wanted
#[tokio::test]
async fn a_refused_request_is_not_asked_for_its_body() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    caller.write(expecting("weak")).await;
    // The first that comes is the answer, no 100 before it.
    caller.answer().await.is_problem(400, "key-invalid", "none");
    let spent = expecting(KEY).replace("Host: a", "Host: a\r\nRequest-Timeout-Ms: 0");
    let mut caller = gateway.connect().await;
    caller.write(spent).await;
    caller
        .answer()
        .await
        .is_problem(504, "deadline-exceeded", "none");
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_caller_who_waits_for_100_gets_it_and_the_upstream_is_not_asked_to_give_one() {
    let unkeyed = expecting(KEY).replace("Idempotency-Key", "X-Other");
    for head in [expecting(KEY), unkeyed] {
        let upstream = Upstream::charging().await;
        let gateway = Gateway::to(upstream.addr).await;
        let mut caller = gateway.connect().await;
        caller.write(head).await;
        assert_eq!(caller.answer().await.status, 100);
        caller.write("body").await;
        assert_eq!(caller.answer().await.status, 201);
        let seen = upstream.only();
        assert_eq!(seen.text(), "body");
        assert!(seen.values("expect").is_empty());
    }
}

#[tokio::test]
async fn an_unreachable_upstream_answers_before_a_keyless_body_is_asked_for() {
    let gateway = Gateway::to(Upstream::nowhere().await).await;
    let mut caller = gateway.connect().await;
    caller
        .write(expecting(KEY).replace("Idempotency-Key", "X-Other"))
        .await;
    caller
        .answer()
        .await
        .is_problem(503, "upstream-unreachable", "none");
}

// rule: a-keyless-body-streams
#[tokio::test]
async fn the_upstream_sees_a_keyless_body_while_it_comes() {
    for framing in ["Content-Length: 6", "Transfer-Encoding: chunked"] {
        let upstream = Upstream::charging().await;
        let gateway = Gateway::with(upstream.addr, "body_limit = \"2B\"").await;
        let mut caller = gateway.connect().await;
        caller
            .write(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"))
            .await;
        let chunked = framing.ends_with("chunked");
        let framed = |text: &str| match chunked {
            true => format!("{:x}\r\n{text}\r\n", text.len()),
            false => text.to_owned(),
        };
        caller.write(framed("one")).await;
        upstream
            .until("the first piece", |seen| {
                seen.iter().any(|seen| seen.body == b"one")
            })
            .await;
        assert!(!upstream.only().whole);
        caller.write(framed("two")).await;
        if chunked {
            caller.write("0\r\n\r\n").await;
        }
        assert_eq!(caller.answer().await.status, 201);
        assert_eq!(upstream.only().text(), "onetwo");
    }
}

// rule: a-keyed-body-above-the-limit-is-413
#[tokio::test]
async fn a_keyed_body_above_the_limit_is_413_however_it_is_framed_and_the_caller_hears_it() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::with(upstream.addr, "body_limit = \"1KiB\"").await;
    let long = "x".repeat(4 * 1024 * 1024);
    let announced = gateway.send(&keyed_charge().body(&long)).await;
    announced.is_problem(413, "body-too-large", "none");
    assert!(!announced.retryable());
    assert_eq!(announced.field("connection"), Some("close"));
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {KEY}\r\n");
    let mut caller = gateway.connect().await;
    let chunk = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    caller
        .write(format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}"))
        .await;
    caller
        .answer()
        .await
        .is_problem(413, "body-too-large", "none");
    assert_eq!(upstream.count(), 0);
    assert!(gateway.records().await.is_empty());
    let fits = gateway.send(&keyed_charge().body("x".repeat(1024))).await;
    assert_eq!(fits.status, 201);
    let unkeyed = gateway.send(&charge().body(&long)).await;
    assert_eq!(unkeyed.status, 201);
    assert_eq!(upstream.seen()[1].body.len(), long.len());
}

#[tokio::test]
async fn a_body_that_does_not_come_to_its_end_executes_nothing() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut leaver = gateway.connect().await;
    let head = format!("POST /v1/charges HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {KEY}\r\n");
    leaver
        .write(format!("{head}Content-Length: 13\r\n\r\n{{\"amou"))
        .await;
    drop(leaver);
    let answer = gateway.send(&keyed_charge()).await;
    assert_eq!((answer.status, answer.replayed()), (201, Some("false")));
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_malformed_keyless_body_reaches_the_upstream_as_cut_never_as_whole() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";
    caller.write(head).await;
    upstream
        .until("the first piece", |seen| {
            seen.iter().any(|seen| seen.body == b"one")
        })
        .await;
    caller.write("no size\r\n").await;
    caller.answer().await.is_problem(400, "bad-request", "none");
    assert!(!upstream.only().whole);
}
