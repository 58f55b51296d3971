//! How an attempt ended, and what its caller, later callers and the operator are told of it.

use serde_json::Value;

use super::caller::{Answer, charge, get, keyed_charge};
use super::running::Gateway;
use super::upstream::{Exchange, Kept, Upstream, answer};

/// The answer to one keyed charge, and the gateway that gave it.
async fn ended(route: &str, upstream: &Upstream) -> (Gateway, Answer) {
    let gateway = Gateway::with(upstream.addr, route).await;
    let answer = gateway.send(&keyed_charge()).await;
    (gateway, answer)
}

/// Asserts that `first` and what follows are those of an unknown outcome without an answer.
async fn is_unknown(gateway: &Gateway, upstream: &Upstream, first: &Answer) {
    first.is_problem(504, "outcome-unknown", "unknown");
    assert!(!first.retryable(), "{first:?}");
    let later = gateway.send(&keyed_charge()).await;
    later.is_problem(409, "outcome-unknown", "unknown");
    assert_eq!(later.operation_id(), first.operation_id());
    assert_eq!(upstream.count(), 1, "nothing is sent again");
    let record = gateway.record().await;
    assert_eq!(record["id"], first.operation_id());
    assert_eq!(record["state"], "unknown");
    assert_eq!(record["effect"], "unknown");
    assert_eq!(record["status"], Value::Null);
    assert_eq!(
        record["expires_at"],
        Value::Null,
        "unknown records do not expire"
    );
    let other = gateway.send(&keyed_charge().body("{\"amount\":60}")).await;
    other.is_problem(422, "key-reused", "none");
}

// rule: a-refused-upstream-releases-the-key
#[tokio::test]
async fn an_upstream_that_takes_no_connection_is_503_and_the_key_is_free_again() {
    let nowhere = Upstream::nowhere().await;
    let gateway = Gateway::to(nowhere).await;
    let first = gateway.send(&keyed_charge()).await;
    first.is_problem(503, "upstream-unreachable", "none");
    assert!(first.retryable());
    assert_eq!(first.field("retry-after"), Some("1"));
    let record = gateway.record().await;
    assert_eq!(record["state"], "released");
    assert_eq!(record["effect"], "none");
    // Only the same request may have the key again.
    let other = gateway.send(&keyed_charge().body("{\"amount\":60}")).await;
    other.is_problem(422, "key-reused", "none");
    let again = gateway.send(&keyed_charge()).await;
    again.is_problem(503, "upstream-unreachable", "none");
    let unkeyed = gateway.send(&charge()).await;
    unkeyed.is_problem(503, "upstream-unreachable", "none");
}

async fn resetting(mut exchange: Exchange) -> Kept {
    exchange.read().await;
    exchange.reset()
}

// rule: a-lost-answer-is-unknown
#[tokio::test]
async fn an_answer_lost_in_a_reset_is_504_to_the_first_and_409_later() {
    let upstream = Upstream::start(resetting).await;
    let (gateway, first) = ended("", &upstream).await;
    is_unknown(&gateway, &upstream, &first).await;
}

// rule: a-cut-answer-is-unknown
#[tokio::test]
async fn an_answer_that_is_cut_or_malformed_is_unknown_and_never_passed_as_whole() {
    let cuts = [
        "",
        "HTTP/1.1 201 Created\r\nContent-Le",
        "HTTP/1.1 201 Created\r\nContent-Length: 20\r\n\r\nshort",
        "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\nxyz\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "nothing of HTTP\r\n\r\n",
    ];
    for cut in cuts {
        let upstream = Upstream::start(move |exchange| exchange.reply_and_close(cut)).await;
        let (gateway, first) = ended("", &upstream).await;
        is_unknown(&gateway, &upstream, &first).await;
    }
}

// rule: a-read-time-out-is-unknown
#[tokio::test]
async fn no_answer_within_the_response_or_idle_limit_is_unknown() {
    for begun in ["", "HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nbegun"] {
        let upstream = Upstream::start(move |mut exchange| async move {
            exchange.read().await;
            exchange.write(begun).await;
            exchange.until_closed().await;
            None
        })
        .await;
        let route = "timeouts = { response = \"100ms\", idle = \"100ms\" }";
        let (gateway, first) = ended(route, &upstream).await;
        is_unknown(&gateway, &upstream, &first).await;
    }
}

#[tokio::test]
async fn an_answer_without_length_that_ends_with_its_connection_is_whole() {
    let whole = "HTTP/1.1 201 Created\r\n\r\nuntil the end";
    let upstream = Upstream::start(move |exchange| exchange.reply_and_close(whole)).await;
    let (gateway, first) = ended("", &upstream).await;
    assert_eq!((first.status, first.text()), (201, "until the end"));
    assert_eq!(gateway.record().await["state"], "completed");
}

#[tokio::test]
async fn informational_answers_are_not_the_answer() {
    let all = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
               HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok";
    let upstream = Upstream::saying(all).await;
    let (_, first) = ended("", &upstream).await;
    assert_eq!((first.status, first.text()), (201, "ok"));
    assert_eq!(first.field("link"), None);
}

#[tokio::test]
async fn a_whole_answer_before_the_whole_request_counts() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.write(answer("403 Forbidden", "", "no")).await;
        exchange.until_closed().await;
        None
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    let begun = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";
    caller.write(begun).await;
    let first = caller.answer().await;
    assert_eq!((first.status, first.text()), (403, "no"));
}

