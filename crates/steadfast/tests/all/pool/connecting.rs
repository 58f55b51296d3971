//! Before the first byte: every failure proves that nothing was sent.

use std::num::NonZeroU32;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use steadfast::client::Target;
use steadfast::client::pool::{NeverSent, Pool, PoolSettings, PoolStatus, Reuse};
use steadfast::clock;
use steadfast::core::attempt::Failure;
use steadfast::core::deadline::Deadline;
use steadfast::core::timeouts::Timeouts;
use tokio::net::TcpListener;

use super::upstream::{OK, Upstream};
use super::{SOON, acquire, get, head, in_time, patient, pool, read, send, until};

async fn refused(pool: &Pool, target: &Target, timeouts: Timeouts, ends: Deadline) -> NeverSent {
    let ready = pool.acquire(target, Reuse::Safe, &timeouts, ends).await;
    let never_sent = ready.expect_err("a connection");
    assert!(never_sent.failure.never_sent());
    assert_eq!(pool.status(), PoolStatus::default(), "something stayed");
    never_sent
}

/// An address on loopback where a connection is neither taken nor refused: a listener whose queue
/// is full.
struct BlackHole {
    target: Target,
    _listener: Socket,
    _queued: Vec<Socket>,
}

impl BlackHole {
    fn new() -> BlackHole {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let listener = socket();
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
        listener.bind(&SockAddr::from(any)).expect("a port");
        listener.listen(0).expect("listening");
        let address = listener.local_addr().expect("an address");
        let mut queued = Vec::new();
        // More than fit; those above the queue's length only start.
        for _ in 0..8 {
            let one = socket();
            one.set_nonblocking(true).expect("a socket");
            let _ = one.connect(&address);
            queued.push(one);
        }
        let address = address.as_socket().expect("an address");
        BlackHole {
            target: Target::parse(&format!("http://{address}")).expect("a target"),
            _listener: listener,
            _queued: queued,
        }
    }
}

#[tokio::test]
async fn a_refused_connection_is_never_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let target = Target::parse(&format!("http://{address}")).expect("a target");
    let never_sent = refused(&pool(), &target, patient(), in_time()).await;
    assert_eq!(never_sent.failure, Failure::Connect);
    assert!(
        never_sent.detail.contains(&address.to_string()),
        "{never_sent}"
    );
    assert!(never_sent.detail.contains("check that"), "{never_sent}");
}

#[tokio::test]
async fn a_connection_that_never_stands_ends_with_the_connect_limit() {
    let hole = BlackHole::new();
    let timeouts = Timeouts {
        connect: SOON,
        ..patient()
    };
    let never_sent = refused(&pool(), &hole.target, timeouts, in_time()).await;
    assert_eq!(never_sent.failure, Failure::Connect);
}

#[tokio::test]
async fn connecting_ends_with_the_attempt_and_with_the_deadline() {
    let hole = BlackHole::new();
    let timeouts = Timeouts {
        attempt: SOON,
        ..patient()
    };
    let never_sent = refused(&pool(), &hole.target, timeouts, in_time()).await;
    assert_eq!(never_sent.failure, Failure::Connect);
    let soon = Deadline::after(clock::mono_now(), SOON);
    let never_sent = refused(&pool(), &hole.target, patient(), soon).await;
    assert_eq!(never_sent.failure, Failure::Connect);
}

#[tokio::test]
async fn a_spent_deadline_opens_no_connection() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let spent = Deadline::after(clock::mono_now(), Duration::ZERO);
    let never_sent = refused(&pool(), &upstream.target(), patient(), spent).await;
    assert_eq!(never_sent.failure, Failure::Connect);
    assert_eq!(upstream.opened(), 0);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_never_sent() {
    let target = Target::parse("http://name.invalid:80").expect("a target");
    let never_sent = refused(&pool(), &target, patient(), in_time()).await;
    assert_eq!(never_sent.failure, Failure::Resolve);
    assert!(never_sent.detail.contains("name.invalid"), "{never_sent}");
}

