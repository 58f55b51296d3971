//! Reports about connections that were not used again, not given back, or cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::gateway::caller::{Caller, call, get};
use crate::gateway::running::Gateway;
use crate::gateway::upstream::{Seen, Upstream, answer};
use crate::listen::raw::port;

/// A service that counts connections and answers every head.
async fn counting() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let (listener, count) = (port().await, Arc::new(AtomicUsize::new(0)));
    let addr = listener.local_addr().expect("its address");
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut held = Vec::new();
                while stream.read_buf(&mut held).await.is_ok_and(|n| n > 0) {
                    if held.ends_with(b"\r\n\r\n") {
                        held.clear();
                        let ok = answer("200 OK", "", "ok");
                        stream.write_all(ok.as_bytes()).await.expect("a write");
                    }
                }
            });
        }
    });
    (addr, count)
}

// cloudflare/pingora#706: the caller's `Connection: close` went on to the service, which closed, so
// that no connection to it was ever used twice.
#[tokio::test]
async fn a_caller_who_closes_does_not_close_the_connection_to_the_service() {
    let (addr, count) = counting().await;
    let route = "pool = { idle = \"60s\", reuse_unsafe_within = \"60s\" }";
    let gateway = Gateway::with(addr, route).await;
    for _ in 0..5 {
        let mut caller = Caller::connect(gateway.data).await;
        let answer = caller.ask(&get("/").with("Connection", "close")).await;
        assert_eq!((answer.status, answer.text()), (200, "ok"));
        let mut none = Vec::new();
        let read = caller.stream.read_to_end(&mut none).await;
        read.expect("the gateway closes");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

// snowflakedb/snowflake-jdbc#2642: a way of giving up kept its connection, until the pool had none.
// jetty/jetty.project#365: so did a request that was cancelled at the wrong moment.
#[tokio::test]
async fn no_end_of_a_request_keeps_its_connection() {
    let upstream = Upstream::start(|mut exchange| async move {
        let target = exchange.seen().target;
        match target.as_str() {
            "/reset" => {
                exchange.read().await;
                exchange.reset()
            }
            "/cut" => {
                exchange
                    .reply_and_close("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nc")
                    .await
            }
            "/odd" => exchange.reply_and_close("odd\r\n\r\n").await,
            "/early" => {
                exchange.write(answer("413 Too Large", "", "no")).await;
                exchange.until_closed().await;
                None
            }
            "/late" => {
                exchange.until_closed().await;
                None
            }
            _ => exchange.reply(answer("201 Created", "", "made")).await,
        }
    })
    .await;
    let route = "pool = { max_per_host = 1 }\nbreaker = { min_requests = 1000 }\n\
                 timeouts = { response = \"200ms\", pool = \"20s\" }";
    let gateway = Gateway::with(upstream.addr, route).await;
    let ends = ["/reset", "/cut", "/odd", "/early", "/late", "/made"];
    for (round, target) in ends.iter().chain(&ends).enumerate() {
        let key = format!("0f8fad5b-d9cb-469f-a165-7086772895{round:02}");
        let keyed = call("POST", target).key(&key);
        for call in [get(target), keyed.body("{}")] {
            let _ = gateway.connect().await.cut_answer(&call).await;
        }
        // One who leaves while it is at work.
        let mut leaver = gateway.connect().await;
        leaver.write(get(target).bytes()).await;
        drop(leaver);
        let answer = gateway.send(&get("/made")).await;
        assert_eq!((answer.status, answer.text()), (201, "made"), "{target}");
    }
}

// kubernetes/kubernetes#54505: a reload of the proxy cut uploads that were on their way.
#[tokio::test]
async fn an_upload_that_is_on_its_way_when_a_drain_begins_ends_whole() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    let head = "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    caller.write(format!("{head}3\r\none\r\n")).await;
    let first = |seen: &[Seen]| seen.iter().any(|seen| seen.body == b"one");
    upstream.until("the first piece", first).await;
    let stopping = tokio::spawn(gateway.stop());
    tokio::task::yield_now().await;
    caller.write("3\r\ntwo\r\n0\r\n\r\n").await;
    let answer = caller.answer().await;
    assert_eq!((answer.status, answer.text()), (201, "{\"charge\":1}"));
    assert_eq!(upstream.only().text(), "onetwo");
    stopping.await.expect("no panic");
}
