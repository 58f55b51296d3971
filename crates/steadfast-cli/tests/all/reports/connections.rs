//! Reports about bytes that were taken for a request or an answer, and fields of one hop.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::gateway::caller::{KEY, get, keyed_charge};
use crate::gateway::running::{Gateway, config};
use crate::gateway::upstream::{Upstream, answer};
use crate::listen::raw::{answers, rest};

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// A POST with `fields` whose body is a request.
fn hiding(path: &str, fields: &str) -> String {
    let length = SMUGGLED.len();
    format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\n\r\n{SMUGGLED}")
}

// CVE-2025-4366 (cloudflare/pingora): a body that was not read, since the answer was known, was
// taken for the next request on its connection.
#[tokio::test]
async fn a_body_that_nobody_needed_is_never_taken_for_a_request() {
    let upstream = Upstream::charging().await;
    let text = format!(
        "{}idempotency = {{ mode = \"required\" }}\nbody_limit = \"8B\"\n",
        config(upstream.addr, "").replace("/{*rest}", "/v1/{*rest}")
    );
    let gateway = Gateway::start(&text).await;
    let key = format!("Idempotency-Key: {KEY}\r\n");
    let cases = [
        ("/v1/x", String::new(), 400),
        ("/v1/x", "Idempotency-Key: weak\r\n".to_owned(), 400),
        ("/v1/../x", key.clone(), 400),
        ("/elsewhere", key.clone(), 404),
        ("/.steadfast/operations/1", key.clone(), 405),
        ("/v1/x", format!("{key}Request-Timeout-Ms: 0\r\n"), 504),
        ("/v1/x", format!("{key}Cookie: a=1\r\n"), 400),
        ("/v1/x", format!("{key}Connection: host\r\n"), 400),
        ("/v1/x", key, 413),
    ];
    for (path, fields, status) in cases {
        let mut stream = TcpStream::connect(gateway.data)
            .await
            .expect("a connection");
        let last = "GET /v1/last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let all = hiding(path, &fields) + last;
        stream.write_all(all.as_bytes()).await.expect("a write");
        let told = answers(&rest(&mut stream).await);
        assert_eq!(told[0].status, status, "{path} {fields}");
        // Either the connection ends, or what comes behind the body is the next request.
        assert!(told.len() <= 2, "{path} {fields}: {told:?}");
        let reached = upstream.seen();
        assert!(reached.iter().all(|seen| seen.target == "/v1/last"));
    }
}

// CVE-2025-4366 (cloudflare/pingora): the same, where the answer came out of the store.
#[tokio::test]
async fn the_body_behind_a_replay_is_never_taken_for_a_request() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let keyed = hiding("/v1/x", &format!("Idempotency-Key: {KEY}\r\n"));
    let mut caller = gateway.connect().await;
    for marker in ["false", "true", "true"] {
        caller.write(&keyed).await;
        assert_eq!(caller.answer().await.replayed(), Some(marker));
    }
    assert_eq!(caller.ask(&get("/v1/last")).await.status, 201);
    let targets: Vec<_> = upstream
        .seen()
        .into_iter()
        .map(|seen| seen.target)
        .collect();
    assert_eq!(targets, ["/v1/x", "/v1/last"]);
}

// CVE-2025-4366 (cloudflare/pingora), h2o/h2o#2010: the service answered while the body was coming.
#[tokio::test]
async fn the_rest_of_a_body_behind_an_early_answer_is_never_taken_for_a_request() {
    let upstream = Upstream::start(|mut exchange| async move {
        exchange.write(answer("403 Forbidden", "", "no")).await;
        exchange.until_closed().await;
        None
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut stream = TcpStream::connect(gateway.data)
        .await
        .expect("a connection");
    let length = 5 + SMUGGLED.len();
    let begun = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\nbegun");
    stream.write_all(begun.as_bytes()).await.expect("a write");
    upstream.until_count(1).await;
    // A front that has closed already refuses the rest, which is as good.
    let _ = stream.write_all(SMUGGLED.as_bytes()).await;
    let told = answers(&rest(&mut stream).await);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].status, 403);
    assert_eq!(upstream.only().target, "/");
}

