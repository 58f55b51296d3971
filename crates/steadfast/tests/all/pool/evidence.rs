//! What an attempt without an answer proves: nothing written, or that it may have been received.

use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use steadfast::client::pool::{CallerLeft, PoolStatus, RequestBody, SendEnd};
use steadfast::clock;
use steadfast::core::attempt::Failure;
use steadfast::core::deadline::Deadline;
use steadfast::core::timeouts::Timeouts;

use super::upstream::{OK, Upstream};
use super::{
    SOON, acquire, failure, get, head, in_time, patient, pool, post, read, request, send, until,
};

/// A body that never ends by itself: `first`, then nothing.
fn stuck(first: &'static str) -> RequestBody {
    let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from(first)))]);
    let then = futures_util::stream::pending();
    StreamBody::new(futures_util::StreamExt::chain(first, then)).boxed_unsync()
}

/// A body of `chunks` times `size` bytes.
fn endless(size: usize) -> RequestBody {
    let chunk = Bytes::from(vec![b'x'; size]);
    let chunks = std::iter::repeat_with(move || Ok(Frame::data(chunk.clone())));
    StreamBody::new(futures_util::stream::iter(chunks)).boxed_unsync()
}

#[tokio::test]
async fn nothing_is_written_before_sending() {
    let upstream = Upstream::start(|peer| peer.ended()).await;
    let ready = acquire(&pool(), &upstream.target()).await;
    drop(ready);
    until("closed", || upstream.closed() == 1).await;
    assert_eq!(upstream.whole(), 0);
}

#[tokio::test]
async fn a_connection_closed_before_the_first_byte_was_not_written() {
    let upstream = Upstream::start(|peer| async move { drop(peer) }).await;
    let (pool, mut proven) = (pool(), 0);
    for _ in 0..100 {
        let ready = acquire(&pool, &upstream.target()).await;
        let before = upstream.whole();
        match failure(ready.send(post("{}"), &patient(), in_time()).await) {
            Failure::NotWritten => {
                proven += 1;
                assert_eq!(upstream.whole(), before);
            }
            Failure::Reset | Failure::Write => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(proven <= 100);
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn a_connection_seen_closed_is_proven_not_written() {
    let upstream = Upstream::start(|peer| async move { drop(peer) }).await;
    let pool = pool();
    let ready = acquire(&pool, &upstream.target()).await;
    // Back at rest and asked for again, until its end has come in.
    drop(ready);
    let reusable = || pool.idle(&upstream.target(), steadfast::client::pool::Reuse::Safe);
    until("the end was seen", || reusable().is_none()).await;
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn an_end_after_some_bytes_of_the_request_may_have_executed() {
    let whole = "POST /orders HTTP/1.1\r\nhost: 127.0.0.1:00000\r\ncontent-length: 5\r\n\r\nhello";
    for count in (1..whole.len()).step_by(3) {
        let upstream = Upstream::start(move |mut peer| async move {
            peer.bytes(count).await;
            peer.reset();
        })
        .await;
        let end = failure(send(&pool(), &upstream.target(), post("hello")).await);
        assert!(
            matches!(end, Failure::Reset | Failure::Write),
            "after {count}: {end:?}"
        );
    }
}

#[tokio::test]
async fn an_end_after_the_whole_request_is_a_reset_clean_or_not() {
    for clean in [true, false] {
        for half_a_head in ["", "H", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-len"] {
            let upstream = Upstream::start(move |mut peer| async move {
                peer.request().await;
                peer.say(half_a_head).await;
                if !clean {
                    peer.reset();
                }
            })
            .await;
            let pool = pool();
            let end = failure(send(&pool, &upstream.target(), post("hello")).await);
            assert_eq!(end, Failure::Reset, "clean {clean}, after {half_a_head:?}");
            assert_eq!(upstream.whole(), 1, "there is no hidden retry");
            assert_eq!(pool.status(), PoolStatus::default());
        }
    }
}

#[tokio::test]
async fn an_unusable_head_is_a_reset_since_something_answered() {
    for answer in [
        "no HTTP at all\r\n\r\n",
        "HTTP/1.1 999999 X\r\n\r\n",
        "HTTP/1.1 200 OK\r\n no name\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ] {
        let upstream = Upstream::start(move |mut peer| async move {
            peer.request().await;
            peer.say(answer).await;
            peer.ended().await;
        })
        .await;
        let end = failure(send(&pool(), &upstream.target(), post("hello")).await);
        assert_eq!(end, Failure::Reset, "{answer:?}");
        until("closed", || upstream.closed() == 1).await;
    }
}

#[tokio::test]
async fn a_head_that_never_comes_ends_with_the_response_limit() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.request().await;
        peer.ended().await;
    })
    .await;
    let pool = pool();
    let timeouts = Timeouts {
        response: SOON,
        ..patient()
    };
    let ready = acquire(&pool, &upstream.target()).await;
    let end = failure(ready.send(post("hello"), &timeouts, in_time()).await);
    assert_eq!(end, Failure::ReadTimeout);
    until("closed", || upstream.closed() == 1).await;
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn a_head_that_never_comes_ends_with_the_attempt_and_with_the_deadline() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.request().await;
        peer.ended().await;
    })
    .await;
    let timeouts = Timeouts {
        attempt: SOON,
        ..patient()
    };
    let ready = acquire(&pool(), &upstream.target()).await;
    // A machine so slow that nothing goes out in time proves that, too.
    let end = failure(ready.send(post("hello"), &timeouts, in_time()).await);
    assert!(
        matches!(end, Failure::ReadTimeout | Failure::NotWritten),
        "{end:?}"
    );
    let ready = acquire(&pool(), &upstream.target()).await;
    let soon = Deadline::after(clock::mono_now(), SOON);
    let end = failure(ready.send(post("hello"), &patient(), soon).await);
    assert!(
        matches!(end, Failure::ReadTimeout | Failure::NotWritten),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_spent_deadline_keeps_the_first_byte_back() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.request().await;
        peer.ended().await;
    })
    .await;
    let ready = acquire(&pool(), &upstream.target()).await;
    let spent = Deadline::after(clock::mono_now(), Duration::ZERO);
    let end = failure(ready.send(post("hello"), &patient(), spent).await);
    assert_eq!(end, Failure::NotWritten);
    until("closed", || upstream.closed() + upstream.whole() > 0).await;
    assert_eq!(upstream.whole(), 0);
}

