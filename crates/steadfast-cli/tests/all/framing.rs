//! What the front refuses before any service sees it, over real sockets.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use steadfast_cli::gateway::framing::{Framer, HeadLimits, MAX_HEAD, Violation};
use steadfast_cli::gateway::listen::{Handler, Limits, RequestBody};
use tokio::io::AsyncWriteExt;
use tower::service_fn;

use crate::listen::raw::{Answer, Count, Running, answers, rest};

mod malformed;

/// Answers 200 with what it saw, once the body is whole.
fn mirror(calls: Count) -> impl Handler {
    service_fn(move |request: Request<RequestBody>| {
        calls.add();
        async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await else {
                return Ok::<_, Infallible>(Response::new(Full::default()));
            };
            let trailers = body.trailers().cloned().unwrap_or_default();
            let saw = format!(
                "{} {} {:?} {:?} {trailers:?}",
                head.method,
                head.uri,
                head.headers,
                body.to_bytes()
            );
            Ok(Response::new(Full::new(Bytes::from(saw))))
        }
    })
}

fn assert_refused(answer: &Answer, violation: Violation, of: &str) {
    assert_eq!(answer.status, 400, "{of}");
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert_eq!(answer.headers["connection"], "close", "{of}");
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(problem["type"], "urn:steadfast:problem:bad-request");
    assert_eq!(problem["detail"], violation.to_string(), "{of}");
}

#[test]
fn every_malformed_message_breaks_its_rule_and_each_rule_has_a_message() {
    let table = malformed::table();
    assert!(table.len() >= 60, "{}", table.len());
    for (violation, bytes) in &table {
        let (mut framer, mut held) = (Framer::new(HeadLimits::default()), bytes.as_slice());
        let found = loop {
            match framer.advance(held) {
                Ok(0) => break None,
                Ok(passed) => held = &held[passed..],
                Err(found) => break Some(found),
            }
        };
        assert_eq!(
            found,
            Some(*violation),
            "{}",
            String::from_utf8_lossy(bytes)
        );
        let text = violation.to_string();
        assert!(text.contains(';'), "no next step: {text}");
    }
}

#[tokio::test]
async fn a_malformed_head_is_answered_400_and_closed_and_no_service_is_called() {
    let calls = Count::default();
    // HTTP/2's preface opens a connection where that is spoken.
    let limits = Limits {
        http2: None,
        ..Limits::default()
    };
    let front = Running::start(mirror(calls.clone()), limits).await;
    for (violation, bytes) in malformed::heads() {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let answers = answers(&front.tell(&bytes).await);
        assert_eq!(answers.len(), 1, "{text}");
        assert_refused(&answers[0], violation, &text);
    }
    assert_eq!(calls.get(), 0);
}

#[tokio::test]
async fn a_malformed_body_is_answered_400_in_the_handlers_place() {
    let front = Running::start(mirror(Count::default()), Limits::default()).await;
    for (violation, bytes) in malformed::bodies() {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let answers = answers(&front.tell(&bytes).await);
        assert_eq!(answers.len(), 1, "{text}");
        assert_refused(&answers[0], violation, &text);
    }
}

#[tokio::test]
async fn a_smuggled_request_behind_a_valid_one_is_refused_after_the_first_answer() {
    for (violation, bytes) in malformed::heads() {
        // What an empty line or a first line's end decides is not the same behind another request.
        if bytes.starts_with(b"\r\n") || bytes.len() > MAX_HEAD {
            continue;
        }
        let calls = Count::default();
        let front = Running::start(mirror(calls.clone()), Limits::default()).await;
        let first = b"POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok";
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let answers = answers(&front.tell(&[first, bytes.as_slice()].concat()).await);
        assert_eq!(answers.len(), 2, "{text}");
        assert_eq!(answers[0].status, 200, "{text}");
        assert_refused(&answers[1], violation, &text);
        assert_eq!(calls.get(), 1, "{text}");
    }
}

