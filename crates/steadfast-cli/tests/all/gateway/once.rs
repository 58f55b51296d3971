//! A keyed request happens once: the worked example, crowds, and callers who leave.

use std::process::Command;
use std::sync::Arc;

use futures_util::future::join_all;
use steadfast::store::Store;
use steadfast::store::sqlite::Sqlite;
use tokio::sync::Notify;

use super::caller::{Answer, KEY, charge, keyed_charge};
use super::running::{Gateway, config, fresh};
use super::upstream::{Upstream, answer};
use super::{printed, ran};

fn curl(gateway: &Gateway, amount: u32) -> Command {
    let mut curl = Command::new("curl");
    curl.args([
        "-sS",
        "-m",
        "60",
        "-i",
        "-H",
        "Content-Type: application/json",
    ]);
    curl.args(["-H", &format!("Idempotency-Key: {KEY}")]);
    curl.args(["-d", &format!("{{\"amount\":{amount}}}")]);
    curl.arg(format!("http://{}/v1/charges", gateway.data));
    curl
}

// rule: the-worked-example-charges-once
#[tokio::test]
async fn two_calls_of_50_are_one_charge_and_60_under_their_key_is_422() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let first = printed(&ran(curl(&gateway, 50)).await);
    let second = printed(&ran(curl(&gateway, 50)).await);
    let other = printed(&ran(curl(&gateway, 60)).await);
    assert!(first.starts_with("HTTP/1.1 201 Created\r\n"), "{first}");
    assert!(first.contains("idempotent-replayed: false\r\n"), "{first}");
    assert!(second.starts_with("HTTP/1.1 201 Created\r\n"), "{second}");
    assert!(second.contains("idempotent-replayed: true\r\n"), "{second}");
    for answer in [&first, &second] {
        assert!(answer.contains("location: /charges/1\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n{\"charge\":1}"), "{answer}");
    }
    assert!(other.starts_with("HTTP/1.1 422 "), "{other}");
    assert!(
        other.contains("urn:steadfast:problem:key-reused"),
        "{other}"
    );
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn python_s_own_clients_meet_the_same_gateway() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let script = r#"
import http.client, json, sys, urllib.request
host, key = sys.argv[1], sys.argv[2]
fields = {"Idempotency-Key": '"' + key + '"', "Content-Type": "application/json"}
kept = http.client.HTTPConnection(host, timeout=60)
for _ in range(2):
    kept.request("POST", "/v1/charges", json.dumps({"amount": 50}), fields)
    answer = kept.getresponse()
    print(answer.status, answer.headers["Idempotent-Replayed"], answer.read().decode())
url, body = "http://" + host + "/v1/charges", b'{ "amount" : 5e1 }'
with urllib.request.urlopen(urllib.request.Request(url, body, fields), timeout=60) as answer:
    print(answer.status, answer.headers["Idempotent-Replayed"], answer.read().decode())
"#;
    let mut python = Command::new("python3");
    python.args(["-c", script, &gateway.data.to_string(), KEY]);
    let told = printed(&ran(python).await);
    let charge = "{\"charge\":1}";
    let all = format!("201 false {charge}\n201 true {charge}\n201 true {charge}\n");
    assert_eq!(told, all);
    assert_eq!(upstream.count(), 1);
}

/// Asserts that `answers` are one execution and its replays.
fn are_one_charge(answers: &[Answer]) {
    for answer in answers {
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(answer.text(), "{\"charge\":1}");
        assert_eq!(answer.field("location"), Some("/charges/1"));
    }
    let marked = |marker| {
        let marked = answers
            .iter()
            .filter(|answer| answer.replayed() == Some(marker));
        marked.count()
    };
    assert_eq!((marked("false"), marked("true")), (1, answers.len() - 1));
}

// rule: forty-identical-requests-have-one-effect
#[tokio::test]
async fn forty_simultaneous_identical_requests_get_forty_equal_answers_to_one_effect() {
    let dir = tempfile::tempdir().expect("a folder");
    let sqlite = Sqlite::open(dir.path().join("store.db")).expect("a store");
    let stores: [Arc<dyn Store>; 2] = [fresh(), Arc::new(sqlite)];
    for store in stores {
        let upstream = Upstream::charging().await;
        let gateway = Gateway::over(&config(upstream.addr, ""), store).await;
        let call = keyed_charge();
        let answers = join_all((0..40).map(|_| gateway.send(&call))).await;
        are_one_charge(&answers);
        assert_eq!(upstream.count(), 1);
    }
}

// rule: two-gateways-over-one-store-have-one-effect
#[tokio::test]
async fn forty_identical_requests_to_two_gateways_over_one_store_have_one_effect() {
    let dir = tempfile::tempdir().expect("a folder");
    let (upstream, gate) = Upstream::held(&answer(
        "201 Created",
        "Location: /charges/1\r\n",
        "{\"charge\":1}",
    ))
    .await;
    let open = || Arc::new(Sqlite::open(dir.path().join("store.db")).expect("a store"));
    let text = config(upstream.addr, "");
    let (one, other) = (
        Gateway::over(&text, open()).await,
        Gateway::over(&text, open()).await,
    );
    let call = keyed_charge();
    let asked = join_all((0..40).map(|at| match at % 2 {
        0 => one.send(&call),
        _ => other.send(&call),
    }));
    let goes = async {
        upstream.until_count(1).await;
        gate.add_permits(40);
    };
    let (answers, ()) = tokio::join!(asked, goes);
    are_one_charge(&answers);
    assert_eq!(upstream.count(), 1);
}

// rule: ten-bodies-under-one-key-are-one-request-and-nine-refusals
#[tokio::test]
async fn ten_simultaneous_bodies_under_one_key_are_one_201_and_nine_422() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let calls: Vec<_> = (0..10)
        .map(|amount| keyed_charge().body(format!("{{\"amount\":{amount}}}")))
        .collect();
    let answers = join_all(calls.iter().map(|call| gateway.send(call))).await;
    let created = answers.iter().filter(|answer| answer.status == 201);
    assert_eq!(created.count(), 1, "{answers:?}");
    let refused = answers.iter().filter(|answer| answer.status != 201);
    for answer in refused {
        answer.is_problem(422, "key-reused", "none");
        assert!(!answer.retryable());
    }
    assert_eq!(upstream.count(), 1);
}

// rule: a-caller-who-hangs-up-does-not-stop-the-work
#[tokio::test]
async fn the_work_of_a_caller_who_hung_up_ends_and_is_replayed() {
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let upstream = Upstream::start(move |exchange| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            exchange.reply(answer("201 Created", "", "made")).await
        }
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut leaver = gateway.connect().await;
    leaver.write(keyed_charge().bytes()).await;
    upstream.until_count(1).await;
    drop(leaver);
    go.notify_one();
    let answer = gateway.send(&keyed_charge()).await;
    assert_eq!((answer.status, answer.text()), (201, "made"));
    assert_eq!(answer.replayed(), Some("true"));
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn without_a_key_a_caller_who_leaves_cancels_the_work() {
    let gone = Arc::new(Notify::new());
    let told = Arc::clone(&gone);
    let upstream = Upstream::start(move |mut exchange| {
        let told = Arc::clone(&told);
        async move {
            exchange.read().await;
            exchange.until_closed().await;
            told.notify_one();
            None
        }
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut leaver = gateway.connect().await;
    leaver.write(charge().bytes()).await;
    upstream.until_count(1).await;
    drop(leaver);
    crate::listen::raw::soon("the upstream to see it", gone.notified()).await;
}