#[tokio::test]
async fn resolving_ends_with_its_limit() {
    let target = Target::parse("http://name.invalid:80").expect("a target");
    let timeouts = Timeouts {
        resolve: Duration::ZERO,
        ..patient()
    };
    let never_sent = refused(&pool(), &target, timeouts, in_time()).await;
    assert_eq!(never_sent.failure, Failure::Resolve);
}

#[tokio::test]
async fn a_name_is_resolved() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let named = format!("http://localhost:{}", upstream.target().port());
    let target = Target::parse(&named).expect("a target");
    // `localhost` may also stand for ::1, where nobody listens: its addresses are tried in turn.
    let (response, _) = head(send(&pool(), &target, get()).await);
    assert_eq!(read(response.into_body()).await.expect("a body"), "ok");
}

fn narrow(most: u32) -> Pool {
    Pool::new(PoolSettings {
        max_per_host: NonZeroU32::new(most).expect("not zero"),
        ..PoolSettings::default()
    })
}

#[tokio::test]
async fn above_max_per_host_a_request_waits_for_a_connection() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let (pool, target) = (narrow(1), upstream.target());
    let first = acquire(&pool, &target).await;
    assert!(pool.idle(&target, Reuse::Safe).is_none());
    let (waits, on) = (pool.clone(), target.clone());
    let second = tokio::spawn(async move { head(send(&waits, &on, get()).await).0 });
    until("one waits", || pool.status().waiting == 1).await;
    let (response, _) = head(first.send(get(), &patient(), in_time()).await);
    assert_eq!(
        pool.status().waiting,
        1,
        "a body that is still read was overtaken"
    );
    read(response.into_body()).await.expect("a body");
    let second = second.await.expect("no panic");
    read(second.into_body()).await.expect("a body");
    assert_eq!(
        upstream.opened(),
        1,
        "the waiter took the connection of the first"
    );
}

#[tokio::test]
async fn waiting_for_a_connection_ends_with_the_pool_limit() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let (pool, target) = (narrow(1), upstream.target());
    let first = acquire(&pool, &target).await;
    let timeouts = Timeouts {
        pool: SOON,
        ..patient()
    };
    let second = pool
        .acquire(&target, Reuse::Safe, &timeouts, in_time())
        .await;
    let never_sent = second.expect_err("crowded");
    assert_eq!(never_sent.failure, Failure::Pool);
    assert!(never_sent.detail.contains("max_per_host"), "{never_sent}");
    drop(first);
    let status = pool.status();
    assert_eq!((status.in_use, status.waiting), (0, 0));
}

#[tokio::test]
async fn a_waiter_that_leaves_leaves_no_permit_behind() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let (pool, target) = (narrow(1), upstream.target());
    let first = acquire(&pool, &target).await;
    for _ in 0..100 {
        let (waits, on) = (pool.clone(), target.clone());
        let waiter = tokio::spawn(async move { acquire(&waits, &on).await });
        until("one waits", || pool.status().waiting == 1).await;
        waiter.abort();
        assert!(waiter.await.is_err());
        assert_eq!(pool.status().waiting, 0);
    }
    drop(first);
    assert_eq!(pool.status().in_use, 0);
    drop(acquire(&pool, &target).await);
}

#[tokio::test]
async fn no_more_connections_are_open_than_max_per_host_those_at_rest_included() {
    let upstream = Upstream::start(|peer| peer.keep_answering(OK)).await;
    let pool = Pool::new(PoolSettings {
        max_per_host: NonZeroU32::new(2).expect("not zero"),
        reuse_unsafe_within: Duration::ZERO,
        ..PoolSettings::default()
    });
    let target = upstream.target();
    for _ in 0..5 {
        let (response, _) = head(send(&pool, &target, get()).await);
        read(response.into_body()).await.expect("a body");
        let status = pool.status();
        assert!(status.idle + status.in_use <= 2, "{status:?}");
    }
    assert_eq!(upstream.opened(), 5, "an unsafe request took none at rest");
    until("the others were closed", || upstream.closed() == 3).await;
}
