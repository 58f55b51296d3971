//! The caller's deadline: whether work starts, how long its caller waits, what the next hop is
//! told.

use super::caller::{Answer, Call, KEY, charge, get, keyed_charge};
use super::running::Gateway;
use super::upstream::{Upstream, answer};

const FIELDS: [&str; 3] = [
    "Request-Timeout-Ms",
    "X-Envoy-Expected-Rq-Timeout-Ms",
    "grpc-timeout",
];

/// A value of the `at`th field.
fn value(at: usize, ms: u32) -> String {
    match FIELDS[at] {
        "grpc-timeout" => format!("{ms}m"),
        _ => ms.to_string(),
    }
}

// rule: a-spent-deadline-starts-nothing
#[tokio::test]
async fn a_deadline_of_zero_is_refused_before_any_work_and_the_smallest_wins() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    for zero in 0..FIELDS.len() {
        for call in [keyed_charge(), charge(), get("/")] {
            let fields = (0..FIELDS.len()).map(|at| (at, if at == zero { 0 } else { 60_000 }));
            let call = fields.fold(call, |call, (at, ms)| call.with(FIELDS[at], value(at, ms)));
            let answer = gateway.send(&call).await;
            answer.is_problem(504, "deadline-exceeded", "none");
            assert!(answer.retryable());
        }
    }
    assert_eq!(upstream.count(), 0);
    assert!(gateway.records().await.is_empty());
}

// rule: a-malformed-deadline-is-ignored
#[tokio::test]
async fn a_malformed_deadline_is_ignored() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    for bad in ["", "-1", "+0", "0.0", "0ms", "soon", "0 0"] {
        for field in FIELDS {
            let answer = gateway.send(&charge().with(field, bad)).await;
            assert_eq!(answer.status, 201, "{field}: {bad}");
        }
    }
}

/// What the upstream is told of a call's deadline, by its three fields.
async fn told(route: &str, call: Call) -> (u64, Option<String>, Option<String>) {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::with(upstream.addr, route).await;
    assert_eq!(gateway.send(&call).await.status, 201);
    let seen = upstream.only();
    let other = |name: &str| {
        let value = seen.headers.get(name)?;
        Some(value.to_str().expect("text").to_owned())
    };
    let ms = seen.one("request-timeout-ms").parse().expect("digits");
    (ms, other(FIELDS[1]), other(FIELDS[2]))
}

// rule: what-remains-travels-less-the-margin
#[tokio::test]
async fn a_keyless_attempt_is_told_what_remains_less_the_margin_within_its_own_limit() {
    let route = "margin = \"100ms\"\ndeadline = \"60s\"\n\
                 timeouts = { attempt = \"40s\", response = \"40s\" }";
    let (ms, envoy, grpc) = told(route, charge()).await;
    assert!((1..=39_900).contains(&ms), "{ms}");
    assert_eq!((envoy, grpc), (None, None), "only where they came in");
    let (ms, envoy, grpc) = told(route, charge().with(FIELDS[0], "30000")).await;
    assert!((1..=29_900).contains(&ms), "{ms}");
    assert_eq!((envoy, grpc), (None, None));
    let all = charge()
        .with(FIELDS[0], "99999999999")
        .with(FIELDS[1], "30000");
    let (ms, envoy, grpc) = told(route, all.with(FIELDS[2], "50S")).await;
    assert!((1..=29_900).contains(&ms), "{ms}");
    assert_eq!(envoy, Some(ms.to_string()));
    assert_eq!(grpc, Some(format!("{ms}m")));
    // The route's own deadline is the ceiling.
    let (ms, ..) = told(
        "deadline = \"10s\"",
        charge().with(FIELDS[0], "99999999999"),
    )
    .await;
    assert!((1..=9_995).contains(&ms), "{ms}");
}

// rule: keyed-work-is-told-the-route-s-own-limits
#[tokio::test]
async fn a_keyed_attempt_is_told_the_route_s_own_limits_not_its_caller_s() {
    let route = "deadline = \"1h\"\ntimeouts = { attempt = \"40m\" }";
    let call = keyed_charge()
        .with(FIELDS[0], "60000")
        .with(FIELDS[1], "60000");
    let (ms, envoy, _) = told(route, call).await;
    assert!((60_001..=40 * 60_000).contains(&ms), "{ms}");
    assert_eq!(envoy, Some(ms.to_string()));
}

/// Sends calls with longer and longer deadlines until one was dispatched; its answer.
async fn overdue(gateway: &Gateway, call: &Call) -> Answer {
    for ms in [50, 400, 3_200, 25_600] {
        let answer = gateway
            .send(&call.clone().with(FIELDS[0], ms.to_string()))
            .await;
        if answer.effect() == Some("unknown") {
            return answer;
        }
        answer.is_problem(504, "deadline-exceeded", "none");
    }
    panic!("not dispatched within 25 s");
}

// rule: a-first-caller-whose-deadline-ends-is-told-to-come-again
#[tokio::test]
async fn a_first_caller_whose_deadline_ends_gets_504_with_the_operation_and_later_the_replay() {
    let (upstream, gate) = Upstream::held(&answer("201 Created", "", "made")).await;
    let gateway = Gateway::to(upstream.addr).await;
    let first = overdue(&gateway, &keyed_charge()).await;
    first.is_problem(504, "outcome-unknown", "unknown");
    assert!(first.retryable());
    assert_eq!(gateway.record().await["id"], first.operation_id());
    gate.add_permits(100);
    let second = gateway.send(&keyed_charge()).await;
    assert_eq!((second.status, second.text()), (201, "made"));
    assert_eq!(second.replayed(), Some("true"));
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_waiting_duplicate_whose_deadline_ends_is_409_in_progress() {
    let (upstream, gate) = Upstream::held(&answer("201 Created", "", "made")).await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut first = gateway.connect().await;
    first.write(keyed_charge().bytes()).await;
    upstream.until_count(1).await;
    let second = overdue(&gateway, &keyed_charge()).await;
    second.is_problem(409, "in-progress", "unknown");
    assert!(second.retryable());
    assert!(second.field("retry-after").is_some() && second.field("location").is_some());
    gate.add_permits(100);
    assert_eq!(first.answer().await.status, 201);
}

#[tokio::test]
async fn without_a_key_an_ended_deadline_is_unknown_to_a_post_and_harmless_to_a_get() {
    let (upstream, _gate) = Upstream::held(&answer("201 Created", "", "made")).await;
    let gateway = Gateway::to(upstream.addr).await;
    let post = overdue(&gateway, &charge()).await;
    post.is_problem(504, "outcome-unknown", "unknown");
    let read = gateway.send(&get("/").with(FIELDS[0], "50")).await;
    read.is_problem(504, "deadline-exceeded", "none");
    assert!(read.retryable());
    let delete = overdue(&gateway, &super::caller::call("DELETE", "/")).await;
    delete.is_problem(504, "deadline-exceeded", "unknown");
}

#[tokio::test]
async fn a_deadline_that_ends_while_the_keyed_body_comes_sends_nothing() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: {KEY}\r\n");
    caller
        .write(format!(
            "{head}Request-Timeout-Ms: 50\r\nContent-Length: 9\r\n\r\nbegun"
        ))
        .await;
    caller
        .answer()
        .await
        .is_problem(504, "deadline-exceeded", "none");
    assert_eq!(upstream.count(), 0);
    assert!(gateway.records().await.is_empty());
}