fn upgrading(call: crate::gateway::caller::Call) -> crate::gateway::caller::Call {
    call.with("Connection", "keep-alive, Upgrade, X-Hop")
        .with("Upgrade", "websocket")
        .with("X-Hop", "1")
}

// CVE-2026-2833 (cloudflare/pingora): after a request that asked for an upgrade, everything was
// tunnelled before the service had agreed.
// envoyproxy/envoy#44525: for such a request, what Connection names was not taken off.
#[tokio::test]
async fn a_request_that_asks_for_an_upgrade_tunnels_nothing() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let malformed = "GET /smuggled HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
    for call in [get("/"), keyed_charge()] {
        let mut caller = gateway.connect().await;
        let both = [upgrading(call).bytes(), malformed.into()].concat();
        caller.write(both).await;
        assert_eq!(caller.answer().await.status, 201);
        caller.answer().await.is_problem(400, "bad-request", "none");
    }
    for seen in upstream.seen() {
        assert_ne!(seen.target, "/smuggled");
        for name in ["connection", "upgrade", "x-hop"] {
            assert!(seen.values(name).is_empty(), "{seen:?}");
        }
    }
    assert_eq!(upstream.count(), 2);
}

// CVE-2026-2833 (cloudflare/pingora): what a service says behind a 101 that was not asked of it is
// nobody's answer.
#[tokio::test]
async fn an_upgrade_that_the_service_grants_unasked_is_no_answer_and_nothing_follows_it() {
    let granted = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
                   Upgrade: websocket\r\n\r\n\
                   HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    let upstream = Upstream::saying(granted).await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    let answer = caller.ask(&upgrading(get("/"))).await;
    answer.is_problem(502, "upstream-failed", "none");
    let keyed = caller.ask(&upgrading(keyed_charge())).await;
    keyed.is_problem(504, "outcome-unknown", "unknown");
    let sent = upstream.seen();
    let times = |method: &str| sent.iter().filter(|seen| seen.method == method).count();
    assert_eq!((times("GET"), times("POST")), (3, 1));
}

// golang/go#50580: what Connection named was taken off after the proxy had written its own fields,
// so that a caller could have those taken off.
#[tokio::test]
async fn a_connection_field_takes_nothing_off_that_the_gateway_itself_writes() {
    let ours = [
        "via",
        "x-forwarded-proto",
        "x-forwarded-host",
        "request-timeout-ms",
        "steadfast-attempt",
        "idempotency-fence",
        "accept-encoding",
    ];
    let marks = "Connection: idempotent-replayed, steadfast-attempts, date\r\n";
    let upstream = Upstream::saying(&answer("200 OK", marks, "")).await;
    let gateway = Gateway::to(upstream.addr).await;
    let call = keyed_charge().with("Connection", ours.join(", "));
    for marker in ["false", "true"] {
        let answer = gateway.send(&call).await;
        assert_eq!(answer.replayed(), Some(marker));
        let attempts = (marker == "false").then_some("1");
        assert_eq!(answer.field("steadfast-attempts"), attempts);
    }
    let seen = upstream.only();
    for name in ours {
        assert!(!seen.one(name).is_empty(), "{name}: {seen:?}");
    }
}

// litespeedtech/openlitespeed#392: an answer in chunks went on with a Content-Length besides.
#[tokio::test]
async fn an_answer_with_two_framings_goes_on_with_one_and_its_connection_is_not_used_again() {
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n\
                4\r\nmade\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    let upstream = Upstream::saying(both).await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    for call in [get("/"), keyed_charge(), keyed_charge(), get("/")] {
        let answer = caller.ask(&call).await;
        assert_eq!((answer.status, answer.text()), (200, "made"));
        let chunked = answer.field("transfer-encoding").is_some();
        assert!(chunked != answer.field("content-length").is_some());
    }
    assert_eq!(upstream.count(), 3);
}