#[tokio::test]
async fn each_request_has_its_own_count() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let (pool, target) = (pool(), upstream.target());
    let (response, _) = head(send(&pool, &target, post("hello")).await);
    read(response.into_body()).await.expect("a body");
    let ready = acquire(&pool, &target).await;
    let spent = Deadline::after(clock::mono_now(), Duration::ZERO);
    let end = failure(ready.send(post("hello"), &patient(), spent).await);
    assert_eq!(
        end,
        Failure::NotWritten,
        "bytes of the request before were counted"
    );
    assert_eq!((upstream.opened(), upstream.whole()), (1, 1));
}

#[tokio::test]
async fn a_request_that_is_not_taken_ends_with_the_write_limit() {
    let upstream = Upstream::start(|peer| async move {
        // Reads nothing, so that the socket's buffers fill.
        std::future::pending::<()>().await;
        drop(peer);
    })
    .await;
    let pool = pool();
    let timeouts = Timeouts {
        write: SOON,
        ..patient()
    };
    let ready = acquire(&pool, &upstream.target()).await;
    let end = ready.send(request(Method::POST, endless(65_536)), &timeouts, in_time());
    assert_eq!(failure(end.await), Failure::Write);
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn a_reset_in_the_middle_of_the_request_is_a_write_failure_or_a_reset() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.head().await;
        peer.reset();
    })
    .await;
    let end = send(
        &pool(),
        &upstream.target(),
        request(Method::POST, endless(65_536)),
    )
    .await;
    assert!(matches!(failure(end), Failure::Write | Failure::Reset));
}

