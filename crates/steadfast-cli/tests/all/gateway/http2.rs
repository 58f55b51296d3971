//! The gateway's promises to callers of HTTP/2, kept as those to callers of HTTP/1.1.

use std::process::Command;

use super::caller::{KEY, keyed_charge};
use super::running::{Gateway, config};
use super::upstream::{Upstream, answer};
use super::{printed, ran};
use crate::http2::frames::{self, Caller, END_STREAM, End, fields};

/// The fields of the charge that other tests send over HTTP/1.1.
fn charge<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a [u8])> {
    let mut all = fields("POST", &[]);
    all[2].1 = b"/v1/charges";
    all[3].1 = b"shop.example";
    let own = [("content-type", "application/json")];
    let own = own.iter().chain(more);
    all.extend(own.map(|(name, value)| (*name, value.as_bytes())));
    all
}

const BODY: &[u8] = br#"{"amount":50}"#;

async fn send(caller: &mut Caller, id: u32, fields: &[(&str, &[u8])]) -> frames::Answer {
    caller.begin(id, fields).await;
    caller.send(frames::DATA, END_STREAM, id, BODY).await;
    caller.answer(id).await
}

// rule: a-key-is-one-operation-over-both-protocols
#[tokio::test]
async fn a_key_used_over_one_protocol_is_replayed_over_the_other() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = Caller::to(gateway.data).await;
    let first = send(&mut caller, 1, &charge(&[("idempotency-key", KEY)])).await;
    assert_eq!(
        (first.end, first.text().as_str()),
        (End::Whole, "{\"charge\":1}")
    );
    let again = gateway.send(&keyed_charge()).await;
    assert_eq!((again.status, again.replayed()), (201, Some("true")));
    assert_eq!(again.text(), first.text());
    assert_eq!(upstream.count(), 1);
    let seen = &upstream.seen()[0];
    assert_eq!(seen.one("via"), "2.0 steadfast");
    assert_eq!(seen.one("host"), "shop.example");
}

#[tokio::test]
async fn a_key_field_that_is_repeated_is_refused() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = Caller::to(gateway.data).await;
    let twice = charge(&[("idempotency-key", KEY), ("idempotency-key", KEY)]);
    let refused = send(&mut caller, 1, &twice).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.text().contains("key-invalid"), "{}", refused.text());
    assert_eq!(upstream.count(), 0);
}

// rule: http2-callers-say-nothing-that-only-steadfast-says
#[tokio::test]
async fn what_only_steadfast_says_and_what_reads_like_it_does_not_pass() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = Caller::to(gateway.data).await;
    let spoofed = [
        ("idempotency-key", KEY),
        ("idempotency_key", "9"),
        ("idempotency-fence", "9"),
        ("idempotency_fence", "9"),
        ("steadfast-attempt", "9"),
        ("x-forwarded-for", "9.9.9.9"),
        ("te", "trailers"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("authorization", "Bearer a"),
    ];
    let made = send(&mut caller, 1, &charge(&spoofed)).await;
    assert_eq!(made.end, End::Whole);
    let seen = &upstream.seen()[0];
    assert_ne!(seen.one("idempotency-fence"), "9");
    assert_eq!(seen.one("steadfast-attempt"), "1");
    assert_eq!(seen.one("x-forwarded-for"), "127.0.0.1");
    assert_eq!(seen.one("cookie"), "a=1; b=2");
    for name in ["idempotency_key", "idempotency_fence"] {
        assert!(seen.values(name).is_empty(), "{name}");
    }
}

// rule: keyed-work-goes-on-behind-a-reset-stream
#[tokio::test]
async fn keyed_work_behind_a_reset_stream_goes_on_to_its_recorded_end() {
    let (upstream, gate) = Upstream::held(&answer("201 Created", "", "made")).await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = Caller::to(gateway.data).await;
    caller.begin(1, &charge(&[("idempotency-key", KEY)])).await;
    caller.send(frames::DATA, END_STREAM, 1, BODY).await;
    upstream.until_count(1).await;
    caller.reset(1).await;
    gate.add_permits(1);
    gateway.until_state("completed").await;
    let again = send(&mut caller, 3, &charge(&[("idempotency-key", KEY)])).await;
    assert_eq!((again.end, again.text().as_str()), (End::Whole, "made"));
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_body_that_ends_early_executes_nothing() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let keyed = charge(&[("idempotency-key", KEY), ("content-length", "13")]);
    let mut caller = Caller::to(gateway.data).await;
    caller.begin(1, &keyed).await;
    caller.send(frames::DATA, END_STREAM, 1, b"{}").await;
    assert_eq!(
        caller.answer(1).await.end,
        End::Reset(frames::PROTOCOL_ERROR)
    );
    caller.begin(3, &keyed).await;
    caller.send(frames::DATA, 0, 3, b"{}").await;
    caller.reset(3).await;
    assert!(gateway.records().await.is_empty());
    // The same key is free.
    let made = send(&mut caller, 5, &keyed).await;
    assert_eq!((made.end, upstream.count()), (End::Whole, 1));
}

#[tokio::test]
async fn an_answer_that_the_upstream_cuts_is_a_reset_stream() {
    let upstream = Upstream::start(|exchange| async move {
        let cut = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut";
        exchange.reply_and_close(cut).await
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = Caller::to(gateway.data).await;
    caller.get(1).await;
    assert_eq!(
        caller.answer(1).await.end,
        End::Reset(frames::INTERNAL_ERROR)
    );
}

// rule: an-http2-upload-under-way-at-a-drain-ends
#[tokio::test]
async fn a_keyed_upload_under_way_when_a_drain_begins_is_executed_and_answered() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = Caller::to(gateway.data).await;
    let expecting = [("idempotency-key", KEY), ("expect", "100-continue")];
    caller.begin(1, &charge(&expecting)).await;
    // The gateway reads the body: it asks for it.
    assert_eq!(caller.next().await.expect("a head").kind, frames::HEADERS);
    caller.send(frames::DATA, 0, 1, &BODY[..3]).await;
    let stopped = tokio::spawn(gateway.stop());
    assert_eq!(caller.next().await.expect("a frame").kind, frames::GOAWAY);
    caller.send(frames::DATA, END_STREAM, 1, &BODY[3..]).await;
    let made = caller.answer(1).await;
    assert_eq!(
        (made.end, made.text().as_str()),
        (End::Whole, "{\"charge\":1}")
    );
    drop(caller);
    let ended = stopped.await.expect("no panic");
    assert_eq!((ended.cut, ended.stopped), (0, 0));
}

#[tokio::test]
async fn clients_of_others_speak_http_2_with_the_gateway() {
    let upstream = Upstream::saying(&answer("200 OK", "", "hello")).await;
    let gateway = Gateway::start(&config(upstream.addr, "")).await;
    let url = format!("http://{}/", gateway.data);
    let mut curl = Command::new("curl");
    curl.args([
        "-sS",
        "-m",
        "60",
        "--http2-prior-knowledge",
        "-w",
        " %{http_version} %{http_code}",
    ]);
    curl.arg(&url);
    assert_eq!(printed(&ran(curl).await), "hello 2 200");
    let mut nghttp = Command::new("nghttp");
    nghttp.arg(&url);
    assert_eq!(printed(&ran(nghttp).await), "hello");
    let mut h2load = Command::new("h2load");
    h2load.args(["-n", "200", "-c", "4", "-m", "10", &url]);
    let told = printed(&ran(h2load).await);
    assert!(
        told.contains("200 succeeded, 0 failed, 0 errored, 0 timeout"),
        "{told}"
    );
}
