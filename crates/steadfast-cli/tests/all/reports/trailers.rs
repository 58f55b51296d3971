//! Reports about fields that stand behind a body.

use crate::gateway::running::{Gateway, config};
use crate::gateway::upstream::Upstream;

/// What only a head may say, or only the gateway.
const NOT_TO_TRAIL: [&str; 16] = [
    "Idempotency-Fence",
    "Idempotency-Key",
    "Idempotent-Replayed",
    "Steadfast-Attempt",
    "Steadfast-Effect",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "Forwarded",
    "Via",
    "X-Tenant",
    "Authorization",
    "Cookie",
    "Set-Cookie",
    "Connection",
    "Request-Timeout-Ms",
];

/// A chunked body of `abc`, announced with all that trails it.
fn trailed(start: &str) -> String {
    let announced = NOT_TO_TRAIL.join(", ");
    let fields: String = NOT_TO_TRAIL
        .iter()
        .map(|name| format!("{name}: 9\r\n"))
        .collect();
    format!(
        "{start}Transfer-Encoding: chunked\r\nTrailer: X-Sum, {announced}\r\n\
         Trailer: {announced}\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 6\r\n{fields}\r\n"
    )
}

// zoxy-io/zoxy#244: fields that the proxy writes or guards in the head passed unseen behind the
// body, where a service that puts both together took them for its word.
// CVE-2013-5704 (Apache httpd): trailers replaced fields of the head that had been checked.
#[tokio::test]
async fn what_only_a_head_may_say_does_not_pass_behind_a_body_on_either_way() {
    let told = trailed("HTTP/1.1 200 OK\r\n");
    let upstream = Upstream::saying(&told).await;
    let text = config(upstream.addr, "principal = \"header:X-Tenant\"");
    let gateway = Gateway::start(&format!("trusted_peers = [\"127.0.0.1\"]\n{text}")).await;
    let mut caller = gateway.connect().await;
    caller
        .write(trailed("POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n"))
        .await;
    let answer = caller.answer().await;
    assert_eq!((answer.status, answer.text()), (200, "abc"));
    assert_eq!(answer.field("x-sum"), Some("6"));
    let seen = upstream.only();
    assert_eq!((seen.text(), seen.one("x-sum")), ("abc", "6"));
    for name in NOT_TO_TRAIL {
        // A tenant is the service's to name, and the caller's only through a trusted peer's head.
        let named = name == "X-Tenant" || answer.field(name) != Some("9");
        assert!(named, "{name}: {answer:?}");
        assert!(
            !seen.values(name).contains(&b"9".as_slice()),
            "{name}: {seen:?}"
        );
    }
}
