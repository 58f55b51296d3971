//! Which connection carries another request.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steadfast::client::Target;
use steadfast::client::pool::{Pool, PoolSettings, PoolStatus, Reuse, SendEnd};
use steadfast::core::attempt::Failure;

use super::upstream::{OK, Upstream};
use super::{acquire, failure, get, head, in_time, patient, pool, post, read, send, until};

/// One whole exchange.
async fn exchange(pool: &Pool, target: &Target) {
    let (response, _) = head(send(pool, target, get()).await);
    read(response.into_body()).await.expect("a body");
}

#[tokio::test]
async fn a_connection_is_reused_after_a_whole_exchange() {
    for answer in [
        OK,
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let upstream = Upstream::start(|peer| peer.keep_answering(answer)).await;
        let pool = pool();
        for _ in 0..3 {
            exchange(&pool, &upstream.target()).await;
            assert_eq!((pool.status().idle, pool.status().in_use), (1, 0));
        }
        assert_eq!((upstream.opened(), upstream.whole()), (1, 3), "{answer:?}");
    }
}

#[tokio::test]
async fn a_connection_that_a_side_does_not_keep_is_not_reused() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let upstream = Upstream::start(|peer| peer.keep_answering(answer)).await;
        let pool = pool();
        exchange(&pool, &upstream.target()).await;
        assert_eq!(pool.status(), PoolStatus::default(), "{answer:?}");
        until("closed", || upstream.closed() == 1).await;
    }
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let pool = pool();
    let mut last = get();
    let close = http::HeaderValue::from_static("close");
    last.headers_mut().insert("connection", close);
    let (response, _) = head(send(&pool, &upstream.target(), last).await);
    read(response.into_body()).await.expect("a body");
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_end_a_connection() {
    // In the same segment as the answer.
    let upstream = Upstream::start(|peer| {
        peer.keep_answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n")
    })
    .await;
    let pool_ = pool();
    exchange(&pool_, &upstream.target()).await;
    assert_eq!(pool_.status(), PoolStatus::default());
    // While it is at rest.
    let (more, wants) = tokio::sync::oneshot::channel::<()>();
    let wants = Mutex::new(Some(wants));
    let upstream = Upstream::start(move |mut peer| {
        let wants = wants.lock().expect("no panic").take();
        async move {
            peer.request().await;
            peer.say(OK).await;
            wants.expect("one connection").await.expect("the test");
            peer.say(OK).await;
            peer.ended().await;
        }
    })
    .await;
    let (pool, target) = (pool(), upstream.target());
    exchange(&pool, &target).await;
    assert!(pool.idle(&target, Reuse::Unsafe).is_some());
    more.send(()).expect("the peer");
    until("refused", || pool.idle(&target, Reuse::Unsafe).is_none()).await;
    assert_eq!(pool.status(), PoolStatus::default());
    until("closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn what_may_not_be_repeated_takes_only_a_connection_that_rested_shortly() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let pool = Pool::new(PoolSettings {
        idle: Duration::from_secs(60),
        reuse_unsafe_within: Duration::ZERO,
        ..PoolSettings::default()
    });
    let target = upstream.target();
    exchange(&pool, &target).await;
    assert!(
        pool.idle(&target, Reuse::Unsafe).is_none(),
        "rested for too long"
    );
    assert_eq!(pool.status().idle, 1, "it stays, for others");
    let ready = pool.idle(&target, Reuse::Safe).expect("any will do");
    let (response, _) = head(ready.send(get(), &patient(), in_time()).await);
    read(response.into_body()).await.expect("a body");
    assert_eq!(upstream.opened(), 1);
}

#[tokio::test]
async fn a_connection_that_rested_for_too_long_is_closed() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let pool = Pool::new(PoolSettings {
        idle: super::SOON,
        ..PoolSettings::default()
    });
    exchange(&pool, &upstream.target()).await;
    // Nobody asks for it; it is closed all the same.
    until("closed", || upstream.closed() == 1).await;
    assert_eq!(pool.status(), PoolStatus::default());
    exchange(&pool, &upstream.target()).await;
    until("closed again", || upstream.closed() == 2).await;
}

