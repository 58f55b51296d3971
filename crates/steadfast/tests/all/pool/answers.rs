//! What counts as an answer, and how a request goes out.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use steadfast::client::pool::{
    MAX_INFORMATIONAL, MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD_BYTES, RequestBody,
};
use steadfast::core::attempt::Failure;

use super::upstream::{OK, Upstream};
use super::{failure, get, head, pool, post, read, request, send};

/// Answers the first request with `answer`, and gives the request back.
async fn exchange(request: Request<RequestBody>, answer: String) -> (super::SendEnd, String) {
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let upstream = Upstream::start(move |mut peer| {
        let (tell, answer) = (tell.clone(), answer.clone());
        async move {
            let mut request = peer.head().await.expect("a head");
            if request.contains("transfer-encoding: chunked") {
                request += &peer.through(b"0\r\n\r\n").await.expect("a body");
            }
            let _ = tell.send(request);
            peer.say(answer).await;
            peer.ended().await;
        }
    })
    .await;
    let mut told = told;
    let end = send(&pool(), &upstream.target(), request).await;
    (end, told.recv().await.expect("a request"))
}

#[tokio::test]
async fn informational_responses_are_no_answers() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let (end, _) = exchange(get(), format!("{interim}{OK}")).await;
    let (response, request_written) = head(end);
    assert_eq!(response.status(), 200);
    assert!(request_written);
    assert!(!response.headers().contains_key("link"));
    assert_eq!(read(response.into_body()).await.expect("a body"), "ok");
}

#[tokio::test]
async fn informational_responses_have_a_bound() {
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(MAX_INFORMATIONAL as usize);
    let (end, _) = exchange(get(), format!("{interim}{OK}")).await;
    assert_eq!(head(end).0.status(), 200);
    let (end, _) = exchange(get(), format!("{interim}HTTP/1.1 103 Early Hints\r\n\r\n")).await;
    assert_eq!(failure(end), Failure::Reset);
}

#[tokio::test]
async fn a_head_has_a_bound_in_bytes_and_in_fields() {
    let bytes = |count: usize| format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "a".repeat(count));
    let fields = |count: usize| format!("HTTP/1.1 200 OK\r\n{}", "x: a\r\n".repeat(count));
    let none = "content-length: 0\r\n\r\n";
    for answer in [
        bytes(MAX_RESPONSE_HEAD_BYTES - 64),
        fields(MAX_RESPONSE_FIELDS - 1),
    ] {
        let (end, _) = exchange(get(), format!("{answer}{none}")).await;
        assert_eq!(head(end).0.status(), 200);
    }
    for answer in [bytes(MAX_RESPONSE_HEAD_BYTES), fields(MAX_RESPONSE_FIELDS)] {
        let (end, _) = exchange(get(), format!("{answer}{none}")).await;
        assert_eq!(failure(end), Failure::Reset);
    }
}

#[tokio::test]
async fn a_request_goes_out_in_origin_form_with_a_host() {
    let mut absolute = get();
    *absolute.uri_mut() = "http://elsewhere/a?b=c".parse().expect("a URI");
    *absolute.version_mut() = Version::HTTP_2;
    let (_, sent) = exchange(absolute, OK.to_owned()).await;
    assert!(
        sent.starts_with("GET /a?b=c HTTP/1.1\r\nhost: 127.0.0.1:"),
        "{sent}"
    );
    let mut hosted = get();
    hosted
        .headers_mut()
        .insert("host", HeaderValue::from_static("orders"));
    let (_, sent) = exchange(hosted, OK.to_owned()).await;
    assert_eq!(sent, "GET /orders HTTP/1.1\r\nhost: orders\r\n\r\n");
}

#[tokio::test]
async fn what_would_only_be_for_this_hop_and_is_not_spoken_is_not_sent() {
    // Nobody waits for a 100 here, and nobody could go on after a 101.
    for (name, value) in [("expect", "100-continue"), ("upgrade", "websocket")] {
        let mut asking = post("hello");
        asking
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
        let (_, sent) = exchange(asking, OK.to_owned()).await;
        assert!(!sent.contains(name), "{sent}");
    }
}

#[tokio::test]
async fn every_body_has_one_framing() {
    let streamed = || {
        let frames = ["he", "llo"].map(|part| Ok(Frame::data(Bytes::from(part))));
        StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()
    };
    let empty = || Empty::new().map_err(|e| match e {}).boxed_unsync();
    let chunked = "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    for (method, body, framing, sent_body) in [
        (Method::POST, empty(), "content-length: 0", ""),
        (
            Method::POST,
            post("hello").into_body(),
            "content-length: 5",
            "",
        ),
        (Method::GET, empty(), "", ""),
        (
            Method::POST,
            streamed(),
            "transfer-encoding: chunked",
            chunked,
        ),
        // hyper alone would leave this body out without a word.
        (
            Method::GET,
            streamed(),
            "transfer-encoding: chunked",
            chunked,
        ),
    ] {
        let mut unframed = request(method, body);
        let gzip = HeaderValue::from_static("gzip");
        unframed.headers_mut().insert("transfer-encoding", gzip);
        let (end, sent) = exchange(unframed, OK.to_owned()).await;
        let (head_sent, body_sent) = sent.split_once("\r\n\r\n").expect("a head");
        assert!(head_sent.contains(framing), "{sent}");
        assert!(!head_sent.contains("gzip"), "{sent}");
        assert_eq!(body_sent, sent_body);
        assert!(head(end).1, "written whole");
    }
}

#[tokio::test]
async fn a_status_without_body_has_none() {
    let no_body = "content-length: 5\r\n\r\n";
    let mut asked = get();
    *asked.method_mut() = Method::HEAD;
    for (request, status) in [(asked, 200), (get(), 204), (get(), 304)] {
        let (end, _) = exchange(request, format!("HTTP/1.1 {status} X\r\n{no_body}")).await;
        let (response, _) = head(end);
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["content-length"], "5");
        assert_eq!(read(response.into_body()).await.expect("no body"), "");
    }
}
