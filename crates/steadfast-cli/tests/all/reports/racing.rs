//! Reports about requests that meet each other.

use std::sync::Arc;

use futures_util::future::join_all;
use steadfast::store::Store;
use steadfast::store::memory::Memory;
use steadfast::store::sqlite::Sqlite;

use crate::gateway::caller::{KEY, call, keyed_charge};
use crate::gateway::running::{Gateway, config};
use crate::gateway::upstream::{Upstream, answer};
use crate::listen::raw::soon;

// idempot-dev/idempot-js#186: who lost the race for the insert was told 503, as if the store was
// down.
// idempot-dev/idempot-js#182: one of the stores let the loser write over the winner.
// accept-io/midas#14: the loser got the 500 of a unique index.
#[tokio::test]
async fn who_loses_the_race_is_told_in_progress_or_given_the_answer_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a folder");
    let sqlite = Sqlite::open(dir.path().join("store.db")).expect("a store");
    let stores: [Arc<dyn Store>; 2] = [Arc::new(Memory::new()), Arc::new(sqlite)];
    for store in stores {
        let upstream = Upstream::charging().await;
        let route = "idempotency = { in_flight = \"conflict\" }";
        let gateway = Gateway::over(&config(upstream.addr, route), store).await;
        let call = keyed_charge();
        let answers = join_all((0..40).map(|_| gateway.send(&call))).await;
        let mut executing = 0;
        for answer in answers {
            match (answer.status, answer.replayed()) {
                (201, Some("false")) => executing += 1,
                (201, Some("true")) => assert_eq!(answer.text(), "{\"charge\":1}"),
                _ => {
                    answer.is_problem(409, "in-progress", "unknown");
                    assert!(answer.retryable());
                }
            }
        }
        assert_eq!((executing, upstream.count()), (1, 1));
    }
}

// unjs/ocache#61: of two who asked at once, the second was given the first one's session cookie.
// darkweak/souin#662: everybody in the queue got a Set-Cookie that was meant for one.
// ujeenet/rustango#1259: the cookie of a log-in was stored, and given to whoever came next.
#[tokio::test]
async fn only_who_executed_gets_the_cookie_whether_others_waited_or_came_later() {
    let head = "Set-Cookie: session=of-the-first\r\nCache-Control: no-store\r\n";
    let (upstream, gate) = Upstream::held(&answer("201 Created", head, "made")).await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut first = gateway.connect().await;
    first.write(keyed_charge().bytes()).await;
    upstream.until_count(1).await;
    let call = keyed_charge();
    let waiting = join_all((0..5).map(|_| gateway.send(&call)));
    let goes = async { gate.add_permits(1) };
    let (waited, (), first) = tokio::join!(waiting, goes, first.answer());
    assert_eq!(first.field("set-cookie"), Some("session=of-the-first"));
    let later = gateway.send(&keyed_charge()).await;
    for other in waited.iter().chain([&later]) {
        assert_eq!((other.status, other.replayed()), (201, Some("true")));
        assert_eq!(other.text(), "made");
        assert_eq!(other.field("set-cookie"), None);
        assert_eq!(other.field("cache-control"), Some("no-store"));
    }
    assert_eq!(upstream.count(), 1);
}

// nuxt/nuxt#31361: the browser had left, and the gateway went on reading the event stream behind
// it.
#[tokio::test]
async fn a_caller_who_leaves_a_keyless_stream_ends_it_at_the_service_too() {
    let (told, ended) = tokio::sync::oneshot::channel();
    let told = std::sync::Mutex::new(Some(told));
    let upstream = Upstream::start(move |mut exchange| {
        let told = told.lock().expect("no panic under it").take();
        async move {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                        Transfer-Encoding: chunked\r\n\r\n7\r\ndata: 1\r\n";
            exchange.write(head).await;
            exchange.until_closed().await;
            told.expect("one request").send(()).expect("the test waits");
            None
        }
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut leaver = gateway.connect().await;
    leaver.write(call("GET", "/events").bytes()).await;
    assert_eq!(leaver.head().await.status, 200);
    drop(leaver);
    soon("the service to see it", ended)
        .await
        .expect("it was told");
    assert!(gateway.records().await.is_empty());
}

// jimmielovell/axum-idempotent: same key on another path was given the first path's answer, and the
// refund never ran.
#[tokio::test]
async fn one_key_on_a_charge_and_on_its_refund_is_two_operations_with_two_answers() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let refund = call("POST", "/v1/refunds").body("{\"amount\":50}").key(KEY);
    let refund = refund.with("Content-Type", "application/json");
    for (call, made) in [(&keyed_charge(), "1"), (&refund, "2")] {
        for marker in ["false", "true"] {
            let answer = gateway.send(call).await;
            assert_eq!((answer.status, answer.replayed()), (201, Some(marker)));
            assert_eq!(answer.text(), format!("{{\"charge\":{made}}}"));
        }
    }
    assert_eq!(upstream.count(), 2);
}
