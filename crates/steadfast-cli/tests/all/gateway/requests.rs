//! What of a request reaches the upstream, and as what.

use super::caller::{Call, KEY, call, charge, get, keyed_charge};
use super::running::{Gateway, config};
use super::upstream::{Seen, Upstream, answer};

/// What the upstream saw of `call`.
async fn seen(route: &str, call: &Call) -> Seen {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::with(upstream.addr, route).await;
    let answer = gateway.send(call).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    upstream.only()
}

/// The same, from a peer that is trusted.
async fn seen_of_trusted(call: &Call) -> Seen {
    let upstream = Upstream::charging().await;
    let trusting = format!(
        "trusted_peers = [\"127.0.0.1\"]\n{}",
        config(upstream.addr, "")
    );
    let gateway = Gateway::start(&trusting).await;
    assert_eq!(gateway.send(call).await.status, 201);
    upstream.only()
}

// rule: the-key-goes-on-in-one-spelling
#[tokio::test]
async fn the_key_goes_on_in_one_spelling_and_both_spellings_are_one_key() {
    let quoted = format!("\"{KEY}\"");
    for (forward_as, sent) in [("bare", KEY), ("quoted", &quoted)] {
        let upstream = Upstream::charging().await;
        let route = format!("idempotency = {{ forward_as = \"{forward_as}\" }}");
        let gateway = Gateway::with(upstream.addr, &route).await;
        let with_parameter = format!("{quoted};a=1");
        for (at, key) in [KEY, &quoted, &with_parameter].into_iter().enumerate() {
            let answer = gateway.send(&charge().key(key)).await;
            let marker = if at == 0 { "false" } else { "true" };
            assert_eq!(
                (answer.status, answer.replayed()),
                (201, Some(marker)),
                "{key}"
            );
        }
        assert_eq!(upstream.only().one("idempotency-key"), sent);
    }
}

