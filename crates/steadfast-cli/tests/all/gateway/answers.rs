//! What of an answer reaches its callers, first and later.

use super::caller::{Answer, charge, get, keyed_charge};
use super::running::Gateway;
use super::upstream::{Upstream, answer};

const LONG_AGO: &str = "Mon, 01 Jan 2001 00:00:00 GMT";

/// The first and the second answer to a keyed charge that the upstream answers with `head`.
async fn twice(head: &str) -> (Answer, Answer) {
    let upstream = Upstream::saying(&answer("201 Created", head, "made")).await;
    let gateway = Gateway::to(upstream.addr).await;
    let first = gateway.send(&keyed_charge()).await;
    let second = gateway.send(&keyed_charge()).await;
    assert_eq!(
        (first.replayed(), second.replayed()),
        (Some("false"), Some("true"))
    );
    assert_eq!(upstream.count(), 1);
    (first, second)
}

// rule: what-was-the-first-caller-s-is-not-replayed
#[tokio::test]
async fn cookies_dates_and_ids_are_the_first_caller_s_and_the_rest_is_everybody_s() {
    let of_the_exchange = [
        ("set-cookie", "session=1"),
        ("date", LONG_AGO),
        ("age", "3"),
        ("www-authenticate", "Basic"),
        ("x-request-id", "17"),
        ("traceparent", "00-1-2-03"),
        ("x-ratelimit-remaining", "4"),
        ("ratelimit", "limit=5"),
    ];
    let of_the_operation = [
        ("location", "/charges/1"),
        ("etag", "\"1\""),
        ("link", "</a>; rel=next"),
        ("content-type", "text/plain"),
        ("x-custom", "a, b"),
        ("cache-control", "no-cache"),
    ];
    let all = of_the_exchange.iter().chain(&of_the_operation);
    let head: String = all
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let (first, second) = twice(&head).await;
    for (name, value) in of_the_exchange {
        assert_eq!(first.field(name), Some(value));
        assert_ne!(second.field(name), Some(value));
    }
    for (name, value) in of_the_operation {
        assert_eq!(first.field(name), Some(value));
        assert_eq!(second.field(name), Some(value));
    }
}

// rule: an-upstream-does-not-speak-for-steadfast
#[tokio::test]
async fn the_upstream_s_own_marks_are_not_passed_on() {
    let head = "Steadfast-Effect: applied\r\nSteadfast-Attempts: 9\r\nSteadfast-Other: x\r\n\
                Idempotent-Replayed: true\r\n";
    let (first, second) = twice(head).await;
    for answer in [&first, &second] {
        assert_eq!(answer.effect(), None);
        assert_eq!(answer.field("steadfast-other"), None);
    }
    assert_eq!(first.field("steadfast-attempts"), Some("1"));
    let upstream = Upstream::saying(&answer("200 OK", head, "")).await;
    let gateway = Gateway::to(upstream.addr).await;
    for call in [charge(), get("/")] {
        let unkeyed = gateway.send(&call).await;
        assert_eq!((unkeyed.effect(), unkeyed.replayed()), (None, None));
        assert_eq!(unkeyed.field("steadfast-other"), None);
        assert_eq!(unkeyed.field("steadfast-attempts"), Some("1"));
    }
}

// rule: fields-of-the-upstream-s-hop-do-not-reach-the-caller
#[tokio::test]
async fn fields_of_the_upstream_s_hop_end_at_the_gateway() {
    let head = "Connection: X-One, keep-alive\r\nConnection: x-two\r\nX-One: 1\r\nX-Two: 2\r\n\
                Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nProxy-Connection: close\r\n\
                Upgrade: h2c\r\nX-Three: 3\r\n";
    let (first, second) = twice(head).await;
    let upstream = Upstream::saying(&answer("200 OK", head, "")).await;
    let unkeyed = Gateway::to(upstream.addr).await.send(&get("/")).await;
    for answer in [first, second, unkeyed] {
        assert_eq!(answer.field("x-three"), Some("3"));
        for name in [
            "connection",
            "x-one",
            "x-two",
            "keep-alive",
            "proxy-authenticate",
            "proxy-connection",
            "upgrade",
        ] {
            assert_eq!(answer.field(name), None, "{name}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn repeated_and_foreign_values_are_kept_byte_for_byte_also_in_a_replay() {
    let mut bytes = b"HTTP/1.1 201 Created\r\nX-Many: a, b\r\nX-Many:\r\nX-Many: \xe9\xff\t;\r\n\
                      Link: </a>\r\nLink: </b>\r\nContent-Length: 4\r\n\r\n"
        .to_vec();
    bytes.extend_from_slice(b"\x00\xff\r\n");
    let script_bytes = bytes.clone();
    let upstream = Upstream::start(move |exchange| exchange.reply(script_bytes.clone())).await;
    let gateway = Gateway::to(upstream.addr).await;
    for call in [keyed_charge(), keyed_charge(), charge()] {
        let answer = gateway.send(&call).await;
        let values = |name| -> Vec<&[u8]> {
            let values = answer.headers.get_all(name).iter();
            values.map(http::HeaderValue::as_bytes).collect()
        };
        assert_eq!(values("x-many"), [b"a, b".as_slice(), b"", b"\xe9\xff\t;"]);
        assert_eq!(values("link"), [b"</a>", b"</b>"]);
        assert_eq!(answer.body, b"\x00\xff\r\n");
    }
}

#[tokio::test]
async fn a_replay_has_one_framing_however_the_answer_came() {
    let chunked = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
                   2\r\nma\r\n2\r\nde\r\n0\r\nx-sum: 4\r\n\r\n";
    let upstream = Upstream::saying(chunked).await;
    let gateway = Gateway::to(upstream.addr).await;
    for _ in 0..2 {
        let answer = gateway.send(&keyed_charge()).await;
        assert_eq!(answer.text(), "made");
        assert_eq!(answer.field("content-length"), Some("4"));
        assert_eq!(answer.field("transfer-encoding"), None);
        assert_eq!(answer.field("trailer"), None, "there are none to come");
    }
}

#[tokio::test]
async fn trailers_of_a_keyless_answer_reach_a_caller_who_takes_them() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
                   4\r\nmade\r\n0\r\nx-sum: 4\r\n\r\n";
    let upstream = Upstream::saying(chunked).await;
    let gateway = Gateway::to(upstream.addr).await;
    for (te, sum) in [("trailers", Some("4")), ("gzip", None)] {
        let answer = gateway
            .send(&get("/").with("TE", te).with("Connection", "TE"))
            .await;
        assert_eq!(answer.text(), "made");
        assert_eq!(answer.field("x-sum"), sum, "{answer:?}");
    }
}
