//! What a service sees of callers who leave, and callers of answers that fail.

use super::raw::{Running, soon, until};
use super::*;

#[tokio::test]
async fn a_caller_who_leaves_drops_the_service_that_has_not_answered() {
    let (dropped, mut seen) = mpsc::unbounded_channel();
    let called = Arc::new(Notify::new());
    let tell = called.clone();
    let service = service_fn(move |_: Request<RequestBody>| {
        let (guard, tell) = (OnDrop(dropped.clone()), tell.clone());
        async move {
            let _guard = guard;
            tell.notify_one();
            pending::<Result<Response<Full<Bytes>>, Infallible>>().await
        }
    });
    let front = Running::start(service, patient()).await;
    for half in [false, true] {
        let mut stream = front.connect().await;
        stream.write_all(GET).await.expect("a request");
        soon("the call", called.notified()).await;
        assert!(
            seen.try_recv().is_err(),
            "dropped while its caller was there"
        );
        if half {
            stream.shutdown().await.expect("the sending side closed");
        } else {
            drop(stream);
        }
        soon("the drop", seen.recv()).await;
    }
}

#[tokio::test]
async fn a_caller_who_leaves_inside_an_answer_drops_its_body() {
    let (dropped, mut seen) = mpsc::unbounded_channel();
    let service = service_fn(move |_: Request<RequestBody>| {
        let guard = OnDrop(dropped.clone());
        async move {
            let first = Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"first")));
            let frames = stream::unfold((Some(first), guard), |(next, guard)| async move {
                match next {
                    Some(frame) => Some((frame, (None, guard))),
                    None => pending().await,
                }
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(frames))))
        }
    });
    let front = Running::start(service, patient()).await;
    let mut stream = front.connect().await;
    stream.write_all(GET).await.expect("a request");
    until(&mut stream, "first\r\n").await;
    assert!(
        seen.try_recv().is_err(),
        "dropped while its caller was there"
    );
    drop(stream);
    soon("the drop", seen.recv()).await;
}

#[tokio::test]
async fn an_answer_that_fails_resets_the_connection_of_an_http_1_0_caller() {
    let service = service_fn(|_: Request<RequestBody>| async {
        let frames = [
            Ok(Frame::data(Bytes::from_static(b"part"))),
            Err("upstream cut"),
        ];
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
    });
    let front = Running::start(service, patient()).await;
    let mut stream = front.connect().await;
    stream
        .write_all(b"GET / HTTP/1.0\r\n\r\n")
        .await
        .expect("a request");
    let mut bytes = Vec::new();
    let read = soon("the cut", stream.read_to_end(&mut bytes)).await;
    assert!(
        read.is_err(),
        "{:?} looks whole",
        String::from_utf8_lossy(&bytes)
    );
}
