//! Reports about which request counts as the same.

use tokio::task::yield_now;

use crate::gateway::caller::{Call, KEY, call, charge, keyed_charge};
use crate::gateway::running::Gateway;
use crate::gateway::upstream::{Upstream, answer};

/// Sent after `first` under its key, `second` is the same request, or another.
async fn meets(first: Call, second: Call) -> bool {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let made = gateway.send(&first.key(KEY)).await;
    assert_eq!((made.status, made.replayed()), (201, Some("false")));
    let met = gateway.send(&second.key(KEY)).await;
    assert_eq!(upstream.count(), 1, "{met:?}");
    if met.status == 201 {
        assert_eq!((met.replayed(), &met.body), (Some("true"), &made.body));
        return true;
    }
    met.is_problem(422, "key-reused", "none");
    false
}

fn of_type(kind: &str, body: impl AsRef<[u8]>) -> Call {
    let call = call("POST", "/v1/charges").with("Content-Type", kind);
    call.body(body)
}

/// The report, the type, two bodies, whether they are one request.
type Row = (&'static str, &'static str, &'static str, &'static str, bool);

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

const BODIES: [Row; 12] = [
    // A canonical form that sorts the elements of arrays makes two requests one.
    (
        "aws-powertools/powertools-lambda-typescript#2570",
        JSON,
        "[1,2]",
        "[2,1]",
        false,
    ),
    // Joined without lengths, two different forms look alike.
    (
        "xavierjohn/Trellis#549",
        FORM,
        "a=&a=b&c=",
        "a=&b=c&b=",
        false,
    ),
    (
        "xavierjohn/Trellis#549",
        FORM,
        "a=b%26c=d",
        "a=b&c=d",
        false,
    ),
    // Sorting by code points and by UTF-16 units differ; member order must not matter in either.
    (
        "modelcontextprotocol/modelcontextprotocol#3004",
        JSON,
        "{\"\u{1F600}\":1,\"\u{E000}\":2}",
        "{\"\u{E000}\":2,\"\u{1F600}\":1}",
        true,
    ),
    // Duplicate names mean different things to different readers.
    (
        "matrix-org/matrix-spec-proposals#4458",
        JSON,
        "{\"a\":1,\"a\":2}",
        "{\"a\":2,\"a\":1}",
        false,
    ),
    (
        "matrix-org/matrix-spec-proposals#4458",
        JSON,
        "{\"a\":1,\"a\":2}",
        "{\"a\":2}",
        false,
    ),
    // No Unicode normalisation: two spellings of one letter are two strings.
    (
        "a2aproject/A2A#1769",
        JSON,
        "{\"a\":\"\u{e9}\"}",
        "{\"a\":\"e\u{301}\"}",
        false,
    ),
    // What is falsy is not missing.
    (
        "aws-powertools/powertools-lambda-python#8090",
        JSON,
        "{}",
        "",
        false,
    ),
    (
        "aws-powertools/powertools-lambda-python#8090",
        JSON,
        "{\"a\":null}",
        "{}",
        false,
    ),
    (
        "aws-powertools/powertools-lambda-python#8090",
        JSON,
        "{\"a\":0}",
        "{\"a\":false}",
        false,
    ),
    (
        "aws-powertools/powertools-lambda-python#8090",
        JSON,
        "{\"a\":\"\"}",
        "{\"a\":null}",
        false,
    ),
    // The amount was tampered with, and the fast path did not compare.
    (
        "aws-powertools/powertools-lambda-python#3781",
        JSON,
        "{\"amount\":50}",
        "{\"amount\":50.01}",
        false,
    ),
];

#[tokio::test]
async fn bodies_that_mean_another_thing_are_another_request_and_no_others() {
    for (report, kind, first, second, same) in BODIES {
        let met = meets(of_type(kind, first), of_type(kind, second)).await;
        assert_eq!(met, same, "{report}: {first} and {second}");
    }
}

fn upload(boundary: &str, name: &str, bytes: &str) -> Call {
    let part = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: text/csv\r\n\r\n{bytes}\r\n--{boundary}--\r\n"
    );
    of_type(&format!("multipart/form-data; boundary={boundary}"), part)
}

// chatvector-ai/chatvector-ai#520: each retry of an upload has a new boundary, and was refused.
#[tokio::test]
async fn an_upload_retried_with_another_boundary_is_the_same_request() {
    let first = upload("----one", "a.csv", "1,2");
    assert!(meets(first.clone(), upload("----two", "a.csv", "1,2")).await);
    assert!(!meets(first.clone(), upload("----one", "b.csv", "1,2")).await);
    assert!(!meets(first, upload("----two", "a.csv", "1,3")).await);
}

// xavierjohn/Trellis#549: pairs of a query joined by their delimiters were taken for other pairs.
#[tokio::test]
async fn a_query_counts_byte_for_byte() {
    let with = |query: &str| call("POST", &format!("/v1/charges?{query}")).body("{}");
    assert!(meets(with("a=&a=b&c="), with("a=&a=b&c=")).await);
    assert!(!meets(with("a=&a=b&c="), with("a=&b=c&b=")).await);
    assert!(!meets(with("a=1"), with("a=1&")).await);
    assert!(!meets(with(""), call("POST", "/v1/charges").body("{}")).await);
}

// ietf-wg-httpapi/idempotency#37: whether the target belongs to what a key names was left open.
#[tokio::test]
async fn an_escaped_slash_is_no_slash_and_its_two_spellings_are_one_operation() {
    let to = |path: &str| call("POST", path).body("{}");
    assert!(!meets(to("/v1/a%2fb"), to("/v1/a%2Fb")).await);
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    for path in ["/v1/a%2fb", "/v1/a/b", "/v1/a/b/"] {
        let answer = gateway.send(&to(path).key(KEY)).await;
        assert_eq!(answer.replayed(), Some("false"), "{path}");
    }
}

