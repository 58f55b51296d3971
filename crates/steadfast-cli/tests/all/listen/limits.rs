//! The bounds of heads, connections and waiting, and a service's own faults.

use super::raw::{Count, Running, answers, rest, soon, until};
use super::*;

#[tokio::test]
async fn a_head_that_takes_too_long_is_refused() {
    let slow = Limits {
        head_time: AT_ONCE,
        ..patient()
    };
    let front = Running::start(answering(200), slow).await;
    let mut stream = front.connect().await;
    stream
        .write_all(&GET[..20])
        .await
        .expect("a part of a head");
    let mut half = rest_after_shutdown(&mut stream).await;
    let answer = half.pop().expect("an answer");
    assert_eq!(answer.status, 400);
    let detail = Violation::HeadTooSlow.to_string();
    assert!(String::from_utf8_lossy(&answer.body).contains(&detail));
}

/// What comes until the front closes; then closes too, which ends its lingering.
async fn rest_after_shutdown(stream: &mut TcpStream) -> Vec<raw::Answer> {
    let bytes = rest(stream).await;
    let _ = stream.shutdown().await;
    answers(&bytes)
}

#[tokio::test]
async fn a_connection_without_request_is_closed_before_the_first_and_after_one() {
    let impatient = Limits {
        idle: AT_ONCE,
        ..patient()
    };
    let front = Running::start(answering(200), impatient).await;
    let mut fresh = front.connect().await;
    assert_eq!(rest(&mut fresh).await, b"");
    // This request is there before the limit can begin.
    let listener = raw::port().await;
    let addr = listener.local_addr().expect("an address");
    let mut early = TcpStream::connect(addr).await.expect("a connection");
    early.write_all(GET).await.expect("a request");
    let _front = Running::start_on(listener, answering(200), impatient);
    let answers = answers(&rest(&mut early).await);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].status, 200);
    assert!(
        !answers[0].headers.contains_key("connection"),
        "kept alive until then"
    );
}

#[tokio::test]
async fn a_connection_is_not_idle_while_a_service_works() {
    let (service, called, go) = waiting();
    let listener = raw::port().await;
    let addr = listener.local_addr().expect("an address");
    let mut stream = TcpStream::connect(addr).await.expect("a connection");
    stream.write_all(GET).await.expect("a request");
    let impatient = Limits {
        idle: AT_ONCE,
        head_time: AT_ONCE,
        ..patient()
    };
    let front = Running::start_on(listener, service, impatient);
    soon("the call", called.notified()).await;
    // The limit has run out for a connection that came later.
    assert_eq!(rest(&mut front.connect().await).await, b"");
    go.notify_one();
    assert_eq!(answers(&rest(&mut stream).await)[0].status, 200);
}

#[tokio::test]
async fn a_caller_who_takes_nothing_of_an_answer_is_cut() {
    let (dropped, mut seen) = mpsc::unbounded_channel();
    let service = service_fn(move |_: Request<RequestBody>| {
        let guard = OnDrop(dropped.clone());
        async move {
            let block = Bytes::from(vec![b'x'; 1024 * 1024]);
            let frames = stream::repeat_with(move || {
                let _ = &guard;
                Ok::<_, Infallible>(Frame::data(block.clone()))
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        }
    });
    let stalled = Limits {
        write_stall: AT_ONCE,
        ..patient()
    };
    let front = Running::start(service, stalled).await;
    let mut stream = front.connect().await;
    stream.write_all(GET).await.expect("a request");
    soon("the cut", seen.recv()).await;
}

#[tokio::test]
async fn a_head_of_more_fields_than_hypers_own_limit_passes_where_that_is_set() {
    let head = HeadLimits {
        fields: 200,
        ..HeadLimits::default()
    };
    let front = Running::start(answering(200), Limits { head, ..patient() }).await;
    let request = format!("GET / HTTP/1.0\r\n{}\r\n", "x: y\r\n".repeat(200));
    assert_eq!(
        answers(&front.tell(request.as_bytes()).await)[0].status,
        200
    );
}

#[tokio::test]
async fn a_service_knows_its_peer_and_the_answer_has_one_date() {
    let service = service_fn(|request: Request<RequestBody>| async move {
        let Peer(peer) = request.extensions().get::<Peer>().expect("a peer");
        let response = Response::builder().header("date", "Thu, 01 Jan 2026 00:00:00 GMT");
        let response = response.body(Full::from(peer.to_string()));
        Ok::<_, Infallible>(response.expect("a response"))
    });
    let front = Running::start(service, patient()).await;
    let mut stream = front.connect().await;
    let own = stream.local_addr().expect("an address").to_string();
    stream
        .write_all(b"GET / HTTP/1.0\r\n\r\n")
        .await
        .expect("a request");
    let answer = &answers(&rest(&mut stream).await)[0];
    assert_eq!(answer.body, own.as_bytes());
    assert_eq!(answer.headers.get_all("date").iter().count(), 1);
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_one_that_ends() {
    let calls = Count::default();
    let counted = calls.clone();
    let service = service_fn(move |_: Request<RequestBody>| {
        counted.add();
        async { Ok::<_, Infallible>(text(200, "answer")) }
    });
    let front = Running::start(
        service,
        Limits {
            connections: 1,
            ..patient()
        },
    )
    .await;
    let mut first = front.connect().await;
    first.write_all(GET).await.expect("a request");
    until(&mut first, "answer").await;
    let mut second = front.connect().await;
    second.write_all(GET).await.expect("a request");
    // The first is served again, and the second not while it is open.
    first.write_all(GET).await.expect("a request");
    until(&mut first, "answer").await;
    assert_eq!(calls.get(), 2);
    drop(first);
    until(&mut second, "answer").await;
}

#[tokio::test]
async fn a_panic_in_a_service_ends_its_connection_alone() {
    let service = service_fn(|request: Request<RequestBody>| async move {
        assert_ne!(request.uri(), "/panic", "as this test wants");
        Ok::<_, Infallible>(text(200, "answer"))
    });
    let front = Running::start(service, patient()).await;
    let mut stream = front.connect().await;
    stream
        .write_all(b"GET /panic HTTP/1.0\r\n\r\n")
        .await
        .expect("a request");
    let _ = soon("the close", stream.read_to_end(&mut Vec::new())).await;
    let answers = answers(&front.tell(b"GET / HTTP/1.0\r\n\r\n").await);
    assert_eq!(answers[0].status, 200);
}
