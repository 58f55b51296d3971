//! HTTP/2 to an upstream: who shares a connection, and what those who leave it leave behind.

use std::sync::Arc;
use std::time::Duration;

use steadfast::client::pool::{Pool, PoolSettings, PoolStatus, Reuse, SendEnd};
use steadfast::core::attempt::Failure;
use tokio::sync::Semaphore;

use super::certificates::Authority;
use super::frames::{CANCEL, H2, MAX_CONCURRENT_STREAMS, speaking_http2};
use super::http2::{answered, sending, stage};
use super::secured::Secured;
use super::{SOON, acquire, head, in_time, long_lived, patient, post, read, send, until};

// rule: http2-to-upstreams
#[tokio::test]
async fn many_requests_share_one_connection_from_the_first_on() {
    let (upstream, pool, target) = stage(&[], H2::keep_answering).await;
    let mut all = Vec::new();
    for _ in 0..50 {
        all.push(sending(&pool, &target, patient()));
    }
    for one in all {
        let (response, _) = head(one.await.expect("no panic"));
        assert_eq!(read(response.into_body()).await.expect("a body"), "ok");
    }
    assert_eq!(
        upstream.opened(),
        1,
        "requests that came at once opened one"
    );
    assert_eq!((pool.status().idle, pool.status().in_use), (1, 0));
    answered(&pool, &target).await;
    assert!(acquire(&pool, &target).await.is_reused());
    drop(pool);
    until("closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn no_more_streams_are_open_on_a_connection_than_its_peer_allows() {
    let go = Arc::new(Semaphore::new(0));
    let wanted = Arc::clone(&go);
    let (upstream, pool, target) = stage(&[(MAX_CONCURRENT_STREAMS, 2)], move |mut h2: H2| {
        let wanted = Arc::clone(&wanted);
        async move {
            while let Some(id) = h2.request().await {
                wanted.acquire().await.expect("open").forget();
                h2.answer(id).await;
            }
        }
    })
    .await;
    let all: Vec<_> = (0..5).map(|_| sending(&pool, &target, patient())).collect();
    until("all are out", || {
        pool.status().in_use == 5 && upstream.opened() == 3
    })
    .await;
    go.add_permits(5);
    for one in all {
        let (response, _) = head(one.await.expect("no panic"));
        read(response.into_body()).await.expect("a body");
    }
    assert_eq!(
        upstream.opened(),
        3,
        "two streams on each of two, one on the third"
    );
}

// rule: a-cancelled-stream-leaves-its-connection
#[tokio::test]
async fn a_request_that_is_dropped_resets_its_stream_and_leaves_the_connection() {
    let (upstream, pool, target) = stage(&[], |mut h2: H2| async move {
        let id = h2.request().await.expect("a request");
        let reset = h2.reset_of().await.expect("a reset");
        assert_eq!((reset.id, reset.code()), (id, CANCEL));
        h2.keep_answering().await;
    })
    .await;
    let dropped = sending(&pool, &target, patient());
    until("it is out", || upstream.whole() == 1).await;
    dropped.abort();
    assert!(dropped.await.is_err());
    assert_eq!((pool.status().idle, pool.status().in_use), (1, 0));
    answered(&pool, &target).await;
    assert_eq!(upstream.opened(), 1);
}

// rule: cancelled-streams-leave-nothing
#[tokio::test]
async fn a_hundred_cancelled_in_flight_leave_nothing() {
    let resets = Arc::new(Semaphore::new(0));
    let counted = Arc::clone(&resets);
    let (upstream, pool, target) = stage(&[], move |mut h2: H2| {
        let resets = Arc::clone(&counted);
        async move {
            for _ in 0..100 {
                h2.request().await;
            }
            for _ in 0..100 {
                assert_eq!(h2.reset_of().await.expect("a reset").code(), CANCEL);
                resets.add_permits(1);
            }
            h2.keep_answering().await;
        }
    })
    .await;
    let all: Vec<_> = (0..100)
        .map(|_| sending(&pool, &target, patient()))
        .collect();
    until("all are out", || upstream.whole() == 100).await;
    assert_eq!(pool.status().in_use, 100);
    for one in &all {
        one.abort();
    }
    for one in all {
        assert!(one.await.is_err());
    }
    assert_eq!(pool.status(), resting());
    until("each was told", || resets.available_permits() == 100).await;
    answered(&pool, &target).await;
    assert_eq!(upstream.opened(), 1);
    drop(pool);
    until("closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn a_hundred_cancelled_at_any_moment_of_http2_leave_nothing() {
    let (upstream, pool, target) = stage(&[], H2::keep_answering).await;
    for turns in 0..100 {
        let one = sending(&pool, &target, patient());
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        one.abort();
        drop(one.await);
        let status = pool.status();
        assert_eq!(
            (status.in_use, status.waiting),
            (0, 0),
            "after {turns} turns"
        );
    }
    answered(&pool, &target).await;
    drop(pool);
    until("closed", || upstream.closed() == upstream.opened()).await;
}

/// One connection, at rest.
fn resting() -> PoolStatus {
    PoolStatus {
        idle: 1,
        ..PoolStatus::default()
    }
}

#[tokio::test]
async fn a_shared_connection_that_rested_for_too_long_is_closed() {
    let authority = Authority::new();
    let config = speaking_http2(&authority.signs("localhost"));
    let upstream = Secured::start(config, |peer| async move {
        H2::greet(peer, &[]).await.keep_answering().await;
    })
    .await;
    let settings = PoolSettings {
        idle: SOON,
        ..long_lived()
    };
    let pool = Pool::with_tls(settings, authority.trusted());
    answered(&pool, &upstream.target()).await;
    until("closed", || upstream.closed() == 1).await;
    assert_eq!(pool.status(), PoolStatus::default());
}

#[tokio::test]
async fn what_may_not_be_repeated_takes_a_shared_connection_only_if_it_rested_shortly() {
    let authority = Authority::new();
    let config = speaking_http2(&authority.signs("localhost"));
    let upstream = Secured::start(config, |peer| async move {
        H2::greet(peer, &[]).await.keep_answering().await;
    })
    .await;
    let settings = PoolSettings {
        reuse_unsafe_within: Duration::ZERO,
        ..long_lived()
    };
    let pool = Pool::with_tls(settings, authority.trusted());
    let target = upstream.target();
    answered(&pool, &target).await;
    assert!(pool.idle(&target, Reuse::Unsafe).is_none());
    let busy = pool.idle(&target, Reuse::Safe).expect("any will do");
    // With a stream open its peer does not close it for being idle.
    assert!(pool.idle(&target, Reuse::Unsafe).is_some());
    drop(busy);
    answered(&pool, &target).await;
    assert_eq!(upstream.opened(), 2);
}

/// Who waited for a connection that could not be opened does not open it again, one by one.
#[tokio::test]
async fn those_who_wait_for_a_connection_fail_with_it() {
    let stranger = Authority::new();
    let config = speaking_http2(&stranger.signs("localhost"));
    let upstream = Secured::start(config, |_| async {}).await;
    let pool = Pool::with_tls(long_lived(), Authority::new().trusted());
    let all = (0..20).map(|_| {
        let (pool, target) = (pool.clone(), upstream.target());
        async move {
            let limits = patient();
            let ready = pool.acquire(&target, Reuse::Safe, &limits, in_time());
            ready.await.expect_err("not trusted").failure
        }
    });
    let all = futures_util::future::join_all(all).await;
    assert_eq!(all, [Failure::TlsIdentity; 20]);
    assert_eq!(upstream.opened(), 1);
    assert_eq!(pool.status(), PoolStatus::default());
}

/// As over HTTP/1.1: what is proven not to have been received was not, hundreds of times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_shared_connection_never_hides_a_received_request() {
    let (upstream, pool, target) = stage(&[], |mut h2: H2| async move {
        let mut last = 0;
        for _ in 0..1 + h2.nth() % 3 {
            let Some(id) = h2.request().await else {
                return;
            };
            last = id;
            h2.answer(id).await;
        }
        for _ in 0..h2.nth() % 8 {
            tokio::task::yield_now().await;
        }
        if h2.nth().is_multiple_of(2) {
            h2.goaway(last).await;
        }
    })
    .await;
    let (mut answered, mut maybe, mut proven) = (0, 0, 0);
    for _ in 0..300 {
        match send(&pool, &target, post("hello")).await {
            SendEnd::Head { response, .. } => match read(response.into_body()).await {
                Ok(_) => answered += 1,
                Err(_) => maybe += 1,
            },
            SendEnd::Failed { failure, .. } if failure.never_sent() => proven += 1,
            SendEnd::Failed { .. } => maybe += 1,
            SendEnd::CallerLeft { detail, .. } => panic!("{detail}"),
        }
        assert!(upstream.whole() <= answered + maybe);
    }
    assert!(
        answered >= 150,
        "{answered} answered, {maybe} maybe, {proven} proven"
    );
    assert_eq!(pool.status().in_use, 0);
}