struct Told {
    status: &'static str,
    head: &'static str,
    /// Written before the request was read.
    early: bool,
    state: &'static str,
    effect: &'static str,
}

const fn told(
    status: &'static str,
    head: &'static str,
    state: &'static str,
    effect: &'static str,
) -> Told {
    Told {
        status,
        head,
        early: false,
        state,
        effect,
    }
}

const ENDS: [Told; 21] = [
    told("200 OK", "", "completed", "applied"),
    told(
        "303 See Other",
        "Location: /made\r\n",
        "completed",
        "applied",
    ),
    told("302 Found", "Location: /made\r\n", "completed", "unknown"),
    told(
        "307 Temporary Redirect",
        "Location: /x\r\n",
        "released",
        "none",
    ),
    told(
        "308 Permanent Redirect",
        "Location: /x\r\n",
        "released",
        "none",
    ),
    told("400 Bad Request", "", "completed", "none"),
    told("404 Not Found", "", "completed", "none"),
    told("401 Unauthorized", "", "released", "none"),
    told(
        "429 Too Many Requests",
        "Retry-After: 7\r\n",
        "released",
        "none",
    ),
    told("408 Request Timeout", "", "unknown", "unknown"),
    told("500 Internal Server Error", "", "unknown", "unknown"),
    told("502 Bad Gateway", "", "unknown", "unknown"),
    told("504 Gateway Timeout", "", "unknown", "unknown"),
    told("503 Service Unavailable", "", "released", "none"),
    told(
        "503 Service Unavailable",
        "Via: 1.1 cache\r\n",
        "unknown",
        "unknown",
    ),
    told(
        "503 Service Unavailable",
        "Server: envoy\r\n",
        "unknown",
        "unknown",
    ),
    told(
        "503 Service Unavailable",
        "Server: Varnish\r\n",
        "unknown",
        "unknown",
    ),
    told(
        "503 Service Unavailable",
        "Proxy-Status: edge; error=connection_terminated\r\n",
        "unknown",
        "unknown",
    ),
    told(
        "503 Service Unavailable",
        "Server: nginx\r\n",
        "released",
        "none",
    ),
    told("204 No Content", "", "completed", "applied"),
    Told {
        status: "408 Request Timeout",
        head: "Connection: close\r\n",
        early: true,
        state: "released",
        effect: "none",
    },
];

/// An upstream that answers as `told`.
async fn telling(told: &Told) -> Upstream {
    let body = if told.status.starts_with("204") {
        ""
    } else {
        "told"
    };
    let bytes = match body {
        "" => format!("HTTP/1.1 {}\r\n{}\r\n", told.status, told.head),
        body => answer(told.status, told.head, body),
    };
    let early = told.early;
    Upstream::start(move |mut exchange| {
        let bytes = bytes.clone();
        async move {
            if !early {
                return exchange.reply(bytes).await;
            }
            exchange.write(bytes).await;
            exchange.until_closed().await;
            None
        }
    })
    .await
}

#[tokio::test]
async fn each_status_leaves_the_record_that_the_table_says() {
    for told in &ENDS {
        let upstream = telling(told).await;
        let gateway = Gateway::with(upstream.addr, "body_limit = \"32MiB\"").await;
        let mut call = keyed_charge();
        if told.early {
            call = call.body(vec![b'x'; 16 * 1024 * 1024]);
        }
        let first = gateway.send(&call).await;
        let case = format!("{} {}", told.status, told.head);
        assert!(told.status.starts_with(&first.status.to_string()), "{case}");
        assert_eq!(first.replayed(), Some("false"), "{case}");
        let marked = (told.effect == "unknown").then_some("unknown");
        assert_eq!(first.effect(), marked, "{case}");
        assert_eq!(first.field("steadfast-attempts"), Some("1"), "{case}");
        let record = gateway.record().await;
        assert_eq!(record["state"], told.state, "{case}");
        assert_eq!(record["effect"], told.effect, "{case}");
        let second = gateway.send(&call).await;
        assert_eq!(
            (second.status, &second.body),
            (first.status, &first.body),
            "{case}"
        );
        let released = told.state == "released";
        let marker = if released { "false" } else { "true" };
        assert_eq!(second.replayed(), Some(marker), "{case}");
        assert_eq!(second.effect(), marked, "{case}");
        assert_eq!(upstream.count(), if released { 2 } else { 1 }, "{case}");
    }
}

// rule: a-keyless-write-without-answer-is-unknown-a-read-is-not
#[tokio::test]
async fn without_a_key_a_lost_answer_is_unknown_to_a_post_and_harmless_to_a_get() {
    let upstream = Upstream::start(resetting).await;
    let gateway = Gateway::to(upstream.addr).await;
    let post = gateway.send(&charge()).await;
    post.is_problem(504, "outcome-unknown", "unknown");
    assert!(!post.retryable());
    let read = gateway.send(&get("/v1/charges")).await;
    read.is_problem(502, "upstream-failed", "none");
    assert!(read.retryable());
    let delete = gateway
        .send(&super::caller::call("DELETE", "/v1/charges/1"))
        .await;
    delete.is_problem(502, "upstream-failed", "unknown");
    let sent = upstream.seen();
    let times = |method: &str| sent.iter().filter(|seen| seen.method == method).count();
    assert_eq!(
        times("POST"),
        1,
        "what may have been executed is not sent twice"
    );
    assert_eq!(
        (times("GET"), times("DELETE")),
        (3, 3),
        "what is idempotent is"
    );
}