/// `body` in chunks of `length` bytes.
fn chunked(body: &str, length: usize) -> Vec<u8> {
    let head = format!(
        "POST /v1/charges HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {KEY}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let chunks = body.as_bytes().chunks(length).map(|chunk| {
        let text = std::str::from_utf8(chunk).expect("ASCII");
        format!("{:x}\r\n{text}\r\n", chunk.len())
    });
    let all: String = chunks.collect();
    format!("{head}{all}0\r\n\r\n").into_bytes()
}

// ikyriak/IdempotentAPI#38: a body of more than 30 kB was hashed as far as it had been read.
// linkerd/linkerd2#15649: a body that was kept for sending was sent twice within one request.
#[tokio::test]
async fn a_body_of_40_kb_is_one_request_however_it_is_cut_and_is_sent_once() {
    let body = format!("{{\"items\":[{}0]}}", "12345678,".repeat(4_500));
    assert!(body.len() > 40_000);
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let whole = gateway.send(&charge().body(&body).key(KEY)).await;
    assert_eq!((whole.status, whole.replayed()), (201, Some("false")));
    for length in [1, 1_000, 16_384, 100_000] {
        let mut caller = gateway.connect().await;
        for piece in chunked(&body, length).chunks(7_001) {
            caller.write(piece).await;
            yield_now().await;
        }
        let again = caller.answer().await;
        assert_eq!((again.status, again.replayed()), (201, Some("true")));
    }
    let seen = upstream.only();
    assert_eq!(seen.text(), body);
    assert_eq!(seen.one("content-length"), body.len().to_string());
    // The last byte counts.
    let other = body.replace("0]}", "1]}");
    let other = gateway.send(&charge().body(other).key(KEY)).await;
    other.is_problem(422, "key-reused", "none");
}

// runvendo/vendo#1297: who used the key for something else was told "conflict", and his write
// stood.
#[tokio::test]
async fn another_body_is_refused_as_such_while_the_first_is_at_work_even_if_it_has_to_be_asked_for()
{
    let (upstream, gate) = Upstream::held(&answer("201 Created", "", "made")).await;
    let route = "idempotency = { in_flight = \"conflict\" }";
    let gateway = Gateway::with(upstream.addr, route).await;
    let mut first = gateway.connect().await;
    first.write(keyed_charge().bytes()).await;
    upstream.until_count(1).await;
    for (amount, slug) in [("50", "in-progress"), ("60", "key-reused")] {
        let mut other = gateway.connect().await;
        let expecting = format!(
            "POST /v1/charges HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
             Idempotency-Key: {KEY}\r\nContent-Length: 13\r\nExpect: 100-continue\r\n\r\n"
        );
        other.write(expecting).await;
        assert_eq!(other.answer().await.status, 100);
        other.write(format!("{{\"amount\":{amount}}}")).await;
        assert_eq!(other.answer().await.slug(), slug);
    }
    gate.add_permits(1);
    assert_eq!(first.answer().await.status, 201);
    assert_eq!(upstream.count(), 1);
}

// VilledeMontreal/express-idempotency: a field of the request said whether it had been a hit, and
// callers could send it.
#[tokio::test]
async fn what_a_caller_says_of_replays_and_effects_changes_nothing() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let claims = keyed_charge()
        .with("Idempotent-Replayed", "true")
        .with("X-Hit", "1")
        .with("Steadfast-Effect", "unknown")
        .with("Steadfast-Attempts", "9");
    for marker in ["false", "true"] {
        let answer = gateway.send(&claims).await;
        assert_eq!((answer.status, answer.replayed()), (201, Some(marker)));
        assert_eq!(answer.effect(), None);
    }
    assert_eq!(gateway.send(&keyed_charge()).await.replayed(), Some("true"));
    assert_eq!(upstream.count(), 1);
}

// mikesvoboda/nemotron-v3-home-security-intelligence#2959, KanishJebaMathewM/Truxify#15676: neither
// length nor characters of a key were looked at before it became part of a name in the store.
#[tokio::test]
async fn a_key_that_is_huge_or_would_break_out_of_a_name_is_refused_and_keeps_nothing() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let huge = "aZ3".repeat(33_334);
    let keys: [&[u8]; 6] = [
        huge.as_bytes(),
        b"0f8fad5b-d9cb-469f\x00-a165-70867728950e",
        b"0f8fad5b-d9cb-469f\x7f-a165-70867728950e",
        b"\"0f8fad5b-d9cb-469f\x1b[2J-a165\"",
        b"0f8fad5b-d9cb-469f-a165\t70867728950e",
        "0f8fad5b-d9cb-469f-a165-70867728950\u{e9}".as_bytes(),
    ];
    for key in keys {
        let mut caller = gateway.connect().await;
        let answer = caller.ask(&charge().with("Idempotency-Key", key)).await;
        assert_eq!((answer.status, answer.effect()), (400, Some("none")));
    }
    // Inside the rules, such text is a key like others.
    for key in ["../../etc/passwd-9f2Kq7", "a:b:c*{9f2Kq7xL}%00%0a"] {
        let first = gateway.send(&charge().key(key)).await;
        assert_eq!((first.status, first.replayed()), (201, Some("false")));
        assert_eq!(
            gateway.send(&charge().key(key)).await.replayed(),
            Some("true")
        );
    }
    assert_eq!(upstream.count(), 2);
    assert_eq!(gateway.records().await.len(), 2);
}
