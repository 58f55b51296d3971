//! What no message of HTTP/2 may hold, and what is refused as HTTP/1.1 refuses it. Nothing of it
//! reaches a service.

use super::frames::*;
use super::*;

/// A head, field by field.
type Fields<'a> = Vec<(&'a str, &'a [u8])>;

/// A front whose service counts its calls, and reads what it is sent.
async fn counting() -> (Running, Count) {
    let calls = Count::default();
    let counted = calls.clone();
    let service = service_fn(move |request: Request<RequestBody>| {
        let counted = counted.clone();
        async move {
            if request.into_body().collect().await.is_ok() {
                counted.add();
            }
            Ok::<_, Infallible>(text(200, "answer"))
        }
    });
    (Running::start(service, patient()).await, calls)
}

/// How a request of these fields ends, alone on its connection.
async fn end_of(front: &Running, fields: &[(&str, &[u8])]) -> (u16, End, String) {
    let mut caller = Caller::to(front.addr).await;
    caller.ask(1, fields).await;
    let answer = caller.answer(1).await;
    let status = if answer.heads.is_empty() {
        0
    } else {
        answer.status()
    };
    (status, answer.end, answer.text())
}

// rule: http2-holds-heads-to-the-rules-of-http1
#[tokio::test]
async fn a_head_that_http_1_1_refuses_is_refused_with_the_same_words() {
    let (front, calls) = counting().await;
    let long = "x".repeat(MAX_HEAD);
    let many: Vec<(&str, &str)> = (0..MAX_FIELDS).map(|_| ("x", "y")).collect();
    let cases: Vec<(Fields<'_>, Violation)> = vec![
        (fields("GET", &[("host", "b")]), Violation::TargetAuthority),
        (
            fields("GET", &[("host", "a"), ("host", "a")]),
            Violation::HostRepeated,
        ),
        (without(":authority"), Violation::HostMissing),
        (with(":authority", "u@a"), Violation::HostInvalid),
        (with(":path", "*"), Violation::Target),
        (with(":scheme", "ftp"), Violation::Target),
        (
            fields("GET", &[("content_length", "3")]),
            Violation::LookAlike,
        ),
        (
            fields("GET", &[("transfer_encoding", "chunked")]),
            Violation::LookAlike,
        ),
        (
            fields("GET", &[("content-length", "0"), ("content-length", "0")]),
            Violation::LengthRepeated,
        ),
        (fields("GET", &[("x", " y")]), Violation::FieldValue),
        (fields("GET", &[("x", "y\t")]), Violation::FieldValue),
        (fields("GET", &many), Violation::TooManyFields(MAX_FIELDS)),
        (
            fields("GET", &[("x", &long[..MAX_HEAD - 20])]),
            Violation::HeadTooLong(MAX_HEAD),
        ),
    ];
    for (fields, violation) in cases {
        let (status, end, text) = end_of(&front, &fields).await;
        assert_eq!((status, end), (400, End::Whole), "{violation:?}");
        assert!(
            text.contains(&violation.to_string()),
            "{violation:?}: {text}"
        );
    }
    assert_eq!(calls.get(), 0);
}

fn without(name: &str) -> Vec<(&'static str, &'static [u8])> {
    let mut all = fields("GET", &[]);
    all.retain(|(own, _)| *own != name);
    all
}

fn with(name: &'static str, value: &'static str) -> Vec<(&'static str, &'static [u8])> {
    let mut all = without(name);
    all.insert(0, (name, value.as_bytes()));
    all
}

