//! A body is whole, or it is said why not.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use http_body::Body;
use http_body_util::BodyExt;
use steadfast::client::pool::{BodyError, PoolStatus};
use steadfast::clock;
use steadfast::core::attempt::Failure;
use steadfast::core::deadline::Deadline;
use steadfast::core::timeouts::Timeouts;

use super::upstream::{OK, Upstream};
use super::{SOON, acquire, get, head, in_time, patient, pool, read, send, until};

/// A server that answers one request with `answer` and then does `end`.
#[derive(Clone, Copy)]
enum End {
    Clean,
    Reset,
    Wait,
}

async fn answering(answer: &'static str, end: End) -> Upstream {
    Upstream::start(move |mut peer| async move {
        peer.request().await;
        peer.say(answer).await;
        match end {
            End::Clean => {}
            End::Reset => peer.reset(),
            End::Wait => peer.ended().await,
        }
    })
    .await
}

#[tokio::test]
async fn a_body_that_is_cut_is_truncated() {
    for end in [End::Clean, End::Reset] {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\na: b\r\n",
        ] {
            let upstream = answering(answer, end).await;
            let pool = pool();
            let (response, _) = head(send(&pool, &upstream.target(), get()).await);
            let error = read(response.into_body()).await.expect_err(answer);
            assert_eq!(error, BodyError::Truncated, "{answer:?}");
            assert_eq!(Failure::from(error), Failure::Truncated);
            assert_eq!(pool.status(), PoolStatus::default());
        }
    }
}

#[tokio::test]
async fn a_body_with_broken_framing_is_truncated() {
    for chunk in [
        "x\r\n",
        "5\r\nhelloo\r\n",
        "-1\r\n",
        "ffffffffffffffffff\r\n",
        "0\r\n a\r\n\r\n",
    ] {
        let upstream = Upstream::start(move |mut peer| async move {
            peer.request().await;
            let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            peer.say(format!("{chunked}{chunk}")).await;
            peer.ended().await;
        })
        .await;
        let (response, _) = head(send(&pool(), &upstream.target(), get()).await);
        let error = read(response.into_body()).await.expect_err(chunk);
        assert_eq!(error, BodyError::Truncated, "{chunk:?}");
        until("closed", || upstream.closed() == 1).await;
    }
}

#[tokio::test]
async fn after_its_error_a_body_has_nothing_more_to_say() {
    let upstream = answering(
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
        End::Clean,
    )
    .await;
    let (response, _) = head(send(&pool(), &upstream.target(), get()).await);
    let mut body = response.into_body();
    while !matches!(body.frame().await, Some(Err(_))) {}
    assert!(body.frame().await.is_none());
    assert!(body.is_end_stream());
}

#[tokio::test]
async fn a_body_without_length_ends_with_the_connection() {
    for version in ["1.0", "1.1"] {
        let upstream = Upstream::start(move |mut peer| async move {
            peer.request().await;
            peer.say(format!("HTTP/{version} 200 OK\r\n\r\nhello"))
                .await;
        })
        .await;
        let pool = pool();
        let (response, _) = head(send(&pool, &upstream.target(), get()).await);
        assert_eq!(read(response.into_body()).await.expect("a body"), "hello");
        assert_eq!(pool.status(), PoolStatus::default());
    }
}

#[tokio::test]
async fn a_body_without_length_that_is_reset_is_truncated() {
    let (read_some, told) = tokio::sync::oneshot::channel::<()>();
    let told = std::sync::Mutex::new(Some(told));
    let upstream = Upstream::start(move |mut peer| {
        let told = told.lock().expect("no panic").take();
        async move {
            peer.request().await;
            peer.say("HTTP/1.1 200 OK\r\n\r\nhello").await;
            told.expect("one connection").await.expect("the test");
            peer.reset();
        }
    })
    .await;
    let (response, _) = head(send(&pool(), &upstream.target(), get()).await);
    let mut body = response.into_body();
    assert!(matches!(body.frame().await, Some(Ok(_))));
    read_some.send(()).expect("the peer");
    assert_eq!(read(body).await, Err(BodyError::Truncated));
}

#[tokio::test]
async fn trailers_come_through() {
    let answer = "HTTP/1.1 200 OK\r\ntrailer: grpc-status\r\ntransfer-encoding: chunked\r\n\r\n\
                  2\r\nok\r\n0\r\ngrpc-status: 0\r\n\r\n";
    let upstream = answering(answer, End::Wait).await;
    let pool = pool();
    let (response, _) = head(send(&pool, &upstream.target(), get()).await);
    let whole = response.into_body().collect().await.expect("a body");
    assert_eq!(whole.trailers().expect("trailers")["grpc-status"], "0");
    assert_eq!(whole.to_bytes(), "ok");
    assert_eq!(pool.status().idle, 1, "the connection is kept");
}