#[tokio::test]
async fn a_caller_that_leaves_is_told_apart_from_the_upstream() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.head().await;
        peer.ended().await;
    })
    .await;
    let pool = pool();
    let gone = || CallerLeft {
        detail: "hung up".to_owned(),
    };
    let frames = [Ok(Frame::data(Bytes::from("hel"))), Err(gone())];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
    match send(&pool, &upstream.target(), request(Method::POST, body)).await {
        SendEnd::CallerLeft { failure, detail } => {
            // What was seen before the first write is a proof as well.
            assert!(
                matches!(failure, Failure::Write | Failure::NotWritten),
                "{failure:?}"
            );
            assert!(detail.contains("hung up"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
    until("closed", || upstream.closed() == 1).await;
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn a_caller_that_leaves_after_the_first_byte_may_have_been_heard() {
    let (heard, hears) = tokio::sync::oneshot::channel::<()>();
    let heard = std::sync::Mutex::new(Some(heard));
    let upstream = Upstream::start(move |mut peer| {
        let heard = heard.lock().expect("no panic").take();
        async move {
            peer.through(b"hello").await;
            heard.expect("one connection").send(()).expect("the test");
            peer.ended().await;
        }
    })
    .await;
    let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from("hello")))]);
    let then = futures_util::stream::once(async {
        hears.await.expect("the peer");
        Err(CallerLeft {
            detail: "hung up".to_owned(),
        })
    });
    let body = StreamBody::new(futures_util::StreamExt::chain(first, then)).boxed_unsync();
    match send(&pool(), &upstream.target(), request(Method::POST, body)).await {
        SendEnd::CallerLeft { failure, .. } => assert_eq!(failure, Failure::Write),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_body_of_another_length_than_announced_never_looks_whole() {
    for body in ["hell", "hello!"] {
        let upstream = Upstream::start(|mut peer| async move {
            assert!(peer.request().await.is_none(), "a whole request");
            peer.ended().await;
        })
        .await;
        // The length of a stream is not known before.
        let frames = futures_util::stream::iter([Ok(Frame::data(Bytes::from(body)))]);
        let mut unsound = request(Method::POST, StreamBody::new(frames).boxed_unsync());
        let five = http::HeaderValue::from_static("5");
        unsound.headers_mut().insert("content-length", five);
        let end = send(&pool(), &upstream.target(), unsound).await;
        assert!(matches!(end, SendEnd::CallerLeft { .. }), "{body}: {end:?}");
        until("closed", || upstream.closed() == 1).await;
    }
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_the_first_byte() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let (pool, target) = (pool(), upstream.target());
    let with = |value: &'static str| {
        let mut request = post("hello");
        let value = http::HeaderValue::from_static(value);
        request.headers_mut().insert("content-length", value);
        request
    };
    let mut twice = with("5");
    let six = http::HeaderValue::from_static("6");
    twice.headers_mut().append("content-length", six);
    let mut tunnel = get();
    *tunnel.method_mut() = Method::CONNECT;
    for unsendable in [with("4"), with("6"), with("+5"), with(""), twice, tunnel] {
        match send(&pool, &target, unsendable).await {
            SendEnd::CallerLeft { failure, .. } => assert_eq!(failure, Failure::NotWritten),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(upstream.whole(), 0);
    let (response, _) = head(send(&pool, &target, with("5")).await);
    read(response.into_body()).await.expect("a body");
    assert_eq!(
        upstream.opened(),
        1,
        "the connection went back unused each time"
    );
}

#[tokio::test]
async fn a_whole_answer_counts_although_the_request_is_not_written() {
    // Early, with the rest of the body refused: closed with bytes unread, which sends a reset.
    for body in [stuck("hello"), endless(65_536)] {
        let upstream = Upstream::start(|mut peer| async move {
            peer.head().await;
            peer.say("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig")
                .await;
        })
        .await;
        let pool = pool();
        let end = send(&pool, &upstream.target(), request(Method::POST, body)).await;
        let (response, request_written) = head(end);
        assert_eq!(response.status(), 413);
        assert!(!request_written);
        assert_eq!(read(response.into_body()).await.expect("a body"), "big");
        assert_eq!(pool.status(), PoolStatus::default(), "it is not used again");
    }
}

#[tokio::test]
async fn an_early_answer_ends_its_connection_although_the_upstream_keeps_it() {
    for answer in [OK, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"] {
        let upstream = Upstream::start(move |mut peer| async move {
            peer.head().await;
            peer.say(answer).await;
            peer.ended().await;
        })
        .await;
        let pool = pool();
        let end = send(
            &pool,
            &upstream.target(),
            request(Method::POST, stuck("hello")),
        )
        .await;
        let (response, request_written) = head(end);
        assert!(!request_written);
        read(response.into_body()).await.expect("a body");
        assert_eq!(pool.status(), PoolStatus::default());
        until("closed", || upstream.closed() == 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_came_before_the_write_failed_counts() {
    // The peer answers and resets between two writes, with no read between them: the body's third
    // piece holds hyper back until the reset is there, and hyper writes before it reads again.
    let (reset, was_reset) = std::sync::mpsc::channel::<()>();
    let upstream = Upstream::start(move |mut peer| {
        let reset = reset.clone();
        async move {
            peer.through(b"first").await;
            peer.say("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig")
                .await;
            peer.reset();
            reset.send(()).expect("the test");
        }
    })
    .await;
    let mut polled = 0;
    let pieces = futures_util::stream::poll_fn(move |cx| {
        polled += 1;
        match polled {
            1 => Poll::Ready(Some(Ok(Frame::data(Bytes::from("first"))))),
            2 => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            3 => {
                was_reset.recv().expect("the peer");
                Poll::Ready(Some(Ok(Frame::data(Bytes::from("second")))))
            }
            _ => Poll::Pending,
        }
    });
    let body = StreamBody::new(pieces).boxed_unsync();
    let end = send(&pool(), &upstream.target(), request(Method::POST, body)).await;
    let (response, request_written) = head(end);
    assert_eq!((response.status().as_u16(), request_written), (413, false));
    assert_eq!(read(response.into_body()).await.expect("a body"), "big");
}