// rule: http2-malformed-messages-reach-nobody
#[tokio::test]
async fn what_makes_a_message_malformed_ends_its_stream_and_reaches_nobody() {
    let (front, calls) = counting().await;
    let cases: Vec<Fields<'_>> = vec![
        fields("GET", &[("connection", "close")]),
        fields("GET", &[("transfer-encoding", "chunked")]),
        fields("GET", &[("upgrade", "h2c")]),
        fields("GET", &[("keep-alive", "1")]),
        fields("GET", &[("proxy-connection", "close")]),
        fields("GET", &[("te", "gzip")]),
        fields("GET", &[("content-length", "5")]),
        fields("GET", &[("content-length", "+0")]),
        fields("GET", &[(":path", "/twice")]),
        fields("GET", &[("x", "y"), (":path", "/late")]),
        fields("GET", &[(":status", "200")]),
        fields("GET", &[(":protocol", "websocket")]),
        fields("CONNECT", &[(":protocol", "websocket")]),
        fields("CONNECT", &[]),
        without(":method"),
        without(":scheme"),
        without(":path"),
        with(":path", ""),
        with(":path", "http://a/"),
        with(":path", "relative"),
    ];
    for fields in cases {
        let (status, end, _) = end_of(&front, &fields).await;
        let refused = end == End::Reset(PROTOCOL_ERROR) || status == 400;
        assert!(refused, "{fields:?}: {status} {end:?}");
    }
    // A tunnel in its own form is one, too.
    let tunnel = [(":method", &b"CONNECT"[..]), (":authority", b"a")];
    let (status, _, text) = end_of(&front, &tunnel).await;
    assert_eq!(status, 400);
    assert!(text.contains("CONNECT is refused"), "{text}");
    assert_eq!(calls.get(), 0);
}

#[tokio::test]
async fn a_name_in_upper_case_and_a_control_byte_end_the_connection() {
    let (front, calls) = counting().await;
    let upper = fields("GET", &[("X-Upper", "y")]);
    let mut cases = vec![upper];
    for bytes in ["a\r\nb: c", "a\nb", "a\0b", "a\rb", "\u{7f}"] {
        cases.push(fields("GET", &[("x", bytes)]));
    }
    cases.push(fields("GET", &[("x y", "z")]));
    cases.push(fields("GET", &[("x\r\ny", "z")]));
    cases.push(fields("GET", &[(":path", "/a\r\nb")]));
    cases.push(with(":path", "/a b"));
    cases.push(with(":authority", "a\r\nb"));
    for fields in cases {
        let (status, end, _) = end_of(&front, &fields).await;
        assert_ne!(end, End::Whole, "{fields:?}: {status}");
    }
    assert_eq!(calls.get(), 0);
}

// rule: http2-content-length-and-data-agree
#[tokio::test]
async fn a_body_of_another_length_than_announced_reaches_nobody_whole() {
    let (front, calls) = counting().await;
    for (data, last) in [(&b"1234"[..], true), (b"123456", false), (b"123456", true)] {
        let mut caller = Caller::to(front.addr).await;
        let post = fields("POST", &[("content-length", "5")]);
        caller.begin(1, &post).await;
        caller.send(DATA, u8::from(last), 1, data).await;
        assert_eq!(caller.answer(1).await.end, End::Reset(PROTOCOL_ERROR));
    }
    assert_eq!(calls.get(), 0);
    let mut caller = Caller::to(front.addr).await;
    caller
        .begin(1, &fields("POST", &[("content-length", "5")]))
        .await;
    caller.send(DATA, 0, 1, b"123").await;
    caller.send(DATA, END_STREAM, 1, b"45").await;
    assert_eq!(caller.answer(1).await.status(), 200);
    assert_eq!(calls.get(), 1);
}

/// A front whose service counts, and answers, requests that have all bytes that were announced, as
/// a server of HTTP/1.1 behind a gateway does.
async fn counting_by_length() -> (Running, Count) {
    let calls = Count::default();
    let counted = calls.clone();
    let service = service_fn(move |request: Request<RequestBody>| {
        let counted = counted.clone();
        async move {
            let mut body = request.into_body();
            let announced = body.size_hint().exact().expect("a length");
            let mut left = announced;
            while left > 0 {
                match body.frame().await {
                    Some(Ok(frame)) => left -= frame.data_ref().map_or(0, Bytes::len) as u64,
                    _ => return Ok(text(500, "cut")),
                }
            }
            counted.add();
            Ok::<_, Infallible>(text(200, "answer"))
        }
    });
    (Running::start(service, patient()).await, calls)
}

