//! How the first bytes of a connection say which HTTP it speaks.

use super::frames::*;
use super::*;
use crate::listen::raw::{answers, rest, until};

// rule: the-first-bytes-say-which-http
#[tokio::test]
async fn a_preface_in_pieces_opens_http_2_and_anything_else_is_http_1_1() {
    let front = Running::start(answering(200), patient()).await;
    for at in 1..PREFACE.len() {
        let mut caller = Caller::silent(front.addr).await;
        caller.stream.set_nodelay(true).expect("a socket");
        caller.write(&PREFACE[..at]).await;
        tokio::task::yield_now().await;
        caller.write(&PREFACE[at..]).await;
        caller.write(&frame(SETTINGS, 0, 0, &[])).await;
        caller.get(1).await;
        let answer = caller.answer(1).await;
        assert_eq!(
            (answer.status(), answer.end),
            (200, End::Whole),
            "split at {at}"
        );
    }
    for other in [
        "PRI * HTTP/2.0\r\nHost: a\r\n\r\n",
        "PRI / HTTP/2.0\r\n\r\n",
        "\r\nPRI * HTTP/2.0\r\n\r\n",
    ] {
        assert_eq!(
            answers(&told(&front, other).await)[0].status,
            400,
            "{other:?}"
        );
    }
    let put = "PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(answers(&told(&front, put).await)[0].status, 200);
}

/// What the front says to `text`, whose sender then closes.
async fn told(front: &Running, text: &str) -> Vec<u8> {
    let mut stream = front.connect().await;
    stream.write_all(text.as_bytes()).await.expect("bytes sent");
    let bytes = rest(&mut stream).await;
    let _ = stream.shutdown().await;
    bytes
}

#[tokio::test]
async fn a_preface_behind_a_request_is_refused() {
    let front = Running::start(answering(200), patient()).await;
    let mut stream = front.connect().await;
    stream.write_all(GET).await.expect("a request");
    until(&mut stream, "answer").await;
    stream.write_all(PREFACE).await.expect("a preface");
    let refused = rest(&mut stream).await;
    assert_eq!(answers(&refused)[0].status, 400);
}

#[tokio::test]
async fn where_http_2_is_not_spoken_its_preface_is_refused() {
    let limits = Limits {
        http2: None,
        ..patient()
    };
    let front = Running::start(answering(200), limits).await;
    let refused = told(&front, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert_eq!(answers(&refused)[0].status, 400);
    let detail = Violation::Http2Preface.to_string();
    assert!(String::from_utf8_lossy(&refused).contains(&detail));
}

#[tokio::test]
async fn a_preface_that_takes_too_long_ends_with_the_limit_of_a_head() {
    let slow = Limits {
        head_time: AT_ONCE,
        ..patient()
    };
    let front = Running::start(answering(200), slow).await;
    for at in [5, 20] {
        let mut stream = front.connect().await;
        stream.write_all(&PREFACE[..at]).await.expect("a part");
        let mut bytes = Vec::new();
        soon("the close", stream.read_to_end(&mut bytes))
            .await
            .expect("a close");
    }
}

#[tokio::test]
async fn an_upgrade_to_h2c_is_answered_in_http_1_1() {
    let front = Running::start(answering(200), patient()).await;
    let upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\
                   Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n";
    let answer = &answers(&told(&front, upgrade).await)[0];
    assert_eq!(answer.status, 200);
    assert!(!answer.headers.contains_key("upgrade"));
}

#[tokio::test]
async fn a_preface_followed_by_something_else_is_no_connection() {
    let front = Running::start(answering(200), patient()).await;
    let mut caller = Caller::silent(front.addr).await;
    caller
        .write(b"PRI * HTTP/2.0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await;
    let bytes = soon("the end", async {
        let mut bytes = Vec::new();
        let _ = caller.stream.read_to_end(&mut bytes).await;
        bytes
    });
    assert!(!String::from_utf8_lossy(&bytes.await).contains("HTTP/1.1 200"));
}
