//! Callers who leave a stream, answers that fail, and answers before the body.

use super::frames::*;
use super::*;

/// A service that never answers, and tells when it is called and when it is dropped.
fn never() -> (impl Handler, mpsc::UnboundedReceiver<()>, Arc<Notify>) {
    let (dropped, seen) = mpsc::unbounded_channel();
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
    (service, seen, called)
}

// rule: a-reset-stream-is-a-caller-who-left
#[tokio::test]
async fn a_stream_that_is_reset_drops_its_service_and_leaves_others() {
    let (service, mut seen, called) = never();
    let front = Running::start(service, patient()).await;
    let mut caller = Caller::to(front.addr).await;
    for id in [1, 3] {
        caller.get(id).await;
        soon("the call", called.notified()).await;
    }
    assert!(
        seen.try_recv().is_err(),
        "dropped while its caller was there"
    );
    caller.reset(1).await;
    soon("the drop", seen.recv()).await;
    assert!(seen.try_recv().is_err(), "the other stream stands");
    drop(caller);
    soon("the drop", seen.recv()).await;
}

#[tokio::test]
async fn a_caller_who_says_goaway_gets_the_answers_it_waits_for() {
    let (service, called, go) = waiting();
    let front = Running::start(service, patient()).await;
    let mut caller = Caller::to(front.addr).await;
    caller.get(1).await;
    soon("the call", called.notified()).await;
    caller.send(GOAWAY, 0, 0, &[0; 8]).await;
    go.notify_one();
    assert_eq!(caller.answer(1).await.end, End::Whole);
    caller.end().await;
}

// rule: a-cut-answer-is-never-a-whole-one
#[tokio::test]
async fn an_answer_that_fails_resets_its_stream_and_never_ends_it() {
    let service = service_fn(|_: Request<RequestBody>| async {
        let frames = [
            Ok(BodyFrame::data(Bytes::from_static(b"part"))),
            Err("upstream cut"),
        ];
        Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames))))
    });
    let front = Running::start(service, patient()).await;
    let mut caller = Caller::to(front.addr).await;
    for id in [1, 3] {
        caller.get(id).await;
        assert_eq!(caller.answer(id).await.end, End::Reset(INTERNAL_ERROR));
    }
}

#[tokio::test]
async fn an_answer_before_the_body_ends_its_stream_with_no_error() {
    let front = Running::start(answering(200), patient()).await;
    let mut caller = Caller::to(front.addr).await;
    caller
        .begin(1, &fields("POST", &[("content-length", "100000")]))
        .await;
    let answer = caller.answer(1).await;
    assert_eq!((answer.text().as_str(), answer.end), ("answer", End::Whole));
    let reset = loop {
        let frame = caller.next().await.expect("a reset");
        if frame.kind == RST_STREAM {
            break frame;
        }
    };
    assert_eq!((reset.id, reset.code()), (1, NO_ERROR));
    // What was on its way harms nobody.
    caller.send(DATA, 0, 1, &[0; 1000]).await;
    caller.get(3).await;
    assert_eq!(caller.answer(3).await.end, End::Whole);
}

#[tokio::test]
async fn a_caller_is_asked_to_continue_when_the_body_is_polled_and_not_before() {
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
    let mut caller = Caller::to(front.addr).await;
    let expecting = [("expect", "100-continue"), ("content-length", "5")];
    caller.begin(1, &fields("POST", &expecting)).await;
    soon("the call", called.notified()).await;
    caller.send(PING, 0, 0, b"12345678").await;
    let pong = caller.next().await.expect("a frame");
    assert_eq!(pong.kind, PING, "nothing was asked yet");
    go.notify_one();
    let asked = caller.next().await.expect("a frame");
    assert_eq!((asked.kind, asked.flags & END_STREAM), (HEADERS, 0));
    assert!(
        asked.payload.ends_with(b"100") || asked.payload.len() < 6,
        "{asked:?}"
    );
    caller.send(DATA, END_STREAM, 1, b"hello").await;
    let answer = caller.answer(1).await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"));
}

#[tokio::test]
async fn a_body_cut_by_its_caller_is_an_error_and_not_an_end() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let called = Arc::new(Notify::new());
    let calls = called.clone();
    let service = service_fn(move |request: Request<RequestBody>| {
        let tell = tell.clone();
        calls.notify_one();
        tokio::spawn(async move {
            let _ = tell.send(request.into_body().collect().await.err());
        });
        pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let front = Running::start(service, patient()).await;
    for drops in [false, true] {
        let mut caller = Caller::to(front.addr).await;
        caller.begin(1, &fields("POST", &[])).await;
        caller.send(DATA, 0, 1, b"1234").await;
        soon("the call", called.notified()).await;
        match drops {
            true => drop(caller),
            false => caller.reset(1).await,
        }
        let end = soon("the body's end", told.recv()).await;
        assert_eq!(end, Some(Some(BodyError::Cut)));
    }
}

#[tokio::test]
async fn the_answer_has_no_field_of_a_connection_and_no_body_where_none_may_be() {
    let service = service_fn(|request: Request<RequestBody>| async move {
        let mut response = text(200, "answer");
        if request.uri() == "http://a/none" {
            response = text(204, "");
        }
        for name in [
            "connection",
            "keep-alive",
            "transfer-encoding",
            "upgrade",
            "proxy-connection",
        ] {
            response
                .headers_mut()
                .insert(name, "close".parse().expect("a value"));
        }
        Ok::<_, Infallible>(response)
    });
    let front = Running::start(service, patient()).await;
    let mut curl = Command::new("curl");
    let url = format!("http://{}/", front.addr);
    curl.args(["-sSi", "-m", "60", "--http2-prior-knowledge", &url]);
    let ran = tokio::task::spawn_blocking(move || curl.output()).await;
    let shown = String::from_utf8(ran.expect("a task").expect("curl").stdout).expect("text");
    let mut names: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "date"], "{shown}");
    let mut caller = Caller::to(front.addr).await;
    caller.ask(1, &fields("HEAD", &[])).await;
    let head = caller.answer(1).await;
    assert_eq!(
        (head.status(), head.body.len(), head.end),
        (200, 0, End::Whole)
    );
}

#[tokio::test]
async fn trailers_pass_where_the_head_announced_them() {
    let service = service_fn(|_: Request<RequestBody>| async {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-told", "1".parse().expect("a value"));
        trailers.insert("x-sudden", "2".parse().expect("a value"));
        let frames = [
            Ok(BodyFrame::data(Bytes::from_static(b"part"))),
            Ok::<_, Infallible>(BodyFrame::trailers(trailers)),
        ];
        let response = Response::builder().header("trailer", "x-told");
        let body = StreamBody::new(stream::iter(frames));
        Ok::<_, Infallible>(response.body(body).expect("a response"))
    });
    let front = Running::start(service, patient()).await;
    let mut caller = Caller::to(front.addr).await;
    caller.get(1).await;
    let answer = caller.answer(1).await;
    assert_eq!((answer.heads.len(), answer.end), (2, End::Whole));
    // One field, without its neighbour: a name of six letters and a value of one.
    assert!(answer.heads[1].len() < 12, "{:?}", answer.heads[1]);
}
