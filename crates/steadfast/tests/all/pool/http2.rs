//! HTTP/2 to an upstream: what a stream's end proves.

use std::sync::Arc;
use std::time::Duration;

use steadfast::client::Target;
use steadfast::client::pool::{BodyError, Pool, PoolStatus, Reuse, SendEnd};
use steadfast::clock;
use steadfast::core::attempt::Failure;
use steadfast::core::deadline::Deadline;
use steadfast::core::timeouts::Timeouts;
use tokio::sync::Notify;

use super::certificates::Authority;
use super::frames::{CANCEL, DATA, H2, HEADERS, REFUSED_STREAM, speaking_http2};
use super::secured::Secured;
use super::until;
use super::upstream::OK;
use super::{SOON, acquire, failure, head, in_time, long_lived, patient, post, read, send};

/// A server whose connections run `script` once they have greeted, and a pool that trusts it.
pub async fn stage<S, F>(settings: &'static [(u16, u32)], script: S) -> (Secured, Pool, Target)
where
    S: Fn(H2) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let authority = Authority::new();
    let config = speaking_http2(&authority.signs("localhost"));
    let upstream = Secured::start(config, move |peer| {
        let script = script.clone();
        async move { script(H2::greet(peer, settings).await).await }
    })
    .await;
    let target = upstream.target();
    (
        upstream,
        Pool::with_tls(long_lived(), authority.trusted()),
        target,
    )
}

pub async fn answered(pool: &Pool, target: &Target) {
    let (response, written) = head(send(pool, target, post("hello")).await);
    assert!(written);
    assert_eq!(read(response.into_body()).await.expect("a body"), "ok");
}

pub fn sending(
    pool: &Pool,
    target: &Target,
    timeouts: Timeouts,
) -> tokio::task::JoinHandle<SendEnd> {
    let (pool, target) = (pool.clone(), target.clone());
    tokio::spawn(async move {
        let ready = acquire(&pool, &target).await;
        ready.send(post("hello"), &timeouts, in_time()).await
    })
}

// rule: refused-stream-was-not-processed
#[tokio::test]
async fn a_stream_that_is_refused_was_not_processed_and_its_connection_goes_on() {
    let (upstream, pool, target) = stage(&[], |mut h2: H2| async move {
        let id = h2.request().await.expect("a request");
        h2.reset(id, REFUSED_STREAM).await;
        h2.keep_answering().await;
    })
    .await;
    let end = send(&pool, &target, post("hello")).await;
    assert_eq!(failure(end), Failure::RefusedStream);
    answered(&pool, &target).await;
    assert_eq!(upstream.opened(), 1);
}

// rule: goaway-tells-what-was-not-processed
#[tokio::test]
async fn a_goaway_tells_streams_above_its_last_from_those_that_may_have_been_processed() {
    let (upstream, pool, target) = stage(&[], |mut h2: H2| async move {
        if h2.nth() > 0 {
            return h2.keep_answering().await;
        }
        let first = h2.request().await.expect("a request");
        assert!(h2.request().await.expect("another") > first);
        h2.goaway(first).await;
    })
    .await;
    let first = sending(&pool, &target, patient());
    until("the first came", || upstream.whole() == 1).await;
    let second = send(&pool, &target, post("hello")).await;
    assert_eq!(failure(second), Failure::AboveGoaway);
    assert_eq!(
        failure(first.await.expect("no panic")),
        Failure::BelowGoaway
    );
    answered(&pool, &target).await;
    assert_eq!(upstream.opened(), 2, "the next took another connection");
}

