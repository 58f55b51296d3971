//! Whoever leaves takes everything along: connection, permit, place in line.

use steadfast::client::pool::PoolStatus;

use super::upstream::Upstream;
use super::{pool, post, send, until};

#[tokio::test]
async fn a_hundred_cancelled_in_flight_leave_nothing() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.request().await;
        peer.ended().await;
    })
    .await;
    let pool = pool();
    let sending: Vec<_> = (0..100)
        .map(|_| {
            let (pool, target) = (pool.clone(), upstream.target());
            tokio::spawn(async move { send(&pool, &target, post("hello")).await })
        })
        .collect();
    until("all are received", || upstream.whole() == 100).await;
    assert_eq!(pool.status().in_use, 100);
    for one in &sending {
        one.abort();
    }
    for one in sending {
        assert!(one.await.is_err());
    }
    assert_eq!(pool.status(), PoolStatus::default());
    until("all are closed", || upstream.closed() == 100).await;
}

#[tokio::test]
async fn a_hundred_cancelled_at_any_moment_leave_nothing() {
    let upstream = Upstream::start(|peer| peer.keep_answering(super::upstream::OK)).await;
    let pool = pool();
    for moment in 0..100 {
        let (shared, target) = (pool.clone(), upstream.target());
        let sending = tokio::spawn(async move { send(&shared, &target, post("hello")).await });
        for _ in 0..moment % 20 {
            tokio::task::yield_now().await;
        }
        sending.abort();
        // Done or not: an answer that nobody reads closes its connection as well.
        drop(sending.await);
        assert_eq!(pool.status().in_use, 0, "at {moment}");
    }
    let resting = pool.status().idle;
    until("the others are closed", || {
        upstream.opened() - upstream.closed() == resting
    })
    .await;
}
