//! How many live keys a principal may have, over sockets.

use std::sync::Arc;

use steadfast::store::Store;
use steadfast::store::sqlite::Sqlite;

use super::caller::{Answer, Call, charge, get};
use super::running::{Gateway, config};
use super::upstream::Upstream;
use crate::listen::raw::soon;

const QUOTA: &str = "idempotency = { key_quota = 3 }";

fn nth(n: u32) -> Call {
    charge().key(&format!("9b2e{n:04x}-4d1c-4f5e-8a77-6c0d3e5f{n:04x}"))
}

#[track_caller]
fn is_beyond(answer: &Answer) {
    answer.is_problem(429, "quota-exceeded", "none");
    assert!(answer.retryable());
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
}

// rule: the-gateway-keeps-the-quota
#[tokio::test]
async fn the_fourth_key_of_a_principal_is_refused_and_three_are_replayed() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::with(upstream.addr, QUOTA).await;
    for marker in ["false", "true"] {
        for n in 0..3 {
            let answer = gateway.send(&nth(n)).await;
            assert_eq!((answer.status, answer.replayed()), (201, Some(marker)));
        }
        is_beyond(&gateway.send(&nth(3)).await);
    }
    // Nobody's and somebody's keys are two principals', and what has no key has no quota.
    for who in ["Bearer alice", "Bearer bob"] {
        let call = nth(3).with("Authorization", who);
        assert_eq!(gateway.send(&call).await.status, 201, "{who}");
    }
    assert_eq!(gateway.send(&charge()).await.status, 201);
    assert_eq!(upstream.count(), 6);
    let metrics = gateway.operate(get("/metrics")).await;
    let refused = metrics.text().lines().find(|line| {
        line.starts_with("steadfast_keyed_total{") && line.contains("outcome=\"refused\"")
    });
    assert!(
        refused.is_some_and(|line| line.ends_with(" 2")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_key_that_has_expired_makes_room_for_another() {
    let upstream = Upstream::charging().await;
    let route = "idempotency = { key_quota = 3, retention = \"2s\" }";
    let gateway = Gateway::with(upstream.addr, route).await;
    for n in 0..3 {
        assert_eq!(gateway.send(&nth(n)).await.status, 201);
    }
    let fourth = async {
        loop {
            let answer = gateway.send(&nth(3)).await;
            if answer.status == 201 {
                return answer;
            }
            is_beyond(&answer);
        }
    };
    let fourth = soon("the expiry of one", fourth).await;
    assert_eq!(fourth.replayed(), Some("false"));
    assert_eq!(upstream.count(), 4);
}

// rule: two-gateways-keep-one-quota
#[tokio::test]
async fn two_gateways_on_one_file_exceed_the_quota_by_no_more_than_was_on_its_way() {
    let upstream = Upstream::charging().await;
    let folder = tempfile::tempdir().expect("a directory");
    let open = || -> Arc<dyn Store> {
        Arc::new(Sqlite::open(folder.path().join("steadfast.db")).expect("a store"))
    };
    let config = config(upstream.addr, QUOTA);
    let gateways = [
        Gateway::over(&config, open()).await,
        Gateway::over(&config, open()).await,
    ];
    // One after the other nothing is on its way.
    for n in 0..3 {
        let either = &gateways[n as usize % 2];
        assert_eq!(either.send(&nth(n)).await.status, 201);
    }
    for either in &gateways {
        is_beyond(&either.send(&nth(3)).await);
        assert_eq!(either.send(&nth(0)).await.replayed(), Some("true"));
    }
    assert_eq!(upstream.count(), 3);
    // All at once, each gateway knows its own and not the other's.
    let mut callers = Vec::new();
    for n in 0..20 {
        let mut caller = gateways[n as usize % 2].connect().await;
        let call = nth(100 + n).with("Authorization", "Bearer alice");
        caller.write(call.bytes()).await;
        callers.push(caller);
    }
    let mut began = 0;
    for caller in &mut callers {
        let answer = caller.answer().await;
        match answer.status {
            201 => began += 1,
            _ => is_beyond(&answer),
        }
    }
    assert!((3..=6).contains(&began), "{began} began");
    assert_eq!(upstream.count(), 3 + began);
}
