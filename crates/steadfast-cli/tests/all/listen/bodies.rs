//! What a service sees of a request body, and what a caller is asked for it.

use super::raw::{Running, answers, soon, until};
use super::*;

#[tokio::test]
async fn a_caller_is_asked_to_continue_only_when_the_body_is_polled() {
    let (called, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (called.clone(), go.clone());
    let service = service_fn(move |request: Request<RequestBody>| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.notified().await;
            let body = request.into_body().collect().await.expect("a body");
            Ok::<_, Infallible>(Response::new(Full::from(body.to_bytes())))
        }
    });
    let front = Running::start(service, patient()).await;
    let mut stream = front.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("a head");
    soon("the call", called.notified()).await;
    let nothing = stream
        .try_read(&mut [0; 1])
        .expect_err("nothing to read yet");
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    go.notify_one();
    until(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n").await;
    stream.write_all(b"hello").await.expect("a body");
    assert!(
        until(&mut stream, "hello")
            .await
            .starts_with("HTTP/1.1 200 OK\r\n")
    );
}

#[tokio::test]
async fn a_refusal_without_reading_the_body_sends_no_100() {
    let front = Running::start(answering(422), patient()).await;
    let mut stream = front.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("a head");
    let start = until(&mut stream, "answer").await;
    assert!(start.starts_with("HTTP/1.1 422 "), "{start}");
}

/// Reports how the request body ended.
fn body_ends() -> (impl Handler, mpsc::UnboundedReceiver<Option<BodyError>>) {
    let (tell, told) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<RequestBody>| {
        let tell = tell.clone();
        async move {
            // As a body does that is passed on: on a task of its own.
            let read = tokio::spawn(request.into_body().collect()).await;
            let _ = tell.send(read.expect("a task").err());
            Ok::<_, Infallible>(text(200, "answer"))
        }
    });
    (service, told)
}

#[tokio::test]
async fn a_body_cut_by_its_caller_is_an_error_and_not_an_end() {
    let (service, mut told) = body_ends();
    let front = Running::start(service, patient()).await;
    let mut stream = front.connect().await;
    stream.write_all(POST_OF_5).await.expect("a head");
    stream.write_all(b"1234").await.expect("a part");
    drop(stream);
    let end = soon("the body's end", told.recv()).await;
    assert_eq!(end, Some(Some(BodyError::Cut)));
}

#[tokio::test]
async fn a_malformed_body_that_was_passed_on_ends_there_in_the_violation() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<RequestBody>| {
        let tell = tell.clone();
        tokio::spawn(async move {
            let read = request.into_body().collect().await;
            let _ = tell.send(read.err());
        });
        pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let front = Running::start(service, patient()).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd";
    let answers = answers(&front.tell(head.as_bytes()).await);
    assert_eq!(answers[0].status, 400);
    let end = soon("the body's end", told.recv()).await;
    assert_eq!(end, Some(Some(BodyError::Malformed(Violation::ChunkEnd))));
}

#[tokio::test]
async fn a_body_that_stalls_behind_its_answer_is_cut_as_an_idle_connection_is() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<RequestBody>| {
        let tell = tell.clone();
        tokio::spawn(async move {
            let _ = tell.send(request.into_body().collect().await.err());
        });
        async { Ok::<_, Infallible>(text(200, "answer")) }
    });
    let listener = raw::port().await;
    let addr = listener.local_addr().expect("an address");
    let mut stream = TcpStream::connect(addr).await.expect("a connection");
    let part = [POST_OF_5, b"1234"].concat();
    stream.write_all(&part).await.expect("a part");
    let impatient = Limits {
        idle: AT_ONCE,
        head_time: AT_ONCE,
        ..patient()
    };
    let _front = Running::start_on(listener, service, impatient);
    let end = soon("the body's end", told.recv()).await;
    assert_eq!(end, Some(Some(BodyError::Cut)));
    assert_eq!(answers(&raw::rest(&mut stream).await)[0].status, 200);
}