// rule: http2-last-announced-byte-waits-for-the-end
#[tokio::test]
async fn the_byte_that_completes_a_length_waits_for_the_end_of_its_stream() {
    let (front, calls) = counting_by_length().await;
    let trailers = [("content-length", &b"5"[..])];
    for (length, data) in [("5", &b"12345"[..]), ("0", b"")] {
        let post = fields("POST", &[("content-length", length)]);
        let mut caller = Caller::to(front.addr).await;
        caller.begin(1, &post).await;
        caller.send(DATA, 0, 1, data).await;
        caller.send(DATA, END_STREAM, 1, b"6").await;
        assert_eq!(caller.answer(1).await.end, End::Reset(PROTOCOL_ERROR));
        caller.begin(3, &post).await;
        caller.send(DATA, 0, 3, data).await;
        caller.ask(3, &trailers).await;
        assert_eq!(caller.answer(3).await.status(), 400);
        assert_eq!(calls.get(), 0, "{length}");
    }
    for (length, data) in [("5", &b"12345"[..]), ("0", b"")] {
        let mut caller = Caller::to(front.addr).await;
        let post = fields("POST", &[("content-length", length)]);
        caller.begin(1, &post).await;
        caller.send(DATA, 0, 1, data).await;
        caller.send(DATA, END_STREAM, 1, b"").await;
        assert_eq!(caller.answer(1).await.status(), 200);
    }
    assert_eq!(calls.get(), 2);
}

#[tokio::test]
async fn a_framing_field_in_trailers_is_refused_as_in_http_1_1() {
    let (front, calls) = counting().await;
    let many: Vec<(&str, &[u8])> = (0..33).map(|_| ("x", &b"y"[..])).collect();
    for (trailers, violation) in [
        (vec![("content-length", &b"1"[..])], Violation::TrailerField),
        (vec![("host", &b"b"[..])], Violation::TrailerField),
        (
            vec![("transfer_encoding", &b"b"[..])],
            Violation::TrailerField,
        ),
        (vec![("x", &b" b"[..])], Violation::FieldValue),
        (many, Violation::TooManyTrailers(32)),
    ] {
        let mut caller = Caller::to(front.addr).await;
        caller.begin(1, &fields("POST", &[])).await;
        caller.send(DATA, 0, 1, b"body").await;
        caller.ask(1, &trailers).await;
        let answer = caller.answer(1).await;
        assert_eq!(answer.status(), 400, "{violation:?}");
        assert!(
            answer.text().contains(&violation.to_string()),
            "{}",
            answer.text()
        );
    }
    assert_eq!(calls.get(), 0);
}

#[tokio::test]
async fn a_request_gets_one_host_and_one_cookie() {
    let service = service_fn(|request: Request<RequestBody>| async move {
        let seen = format!(
            "{:?} {:?} {:?}",
            request.headers().get_all("host").iter().collect::<Vec<_>>(),
            request
                .headers()
                .get_all("cookie")
                .iter()
                .collect::<Vec<_>>(),
            request.uri().path_and_query(),
        );
        Ok::<_, Infallible>(Response::new(Full::from(seen)))
    });
    let front = Running::start(service, patient()).await;
    let crumbs = [
        ("cookie", "a=1"),
        ("x", "y"),
        ("cookie", "b=2"),
        ("host", "A"),
    ];
    let (status, _, seen) = end_of(&front, &fields("GET", &crumbs)).await;
    assert_eq!(status, 200);
    assert_eq!(seen, r#"["a"] ["a=1; b=2"] Some(/)"#);
}