#[tokio::test]
async fn a_connection_that_goes_away_ends_what_it_has_and_takes_nothing_new() {
    let go_on = Arc::new(Notify::new());
    let wanted = Arc::clone(&go_on);
    let (upstream, pool, target) = stage(&[], move |mut h2: H2| {
        let wanted = Arc::clone(&wanted);
        async move {
            if h2.nth() > 0 {
                return h2.keep_answering().await;
            }
            let id = h2.request().await.expect("a request");
            h2.goaway(id).await;
            h2.begin_answer(id).await;
            h2.trickle(id).await;
            wanted.notified().await;
            h2.send(DATA, 1, id, b"ok").await;
            h2.ended().await;
        }
    })
    .await;
    let (response, _) = head(send(&pool, &target, post("hello")).await);
    answered(&pool, &target).await;
    assert_eq!(upstream.opened(), 2, "the next took another connection");
    go_on.notify_one();
    assert_eq!(read(response.into_body()).await.expect("a body"), "xok");
    until("the first was closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn any_other_end_of_a_stream_may_have_been_processed() {
    for code in [0, 1, 2, CANCEL, 11, 13] {
        let (_upstream, pool, target) = stage(&[], move |mut h2: H2| async move {
            let id = h2.request().await.expect("a request");
            h2.reset(id, code).await;
            h2.ended().await;
        })
        .await;
        let end = failure(send(&pool, &target, post("hello")).await);
        assert_eq!(end, Failure::Reset, "code {code}");
    }
    let (_upstream, pool, target) = stage(&[], |mut h2: H2| async move {
        h2.request().await;
    })
    .await;
    let end = failure(send(&pool, &target, post("hello")).await);
    assert_eq!(end, Failure::Reset, "the connection ended");
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn a_connection_that_ended_in_the_holder_s_hand_takes_no_stream() {
    let ends = Arc::new(Notify::new());
    let wanted = Arc::clone(&ends);
    let (upstream, pool, target) = stage(&[], move |h2: H2| {
        let wanted = Arc::clone(&wanted);
        async move {
            wanted.notified().await;
            drop(h2);
        }
    })
    .await;
    let ready = acquire(&pool, &target).await;
    ends.notify_one();
    until("closed", || upstream.closed() == 1).await;
    let end = failure(ready.send(post("hello"), &patient(), in_time()).await);
    assert_eq!(end, Failure::NotWritten);
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn a_deadline_that_is_spent_opens_no_stream() {
    let (upstream, pool, target) = stage(&[], H2::keep_answering).await;
    let ready = acquire(&pool, &target).await;
    let spent = Deadline::after(clock::mono_now(), Duration::ZERO);
    let end = failure(ready.send(post("hello"), &patient(), spent).await);
    assert_eq!(end, Failure::NotWritten);
    answered(&pool, &target).await;
    assert_eq!((upstream.opened(), upstream.whole()), (1, 1));
}

#[tokio::test]
async fn a_stream_without_a_head_ends_with_the_response_limit_and_its_connection_is_left() {
    let (upstream, pool, target) = stage(&[], |mut h2: H2| async move {
        if h2.nth() > 0 {
            return h2.keep_answering().await;
        }
        h2.request().await;
        assert_eq!(h2.reset_of().await.expect("a reset").code(), CANCEL);
        h2.ended().await;
    })
    .await;
    let timeouts = Timeouts {
        response: SOON,
        ..patient()
    };
    let end = sending(&pool, &target, timeouts).await.expect("no panic");
    assert_eq!(failure(end), Failure::ReadTimeout);
    // From a peer that says nothing at all no new request expects anything.
    answered(&pool, &target).await;
    assert_eq!(upstream.opened(), 2);
    until("the first was closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn a_request_that_is_not_taken_ends_with_the_write_limit() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let (_upstream, pool, target) = stage(&[(INITIAL_WINDOW_SIZE, 2)], H2::ended).await;
    let timeouts = Timeouts {
        write: SOON,
        ..patient()
    };
    let end = sending(&pool, &target, timeouts).await.expect("no panic");
    assert_eq!(failure(end), Failure::Write);
}

#[derive(Clone, Copy, Debug)]
enum Body {
    IsReset,
    EndsWithItsConnection,
    Pauses,
    Trickles,
}

#[tokio::test]
async fn a_body_that_is_cut_pauses_or_trickles_did_not_come_whole() {
    for (body, error) in [
        (Body::IsReset, BodyError::Truncated),
        (Body::EndsWithItsConnection, BodyError::Truncated),
        (Body::Pauses, BodyError::Idle),
        (Body::Trickles, BodyError::Deadline),
    ] {
        let (_upstream, pool, target) = stage(&[], move |mut h2: H2| async move {
            let id = h2.request().await.expect("a request");
            h2.begin_answer(id).await;
            h2.send(DATA, 0, id, b"o").await;
            match body {
                Body::IsReset => {
                    h2.reset(id, 2).await;
                    h2.ended().await;
                }
                Body::EndsWithItsConnection => {}
                Body::Pauses => h2.ended().await,
                Body::Trickles => while h2.trickle(id).await {},
            }
        })
        .await;
        let timeouts = match body {
            Body::Pauses => Timeouts {
                idle: SOON,
                ..patient()
            },
            _ => patient(),
        };
        let ready = acquire(&pool, &target).await;
        let ends = match body {
            Body::Trickles => Deadline::after(clock::mono_now(), SOON * 4),
            _ => in_time(),
        };
        let (response, _) = head(ready.send(post("hello"), &timeouts, ends).await);
        assert_eq!(read(response.into_body()).await, Err(error), "{body:?}");
        assert_eq!(pool.status().in_use, 0);
    }
}

#[tokio::test]
async fn a_head_of_more_fields_than_are_taken_is_no_answer() {
    let (_upstream, pool, target) = stage(&[], |mut h2: H2| async move {
        let id = h2.request().await.expect("a request");
        let mut block = vec![0x88];
        // A field without indexing, its name and value written out (RFC 7541, 6.2.2).
        (0..101).for_each(|_| block.extend([0, 1, b'x', 1, b'y']));
        h2.send(HEADERS, 5, id, &block).await;
        h2.ended().await;
    })
    .await;
    let end = send(&pool, &target, post("hello")).await;
    assert_eq!(failure(end), Failure::Reset);
}

#[tokio::test]
async fn who_agrees_to_http2_and_does_not_speak_it_is_a_failed_handshake() {
    for says in ["", "HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let authority = Authority::new();
        let config = speaking_http2(&authority.signs("localhost"));
        let upstream = Secured::start(config, move |mut peer| async move {
            peer.say(says).await;
        })
        .await;
        let pool = Pool::with_tls(long_lived(), authority.trusted());
        let (target, limits) = (upstream.target(), patient());
        let ready = pool.acquire(&target, Reuse::Safe, &limits, in_time());
        let never_sent = ready.await.expect_err("no connection");
        assert_eq!(never_sent.failure, Failure::TlsHandshake, "{never_sent}");
        assert_eq!(pool.status(), PoolStatus::default());
    }
}

/// The peer runs on a thread of its own, and the test waits for its end without giving way: nothing
/// has told the runtime of that end when the request is sent.
#[tokio::test]
async fn an_end_that_the_runtime_has_not_heard_of_is_seen_before_anything_is_written() {
    for speaks_http2 in [true, false] {
        let authority = Authority::new();
        let identity = authority.signs("localhost");
        let config = match speaks_http2 {
            true => speaking_http2(&identity),
            false => identity.server(),
        };
        let (address, told) = std::sync::mpsc::channel();
        let (end, wanted) = std::sync::mpsc::channel::<()>();
        let peer = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let (greeted, waits) = tokio::sync::oneshot::channel();
                let greeted = std::sync::Mutex::new(Some(greeted));
                let upstream = Secured::start(config, {
                    let greeted = Arc::new(greeted);
                    move |peer| {
                        let greeted = Arc::clone(&greeted);
                        async move {
                            let h2 = match speaks_http2 {
                                true => Ok(H2::greet(peer, &[]).await),
                                false => Err(peer),
                            };
                            let greeted = greeted.lock().expect("no panic").take();
                            let _ = greeted.expect("one connection").send(h2);
                        }
                    }
                })
                .await;
                address.send(upstream.target()).expect("the test");
                let held = waits.await.expect("a connection");
                wanted.recv().expect("the test");
                drop(held);
            });
        });
        let target = told.recv().expect("the peer");
        let pool = Pool::with_tls(long_lived(), authority.trusted());
        let ready = acquire(&pool, &target).await;
        end.send(()).expect("the peer");
        peer.join().expect("no panic");
        let ended = ready.send(post("hello"), &patient(), in_time()).await;
        assert_eq!(
            failure(ended),
            Failure::NotWritten,
            "HTTP/2: {speaks_http2}"
        );
    }
}

#[tokio::test]
async fn a_peer_that_wants_http_1_1_gets_it_from_then_on() {
    let authority = Authority::new();
    let mut config = authority.signs("localhost").server();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let upstream = Secured::start(config, |peer| async move {
        if peer.stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return peer.keep_answering(OK).await;
        }
        let mut h2 = H2::greet(peer, &[]).await;
        let id = h2.request().await.expect("a request");
        h2.reset(id, 13).await;
        h2.ended().await;
    })
    .await;
    let pool = Pool::with_tls(long_lived(), authority.trusted());
    let end = send(&pool, &upstream.target(), post("hello")).await;
    assert_eq!(failure(end), Failure::Reset);
    for _ in 0..3 {
        answered(&pool, &upstream.target()).await;
    }
    assert_eq!(upstream.opened(), 2);
}
