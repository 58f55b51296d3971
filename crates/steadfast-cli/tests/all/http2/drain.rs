//! How a drain ends connections of HTTP/2.

use super::frames::*;
use super::*;

// rule: a-drain-ends-http2-gracefully
#[tokio::test]
async fn a_drain_tells_callers_ends_what_runs_and_takes_no_new_stream() {
    let (service, called, go) = waiting();
    let front = Running::start(service, patient()).await;
    let mut caller = Caller::to(front.addr).await;
    caller.get(1).await;
    soon("the call", called.notified()).await;
    let mut idle = Caller::to(front.addr).await;
    idle.send(PING, 0, 0, b"12345678").await;
    assert_eq!(idle.next().await.expect("a pong").kind, PING);

    let drained = front.stop();
    let first = caller.next().await.expect("a GOAWAY");
    assert_eq!((first.kind, first.code()), (GOAWAY, NO_ERROR));
    assert_eq!(
        first.last_stream(),
        0x7fff_ffff,
        "what is on its way is still taken"
    );
    // The caller's answer to the ping behind it went out while the next frame was read.
    let second = caller.next().await.expect("a GOAWAY");
    assert_eq!((second.kind, second.last_stream()), (GOAWAY, 1));
    caller.get(3).await;
    assert!(!drained.is_finished(), "left a running request behind");
    go.notify_one();
    assert_eq!(caller.answer(1).await.end, End::Whole);
    assert_eq!(caller.end().await, Some(NO_ERROR));
    assert_eq!(idle.end().await, Some(NO_ERROR));
    let called_again = futures_util::FutureExt::now_or_never(called.notified());
    assert!(
        called_again.is_none(),
        "the stream above the last one was taken"
    );
    drop((caller, idle));
    let drained = soon("the end of the drain", drained).await;
    assert_eq!(drained.expect("a task"), Drained { cut: 0 });
}

#[tokio::test]
async fn an_idle_caller_who_does_not_answer_holds_no_drain_up() {
    let front = Running::start(
        answering(200),
        Limits {
            linger_time: AT_ONCE,
            ..patient()
        },
    )
    .await;
    let mut caller = Caller::to(front.addr).await;
    caller.alive = false;
    caller.get(1).await;
    assert_eq!(caller.answer(1).await.end, End::Whole);
    let half = Caller::silent(front.addr).await;
    let drained = soon("the end of the drain", front.stop()).await;
    assert_eq!(drained.expect("a task"), Drained { cut: 0 });
    drop((caller, half));
}

#[tokio::test]
async fn a_drain_cuts_streams_that_are_left_at_its_limit() {
    let (service, called, _go) = waiting();
    let front = Running::start(
        service,
        Limits {
            drain: AT_ONCE,
            ..patient()
        },
    )
    .await;
    let mut caller = Caller::to(front.addr).await;
    caller.get(1).await;
    soon("a call", called.notified()).await;
    let drained = soon("the end of the drain", front.stop()).await;
    assert_eq!(drained.expect("a task"), Drained { cut: 1 });
    assert!(matches!(
        caller.answer(1).await.end,
        End::Gone(_) | End::Reset(_)
    ));
}
