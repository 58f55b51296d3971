//! How a drain ends.

use super::raw::{Running, answers, rest, soon, until};
use super::*;

#[tokio::test]
async fn a_drain_closes_what_waits_and_ends_what_runs() {
    let (service, called, go) = waiting();
    let front = Running::start(service, patient()).await;
    let addr = front.addr;
    let mut fresh = front.connect().await;
    let mut idle = front.connect().await;
    idle.write_all(GET).await.expect("a request");
    soon("a call", called.notified()).await;
    go.notify_one();
    until(&mut idle, "answer").await;
    let mut running = front.connect().await;
    running.write_all(GET).await.expect("a request");
    soon("a call", called.notified()).await;

    let drained = front.stop();
    assert_eq!(rest(&mut fresh).await, b"");
    assert_eq!(rest(&mut idle).await, b"");
    assert!(TcpStream::connect(addr).await.is_err(), "still accepts");
    assert!(!drained.is_finished(), "left a running request behind");
    go.notify_one();
    let answer = &answers(&rest(&mut running).await)[0];
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["connection"], "close");
    let drained = soon("the end of the drain", drained).await;
    assert_eq!(drained.expect("a task"), Drained { cut: 0 });
}

#[tokio::test]
async fn a_drain_cuts_what_is_left_at_its_limit_and_counts_it() {
    let (service, called, _go) = waiting();
    let front = Running::start(
        service,
        Limits {
            drain: AT_ONCE,
            ..patient()
        },
    )
    .await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = front.connect().await;
        stream.write_all(GET).await.expect("a request");
        soon("a call", called.notified()).await;
        streams.push(stream);
    }
    let drained = soon("the end of the drain", front.stop()).await;
    assert_eq!(drained.expect("a task"), Drained { cut: 3 });
    for mut stream in streams {
        let _ = soon("the cut", stream.read_to_end(&mut Vec::new())).await;
    }
}
