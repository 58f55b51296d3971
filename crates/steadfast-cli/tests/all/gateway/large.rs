//! Answers that go out as they come: too large to keep, without an end, without a body.

use std::sync::Arc;

use http::HeaderMap;
use tokio::sync::Notify;

use super::caller::{Caller, call, charge, get, keyed_charge};
use super::running::Gateway;
use super::upstream::{Upstream, answer};

const SMALL: &str = "response_limit = \"1KiB\"";

#[tokio::test]
async fn an_answer_above_the_limit_is_passed_on_whole_and_its_duplicates_are_409() {
    let large = "x".repeat(100_000);
    let chunks = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let chunked = format!("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
    for bytes in [answer("201 Created", "", &large), chunked] {
        let upstream = Upstream::saying(&bytes).await;
        let gateway = Gateway::with(upstream.addr, SMALL).await;
        let first = gateway.send(&keyed_charge()).await;
        assert_eq!((first.status, first.cut), (201, false));
        assert_eq!(first.text(), large);
        assert_eq!(first.replayed(), Some("false"));
        // The end of the answer came once it was on record.
        let record = gateway.record().await;
        assert_eq!(record["state"], "completed");
        assert_eq!(record["status"], 201);
        let second = gateway.send(&keyed_charge()).await;
        second.is_problem(409, "response-not-stored", "applied");
        assert_eq!(second.json()["original_status"], 201);
        assert!(!second.retryable());
        assert_eq!(upstream.count(), 1);
    }
}

#[tokio::test]
async fn a_large_answer_that_is_cut_cuts_the_caller_and_is_unknown() {
    let cut = format!(
        "HTTP/1.1 201 Created\r\nContent-Length: 99999\r\n\r\n{}",
        "x".repeat(50_000)
    );
    let upstream = Upstream::start(move |exchange| exchange.reply_and_close(cut.clone())).await;
    let gateway = Gateway::with(upstream.addr, SMALL).await;
    let mut caller = gateway.connect().await;
    let first = caller.cut_answer(&keyed_charge()).await;
    assert!(first.is_none_or(|first| first.cut), "never as a whole one");
    gateway.until_state("unknown").await;
    let second = gateway.send(&keyed_charge()).await;
    second.is_problem(409, "outcome-unknown", "unknown");
    assert_eq!(upstream.count(), 1);
}

/// An upstream whose answer has three chunks, the second and third when they are told.
async fn in_chunks(head: &'static str) -> (Upstream, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let upstream = Upstream::start(move |mut exchange| {
        let gate = Arc::clone(&gate);
        async move {
            exchange.read().await;
            exchange.write(head).await;
            for chunk in ["one", "two", "three"] {
                if chunk != "one" {
                    gate.notified().await;
                }
                let framed = format!("{:x}\r\n{chunk}\r\n", chunk.len());
                exchange.write(framed).await;
            }
            exchange.write("0\r\n\r\n").await;
            Some(exchange)
        }
    })
    .await;
    (upstream, go)
}

async fn next(caller: &mut Caller) -> String {
    let chunk = caller.chunk(&mut HeaderMap::new()).await.expect("a chunk");
    String::from_utf8(chunk).expect("text")
}

// rule: an-event-stream-passes-chunk-by-chunk
#[tokio::test]
async fn an_event_stream_passes_chunk_by_chunk_keyed_or_not() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    for call in [keyed_charge(), charge(), get("/events")] {
        let (upstream, go) = in_chunks(head).await;
        let gateway = Gateway::to(upstream.addr).await;
        let mut caller = gateway.connect().await;
        caller.write(call.bytes()).await;
        let keyed = caller.head().await.replayed() == Some("false");
        assert_eq!(next(&mut caller).await, "one");
        if keyed {
            assert_eq!(gateway.record().await["state"], "dispatched");
        }
        for chunk in ["two", "three"] {
            go.notify_one();
            assert_eq!(next(&mut caller).await, chunk);
        }
        assert_eq!(next(&mut caller).await, "");
        if keyed {
            assert_eq!(gateway.record().await["state"], "completed");
            let again = gateway.send(&keyed_charge()).await;
            again.is_problem(409, "response-not-stored", "applied");
        }
        assert_eq!(upstream.count(), 1);
    }
}

#[tokio::test]
async fn a_keyless_answer_passes_chunk_by_chunk_whatever_its_type() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (upstream, go) = in_chunks(head).await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    caller.write(get("/report").bytes()).await;
    caller.head().await;
    assert_eq!(next(&mut caller).await, "one");
    go.notify_one();
    assert_eq!(next(&mut caller).await, "two");
    go.notify_one();
    assert_eq!(next(&mut caller).await, "three");
    assert_eq!(next(&mut caller).await, "");
}

#[tokio::test]
async fn a_keyless_answer_that_is_cut_cuts_the_caller() {
    let cuts = [
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
    ];
    for cut in cuts {
        let upstream = Upstream::start(move |exchange| exchange.reply_and_close(cut)).await;
        let gateway = Gateway::to(upstream.addr).await;
        let read = gateway.connect().await.cut_answer(&get("/")).await;
        assert!(read.is_none_or(|read| read.cut), "never as a whole one");
    }
}

#[tokio::test]
async fn the_work_behind_a_stream_whose_caller_left_is_completed() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let (upstream, go) = in_chunks(head).await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut leaver = gateway.connect().await;
    leaver.write(keyed_charge().bytes()).await;
    leaver.head().await;
    drop(leaver);
    go.notify_one();
    // A permit at a time: the second waits until the first was taken.
    while gateway.record().await["state"] == "dispatched" {
        go.notify_one();
        tokio::task::yield_now().await;
    }
    assert_eq!(gateway.record().await["state"], "completed");
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn an_answer_that_trickles_in_is_the_same_answer() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.read().await;
        for byte in answer("201 Created", "X-Slow: yes\r\n", "made slowly").bytes() {
            exchange.write([byte]).await;
            tokio::task::yield_now().await;
        }
        Some(exchange)
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    for call in [keyed_charge(), keyed_charge(), charge()] {
        let answer = gateway.send(&call).await;
        assert_eq!((answer.status, answer.text()), (201, "made slowly"));
        assert_eq!(answer.field("x-slow"), Some("yes"));
    }
    assert_eq!(upstream.count(), 2);
}

// rule: head-204-and-304-have-no-body
#[tokio::test]
async fn head_204_and_304_have_no_body_and_keep_the_connection() {
    let upstream = Upstream::start(|exchange| async move {
        let seen = exchange.seen();
        let bytes = match (seen.method.as_str(), seen.target.as_str()) {
            ("HEAD", _) => "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n".to_owned(),
            (_, "/304") => "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n".to_owned(),
            (_, "/204") => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            _ => answer("200 OK", "", "body"),
        };
        exchange.reply(bytes).await
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    let head = caller.ask(&call("HEAD", "/")).await;
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("12345"))
    );
    let unchanged = caller.ask(&get("/304")).await;
    assert_eq!(
        (unchanged.status, unchanged.field("etag")),
        (304, Some("\"1\""))
    );
    assert_eq!(caller.ask(&get("/204")).await.status, 204);
    let nothing = call("POST", "/204").key(super::caller::KEY);
    for marker in ["false", "true"] {
        let answer = caller.ask(&nothing).await;
        assert_eq!((answer.status, answer.replayed()), (204, Some(marker)));
        assert_eq!(answer.field("content-length"), None, "{answer:?}");
    }
    // What follows on the connection is the next answer, and nothing of a body.
    assert_eq!(caller.ask(&get("/")).await.text(), "body");
}