#[tokio::test]
async fn of_two_framings_the_chunks_count_and_the_connection_ends() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: Chunked\r\n\r\n\
                  2\r\nok\r\n0\r\n\r\n";
    let upstream = answering(answer, End::Wait).await;
    let pool = pool();
    let (response, _) = head(send(&pool, &upstream.target(), get()).await);
    assert!(!response.headers().contains_key("content-length"));
    assert_eq!(read(response.into_body()).await.expect("a body"), "ok");
    assert_eq!(pool.status(), PoolStatus::default());
    until("closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn a_pause_ends_with_the_idle_limit() {
    let upstream = answering(
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
        End::Wait,
    )
    .await;
    let pool = pool();
    let timeouts = Timeouts {
        idle: SOON,
        ..patient()
    };
    let ready = acquire(&pool, &upstream.target()).await;
    let (response, _) = head(ready.send(get(), &timeouts, in_time()).await);
    let error = read(response.into_body()).await.expect_err("a pause");
    assert_eq!(Failure::from(error), Failure::Idle);
    until("closed", || upstream.closed() == 1).await;
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn a_body_that_trickles_ends_at_the_deadline() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.request().await;
        peer.say("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
            .await;
        while peer.trickle().await {}
    })
    .await;
    let pool = pool();
    let ready = acquire(&pool, &upstream.target()).await;
    let soon = Deadline::after(clock::mono_now(), SOON + SOON);
    let (response, _) = head(ready.send(get(), &patient(), soon).await);
    let error = read(response.into_body()).await.expect_err("a trickle");
    assert_eq!(error, BodyError::Deadline);
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn a_silent_body_ends_at_the_deadline() {
    let upstream = answering("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", End::Wait).await;
    let ready = acquire(&pool(), &upstream.target()).await;
    let soon = Deadline::after(clock::mono_now(), SOON);
    let (response, _) = head(ready.send(get(), &patient(), soon).await);
    let error = read(response.into_body()).await.expect_err("silence");
    assert_eq!(error, BodyError::Deadline);
    until("closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn a_body_that_has_come_counts_only_until_the_deadline() {
    let upstream = answering(OK, End::Wait).await;
    let ready = acquire(&pool(), &upstream.target()).await;
    let soon = Deadline::after(clock::mono_now(), Duration::from_secs(10));
    let (response, _) = head(ready.send(get(), &patient(), soon).await);
    pass(Duration::from_secs(10)).await;
    assert_eq!(read(response.into_body()).await, Err(BodyError::Deadline));
}

/// Lets the timers' clock jump. Sockets are waited for only while it runs.
async fn pass(length: Duration) {
    tokio::time::pause();
    tokio::time::advance(length).await;
    tokio::time::resume();
}

/// A server that sends a body's next byte when it is told to; and what tells it.
async fn on_demand() -> (Upstream, tokio::sync::mpsc::UnboundedSender<()>) {
    let (more, wanted) = tokio::sync::mpsc::unbounded_channel::<()>();
    let wanted = std::sync::Mutex::new(Some(wanted));
    let upstream = Upstream::start(move |mut peer| {
        let wanted = wanted.lock().expect("no panic").take();
        async move {
            let mut wanted = wanted.expect("one connection");
            peer.request().await;
            peer.say("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n")
                .await;
            while wanted.recv().await.is_some() {
                peer.say("x").await;
            }
        }
    })
    .await;
    (upstream, more)
}

/// Asks once.
async fn is_waiting<F: Future + Unpin>(asked: &mut F) -> bool {
    let once = poll_fn(|cx| Poll::Ready(Pin::new(&mut *asked).poll(cx)));
    once.await.is_pending()
}

fn idle_for_30_s() -> Timeouts {
    Timeouts {
        idle: Duration::from_secs(30),
        ..patient()
    }
}

fn an_hour() -> Deadline {
    Deadline::after(clock::mono_now(), Duration::from_secs(3600))
}

#[tokio::test]
async fn the_idle_limit_runs_between_chunks() {
    let (upstream, more) = on_demand().await;
    let ready = acquire(&pool(), &upstream.target()).await;
    let (response, _) = head(ready.send(get(), &idle_for_30_s(), an_hour()).await);
    let mut body = response.into_body();
    for _ in 0..2 {
        let mut next = body.frame();
        assert!(is_waiting(&mut next).await);
        pass(Duration::from_secs(20)).await;
        more.send(()).expect("the peer");
        assert!(matches!(next.await, Some(Ok(_))));
    }
    let mut next = body.frame();
    assert!(is_waiting(&mut next).await);
    pass(Duration::from_secs(20)).await;
    assert!(
        is_waiting(&mut next).await,
        "asking again does not count as a chunk"
    );
    pass(Duration::from_secs(11)).await;
    assert!(matches!(next.await, Some(Err(BodyError::Idle))));
}

#[tokio::test]
async fn time_in_which_nobody_reads_is_not_the_upstreams() {
    let (upstream, more) = on_demand().await;
    let ready = acquire(&pool(), &upstream.target()).await;
    let (response, _) = head(ready.send(get(), &idle_for_30_s(), an_hour()).await);
    pass(Duration::from_secs(31)).await;
    for _ in 0..3 {
        more.send(()).expect("the peer");
    }
    assert_eq!(read(response.into_body()).await.expect("a body"), "xxx");
}

#[tokio::test]
async fn a_dropped_body_closes_its_connection() {
    let upstream = answering(
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
        End::Wait,
    )
    .await;
    let pool = pool();
    let (response, _) = head(send(&pool, &upstream.target(), get()).await);
    assert_eq!(pool.status().in_use, 1);
    drop(response);
    assert_eq!(pool.status(), PoolStatus::default());
    until("closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn a_reader_that_trusts_the_announced_end_gives_the_connection_back() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let pool = pool();
    let (response, _) = head(send(&pool, &upstream.target(), get()).await);
    let mut body = response.into_body();
    assert!(!body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(2));
    let frame = body.frame().await.expect("a frame").expect("no error");
    assert_eq!(frame.data_ref().expect("data"), "ok");
    assert!(body.is_end_stream());
    assert_eq!((pool.status().idle, pool.status().in_use), (1, 0));
}