/// Requests that look odd and are right, and what the service must have seen of each.
const RIGHT: &[(&str, &str)] = &[
    (
        "GET /a%2fb?x=1&y={z} HTTP/1.1\r\nHost: a\r\n\r\n",
        r#"GET /a%2fb?x=1&y={z} {"host": "a"} b"" {}"#,
    ),
    (
        "POST / HTTP/1.1\r\nhost:a\r\ncontent-length:3\r\n\r\nabc",
        r#"POST / {"host": "a", "content-length": "3"} b"abc" {}"#,
    ),
    (
        "POST / HTTP/1.1\r\nHOST: a:80\r\nTransfer-Encoding: ChunkeD\r\n\r\n\
         3;ext=\"v w\"\r\nabc\r\n0A\r\n0123456789\r\n0\r\nx-a: 1\r\n\r\n",
        r#"POST / {"host": "a:80", "transfer-encoding": "ChunkeD"} b"abc0123456789" {"x-a": "1"}"#,
    ),
    (
        "OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        r#"OPTIONS * {"host": "[::1]:80"} b"" {}"#,
    ),
    (
        "GET http://A.example/p HTTP/1.1\r\nHost: a.EXAMPLE\r\n\r\n",
        r#"GET http://A.example/p {"host": "a.EXAMPLE"} b"" {}"#,
    ),
    (
        "\r\nPURGE / HTTP/1.1\r\nHost: a\r\nX: a  b\t c \r\nX: 2\r\nEmpty:\r\n\r\n",
        "PURGE / {\"host\": \"a\", \"x\": \"a  b\t c\", \"x\": \"2\", \"empty\": \"\"} b\"\" {}",
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        r#"GET / {"host": "a", "connection": "Upgrade", "upgrade": "websocket"} b"" {}"#,
    ),
    (
        "DELETE / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        r#"DELETE / {"host": "a", "content-length": "0"} b"" {}"#,
    ),
];

/// A request whose answer closes the connection.
const LAST: &str = "GET /last HTTP/1.0\r\n\r\n";

fn saw(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).expect("text")
}

#[tokio::test]
async fn a_right_request_reaches_the_service_exactly_as_it_was_sent() {
    let front = Running::start(mirror(Count::default()), Limits::default()).await;
    let mut stream = front.connect().await;
    let all: String = RIGHT.iter().map(|(request, _)| *request).collect();
    stream
        .write_all((all + LAST).as_bytes())
        .await
        .expect("a write");
    let answers = answers(&rest(&mut stream).await);
    assert_eq!(answers.len(), RIGHT.len() + 1);
    for (answer, (request, seen)) in answers.iter().zip(RIGHT) {
        assert_eq!(saw(answer), *seen, "{request}");
    }
}

#[tokio::test]
async fn a_request_cut_at_any_byte_is_seen_alike() {
    let front = Running::start(mirror(Count::default()), Limits::default()).await;
    for (request, seen) in RIGHT {
        for cut in 1..request.len() {
            let (before, after) = request.split_at(cut);
            let mut stream = front.connect().await;
            stream.set_nodelay(true).expect("an option");
            stream.write_all(before.as_bytes()).await.expect("a write");
            tokio::task::yield_now().await;
            let after = [after, LAST].concat();
            stream.write_all(after.as_bytes()).await.expect("a write");
            let answers = answers(&rest(&mut stream).await);
            assert_eq!(answers.len(), 2, "{request} cut at {cut}");
            assert_eq!(saw(&answers[0]), *seen, "{request} cut at {cut}");
        }
    }
}

/// Where the framer stands after `stream`: between messages, inside one, or at a violation.
enum Verdict {
    Whole,
    Inside,
    Refused(Violation),
}

fn judge(stream: &[u8]) -> Verdict {
    let (mut framer, mut held) = (Framer::new(HeadLimits::default()), stream);
    loop {
        match framer.advance(held) {
            Ok(0) if held.is_empty() && framer.between_messages() => return Verdict::Whole,
            Ok(0) => return Verdict::Inside,
            Ok(passed) => held = &held[passed..],
            Err(violation) => return Verdict::Refused(violation),
        }
    }
}

/// Whatever the framer lets pass, hyper reads in the same way: it never refuses by itself, and
/// finds the same ends. Shown on every right request with each of its bytes changed.
#[tokio::test]
async fn what_passes_the_framer_is_read_alike_behind_it() {
    let front = Running::start(mirror(Count::default()), Limits::default()).await;
    let mut told = 0;
    for (request, _) in RIGHT {
        for at in 0..request.len() {
            for byte in *b"\r\n :;,05x\xff" {
                let mut stream = request.as_bytes().to_vec();
                stream[at] = byte;
                // Its answer would close the connection before the rest is looked at.
                if stream.windows(8).any(|bytes| bytes == b"HTTP/1.0") {
                    continue;
                }
                let text = String::from_utf8_lossy(&stream).into_owned();
                let (verdict, last) = (judge(&stream), LAST.as_bytes());
                match verdict {
                    Verdict::Whole => stream.extend_from_slice(last),
                    Verdict::Refused(_) => {}
                    Verdict::Inside => continue,
                }
                let mut answers = answers(&front.tell(&stream).await);
                let end = answers.pop().expect("an answer");
                match verdict {
                    Verdict::Refused(violation) => assert_refused(&end, violation, &text),
                    _ => assert!(saw(&end).starts_with("GET /last "), "{text}: {end:?}"),
                }
                assert!(answers.iter().all(|answer| answer.status == 200), "{text}");
                told += 1;
            }
        }
    }
    assert!(told > 4_000, "{told}");
}