#[tokio::test]
async fn a_keyed_request_goes_out_with_fence_attempt_and_identity_coding() {
    let spoofed = keyed_charge()
        .with("Idempotency-Fence", "1")
        .with("Steadfast-Attempt", "7")
        .with("Accept-Encoding", "gzip, br");
    let seen = seen("", &spoofed).await;
    let fence: u64 = seen.one("idempotency-fence").parse().expect("a number");
    assert!(fence > 1 && fence < 1 << 53, "{fence}");
    assert_eq!(seen.one("steadfast-attempt"), "1");
    assert_eq!(seen.one("accept-encoding"), "identity");
    assert_eq!(seen.one("content-length"), "13");
    assert_eq!(seen.text(), r#"{"amount":50}"#);
}

// rule: a-keyless-request-loses-a-spoofed-fence-too
#[tokio::test]
async fn a_keyless_request_loses_fence_and_attempt_and_keeps_its_codings() {
    for call in [charge(), get("/v1/charges")] {
        let call = call.with("Accept-Encoding", "gzip, br");
        let call = call
            .with("Idempotency-Fence", "99")
            .with("Steadfast-Attempt", "7");
        let seen = seen("", &call).await;
        assert!(seen.values("idempotency-fence").is_empty());
        assert_eq!(seen.one("steadfast-attempt"), "1");
        assert_eq!(seen.one("accept-encoding"), "gzip, br");
    }
}

#[tokio::test]
async fn a_trusted_peer_s_attempt_count_goes_on_and_its_fence_does_not() {
    let call = keyed_charge();
    let call = call
        .with("Steadfast-Attempt", "3")
        .with("Idempotency-Fence", "9");
    let seen = seen_of_trusted(&call).await;
    assert_eq!(seen.one("steadfast-attempt"), "3");
    assert_ne!(seen.one("idempotency-fence"), "9");
    let broken = seen_of_trusted(&charge().with("Steadfast-Attempt", "many")).await;
    assert_eq!(broken.one("steadfast-attempt"), "1");
}

// rule: the-fence-grows-with-every-attempt
#[tokio::test]
async fn the_fence_grows_with_every_attempt_of_every_key() {
    let upstream = Upstream::saying(&answer("503 Service Unavailable", "", "")).await;
    let gateway = Gateway::to(upstream.addr).await;
    for key in [KEY, KEY, super::caller::OTHER_KEY, KEY] {
        assert_eq!(gateway.send(&charge().key(key)).await.status, 503);
    }
    let fences: Vec<u64> = upstream
        .seen()
        .iter()
        .map(|seen| seen.one("idempotency-fence").parse().expect("a number"))
        .collect();
    assert!(
        fences.is_sorted_by(|a, b| a < b) && fences.len() == 4,
        "{fences:?}"
    );
}

// rule: fields-of-the-caller-s-hop-do-not-reach-the-upstream
#[tokio::test]
async fn fields_of_the_caller_s_hop_end_at_the_gateway() {
    let hop = [
        ("Connection", "X-One , keep-alive"),
        ("Connection", "x-two,close"),
        ("X-One", "1"),
        ("X-Two", "2"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic eA=="),
        ("TE", "gzip"),
        ("Upgrade", "h2c"),
        ("X-Three", "3"),
    ];
    for base in [keyed_charge(), charge()] {
        let call = hop
            .iter()
            .fold(base, |call, (name, value)| call.with(name, value));
        let seen = seen("", &call).await;
        assert_eq!(seen.one("x-three"), "3");
        for (name, _) in &hop[..9] {
            assert!(seen.values(name).is_empty(), "{name}: {seen:?}");
        }
    }
}

// rule: a-nominated-key-is-refused
#[tokio::test]
async fn a_connection_field_that_names_what_must_reach_the_upstream_is_refused() {
    let upstream = Upstream::charging().await;
    let route = "[route.idempotency]\nheader = \"X-Order-Key\"";
    let gateway = Gateway::with(upstream.addr, route).await;
    let protected = [
        "idempotency-key",
        "Authorization",
        "content-type",
        "content-length",
        "Cookie",
        "host",
        "if-match",
        "x-forwarded-for",
        "X-Order-Key",
    ];
    for name in protected {
        let call = charge().with("X-Order-Key", KEY);
        let answer = gateway
            .send(&call.with("Connection", format!("close, {name}")))
            .await;
        answer.is_problem(400, "bad-request", "none");
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn trailers_pass_with_a_keyless_request_and_te_with_every() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\
                TE: trailers, gzip\r\n\r\n";
    caller
        .write(format!("{head}3\r\nabc\r\n0\r\nx-sum: 6\r\n\r\n"))
        .await;
    assert_eq!(caller.answer().await.status, 201);
    let seen = upstream.only();
    assert_eq!(seen.text(), "abc");
    assert_eq!(seen.one("x-sum"), "6");
    assert_eq!(seen.one("te"), "trailers");
    assert_eq!(seen.one("connection").to_ascii_lowercase(), "te");
}

#[tokio::test]
async fn host_stays_and_via_is_added() {
    let seen = seen("", &get("/a%2fb?x=1&y={z}").with("Via", "1.0 edge")).await;
    assert_eq!(seen.target, "/a%2fb?x=1&y={z}");
    assert_eq!(seen.one("host"), "shop.example");
    assert_eq!(
        seen.values("via"),
        [b"1.0 edge".as_slice(), b"1.1 steadfast"]
    );
    let absolute = call("GET", "http://shop.example/a?b");
    let seen = super::requests::seen("", &absolute).await;
    assert_eq!(
        (seen.target.as_str(), seen.one("host")),
        ("/a?b", "shop.example")
    );
}

const SPOOFED: [(&str, &str); 6] = [
    ("X-Forwarded-For", "10.0.0.1"),
    ("X-Forwarded-For", "10.0.0.2"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "public.example"),
    ("X-Real-IP", "10.0.0.1"),
    ("Forwarded", "for=10.0.0.1"),
];

// rule: forwarding-fields-are-replaced-unless-the-peer-is-trusted
#[tokio::test]
async fn forwarding_fields_are_replaced_unless_the_peer_is_trusted() {
    let call = SPOOFED
        .iter()
        .fold(charge(), |call, (name, value)| call.with(name, value));
    let stranger = seen("", &call).await;
    assert_eq!(stranger.one("x-forwarded-for"), "127.0.0.1");
    assert_eq!(stranger.one("x-forwarded-proto"), "http");
    assert_eq!(stranger.one("x-forwarded-host"), "shop.example");
    assert!(stranger.values("forwarded").is_empty(), "{stranger:?}");
    assert!(stranger.values("x-real-ip").is_empty(), "{stranger:?}");
    let trusted = seen_of_trusted(&call).await;
    assert_eq!(
        trusted.one("x-forwarded-for"),
        "10.0.0.1, 10.0.0.2, 127.0.0.1"
    );
    assert_eq!(trusted.one("x-forwarded-proto"), "https");
    assert_eq!(trusted.one("x-forwarded-host"), "public.example");
    assert_eq!(trusted.one("forwarded"), "for=10.0.0.1");
}

#[tokio::test]
async fn an_old_caller_without_host_cannot_name_one() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    caller
        .write("GET / HTTP/1.0\r\nX-Forwarded-Host: public.example\r\n\r\n")
        .await;
    assert_eq!(caller.answer().await.status, 201);
    let seen = upstream.only();
    assert!(seen.values("x-forwarded-host").is_empty(), "{seen:?}");
    assert_eq!(seen.one("host"), upstream.addr.to_string());
}

#[tokio::test]
async fn repeated_and_foreign_values_pass_byte_for_byte() {
    for base in [keyed_charge(), charge()] {
        let call = base
            .with("X-Many", "a, b")
            .with("X-Many", "")
            .with("X-Many", b"\xe9\xff\t;");
        let seen = seen("", &call.with("Cookie", "a=1").with("Authorization", "x")).await;
        assert_eq!(
            seen.values("x-many"),
            [b"a, b".as_slice(), b"", b"\xe9\xff\t;"]
        );
        assert_eq!(seen.one("cookie"), "a=1");
        assert_eq!(seen.one("authorization"), "x");
    }
}

#[tokio::test]
async fn any_method_may_have_a_body_and_none_is_given_one() {
    let read = seen("", &get("/").body("asked")).await;
    assert_eq!((read.text(), read.one("content-length")), ("asked", "5"));
    let delete = seen("", &call("DELETE", "/1")).await;
    assert!(delete.values("content-length").is_empty(), "{delete:?}");
    let put = seen("", &call("PUT", "/1")).await;
    assert_eq!(put.one("content-length"), "0");
}

#[tokio::test]
async fn a_request_body_may_be_absent_empty_or_chunked() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let absent = call("POST", "/v1/charges").key(KEY);
    for call in [absent.clone(), absent.clone().body("")] {
        let answer = gateway.send(&call).await;
        assert_eq!(answer.status, 201);
    }
    let mut caller = gateway.connect().await;
    let head = format!("POST /v1/charges HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {KEY}\r\n");
    caller
        .write(format!("{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
        .await;
    assert_eq!(
        caller.answer().await.replayed(),
        Some("true"),
        "one and the same request"
    );
    let seen = upstream.only();
    assert_eq!(seen.one("content-length"), "0");
    assert!(seen.values("transfer-encoding").is_empty());
}