#[tokio::test]
async fn a_pool_that_goes_closes_its_connections() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let pool = pool();
    exchange(&pool, &upstream.target()).await;
    drop(pool);
    until("closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn a_connection_dropped_unused_is_used_by_the_next() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let (pool, target) = (pool(), upstream.target());
    assert!(
        pool.idle(&target, Reuse::Safe).is_none(),
        "nothing is there yet"
    );
    drop(acquire(&pool, &target).await);
    assert_eq!((pool.status().idle, pool.status().in_use), (1, 0));
    exchange(&pool, &target).await;
    assert_eq!(upstream.opened(), 1);
}

/// The peer runs on a thread, and the test waits for it without giving way: so nothing has told the
/// runtime of the end when the request is sent.
#[tokio::test]
async fn a_connection_that_ended_in_the_holder_s_hand_is_not_written_to() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let (end, wanted) = std::sync::mpsc::channel::<()>();
    let peer = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().expect("a connection");
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            tcp.read_exact(&mut byte).expect("a request");
            seen.extend(byte);
        }
        tcp.write_all(OK.as_bytes()).expect("an answer");
        wanted.recv().expect("the test");
    });
    let target = Target::parse(&format!("http://{address}")).expect("a target");
    let pool = pool();
    exchange(&pool, &target).await;
    let ready = pool.idle(&target, Reuse::Unsafe).expect("one at rest");
    end.send(()).expect("the peer");
    peer.join().expect("no panic");
    let ended = ready.send(post("hello"), &patient(), in_time()).await;
    assert_eq!(failure(ended), Failure::NotWritten);
}

#[tokio::test]
async fn targets_do_not_share_connections() {
    let one = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let other = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let pool = pool();
    exchange(&pool, &one.target()).await;
    assert!(pool.idle(&other.target(), Reuse::Safe).is_none());
    exchange(&pool, &other.target()).await;
    assert_eq!((one.opened(), other.opened()), (1, 1));
}

/// A server that closes each connection at some moment after its first answer, while the next
/// request may be on its way: the race that every keep-alive client runs.
async fn races(clean: bool) -> (Upstream, Arc<AtomicUsize>) {
    let received = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&received);
    let upstream = Upstream::start(move |mut peer| {
        let received = Arc::clone(&counted);
        async move {
            if peer.request().await.is_none() {
                return;
            }
            received.fetch_add(1, Ordering::SeqCst);
            peer.say(OK).await;
            for _ in 0..peer.nth % 8 {
                tokio::task::yield_now().await;
            }
            // What came in until now was received; it is not answered.
            if peer.came_whole() {
                received.fetch_add(1, Ordering::SeqCst);
            }
            if !clean {
                peer.reset();
            }
        }
    })
    .await;
    (upstream, received)
}

async fn evidence_is_honest(clean: bool) {
    let (upstream, received) = races(clean).await;
    let (pool, target) = (pool(), upstream.target());
    let (mut answered, mut maybe, mut not_written) = (0, 0, 0);
    for _ in 0..600 {
        match send(&pool, &target, post("hello")).await {
            SendEnd::Head { response, .. } => {
                read(response.into_body()).await.expect("a body");
                answered += 1;
            }
            SendEnd::Failed { failure, .. } => match failure {
                Failure::NotWritten => not_written += 1,
                Failure::Reset | Failure::Write => maybe += 1,
                other => panic!("{other:?}"),
            },
            SendEnd::CallerLeft { detail, .. } => panic!("{detail}"),
        }
        let received = received.load(Ordering::SeqCst);
        assert!(
            received <= answered + maybe,
            "{received} received of {answered} answered, {maybe} maybe, {not_written} not written"
        );
    }
    assert!(
        answered >= 300,
        "{answered} answered, {maybe} maybe, {not_written} not written"
    );
    assert_eq!(pool.status().in_use, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_connection_never_hides_a_received_request() {
    evidence_is_honest(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_connection_never_hides_a_received_request() {
    evidence_is_honest(false).await;
}
