//! The bounds of a connection's time, of its streams and of what its caller may send.

use super::frames::*;
use super::*;

// rule: http2-streams-are-bounded
#[tokio::test]
async fn a_stream_beyond_the_bound_is_refused_unprocessed() {
    let (service, called, go) = waiting();
    let two = Http2Limits {
        streams: 2,
        ..quiet()
    };
    let front = Running::start(
        service,
        Limits {
            http2: Some(two),
            ..patient()
        },
    )
    .await;
    let mut caller = Caller::to(front.addr).await;
    for id in [1, 3] {
        caller.get(id).await;
        soon("the call", called.notified()).await;
    }
    // Settings hold for a caller once it has seen them.
    let setting = caller_sees_settings(&mut caller).await;
    caller.get(5).await;
    assert_eq!(
        caller.answer(5).await.end,
        End::Reset(REFUSED_STREAM),
        "{setting:?}"
    );
    go.notify_one();
    go.notify_one();
}

// rule: http2-streams-of-all-connections-are-bounded
#[tokio::test]
async fn streams_of_all_connections_together_are_no_more_than_connections() {
    let (service, called, go) = waiting();
    let three = Limits {
        connections: 3,
        ..patient()
    };
    let front = Running::start(service, three).await;
    let mut callers = [Caller::to(front.addr).await, Caller::to(front.addr).await];
    for (caller, id) in [(0, 1), (0, 3), (1, 1)] {
        callers[caller].get(id).await;
        soon("the call", called.notified()).await;
    }
    for caller in &mut callers {
        caller.get(5).await;
        assert_eq!(caller.answer(5).await.end, End::Reset(REFUSED_STREAM));
    }
    // What ends makes room for another connection's.
    go.notify_one();
    assert_eq!(callers[0].answer(1).await.status(), 200);
    callers[1].get(7).await;
    soon("the call", called.notified()).await;
    go.notify_one();
    go.notify_one();
    go.notify_one();
}

async fn caller_sees_settings(caller: &mut Caller) -> Vec<u8> {
    caller.send(PING, 0, 0, b"12345678").await;
    caller.next().await.expect("a pong").payload
}

// rule: rapid-resets-end-the-connection
#[tokio::test]
async fn a_caller_who_resets_what_it_opens_again_and_again_is_sent_away() {
    for paced in [false, true] {
        let (service, called, _go) = waiting();
        let few = Http2Limits {
            resets: 20,
            ..quiet()
        };
        let front = Running::start(
            service,
            Limits {
                http2: Some(few),
                ..patient()
            },
        )
        .await;
        let mut caller = Caller::to(front.addr).await;
        // Paced, the parser's own bound sees nothing: each is taken before it is reset.
        let streams = if paced { 21 } else { 100 };
        for at in 0..streams {
            caller.get(2 * at + 1).await;
            if paced {
                soon("the call", called.notified()).await;
            }
            caller.reset(2 * at + 1).await;
        }
        assert_eq!(
            caller.end().await,
            Some(ENHANCE_YOUR_CALM),
            "paced: {paced}"
        );
    }
}

#[tokio::test]
async fn malformed_streams_without_end_end_the_connection() {
    let front = Running::start(answering(200), patient()).await;
    let mut caller = Caller::to(front.addr).await;
    for at in 0..200 {
        caller
            .ask(2 * at + 1, &fields("GET", &[("connection", "close")]))
            .await;
    }
    assert_eq!(caller.end().await, Some(ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn a_head_without_end_ends_the_connection() {
    let front = Running::start(answering(200), patient()).await;
    for payload in [&b""[..], &block(&[("x", &[b'y'; 16_000])])] {
        let mut caller = Caller::to(front.addr).await;
        caller
            .send(HEADERS, END_STREAM, 1, &block(&fields("GET", &[])))
            .await;
        for _ in 0..100 {
            caller.send(CONTINUATION, 0, 1, payload).await;
        }
        assert!(caller.end().await.is_some());
    }
}

#[tokio::test]
async fn data_frames_without_data_end_the_connection() {
    let service = service_fn(|request: Request<RequestBody>| async {
        let _ = request.into_body().collect().await;
        Ok::<_, Infallible>(text(200, "answer"))
    });
    let front = Running::start(service, patient()).await;
    let mut caller = Caller::to(front.addr).await;
    caller.begin(1, &fields("POST", &[])).await;
    let flood = frame(DATA, 0, 1, &[]).repeat(20_000);
    caller.write(&flood).await;
    assert_eq!(caller.end().await, Some(ENHANCE_YOUR_CALM));
}

// rule: floods-that-want-answers-wait-for-their-reader
#[tokio::test]
async fn pings_and_settings_whose_answers_are_not_read_end_with_the_write_limit() {
    let stalled = Limits {
        write_stall: AT_ONCE,
        ..patient()
    };
    let front = Running::start(answering(200), stalled).await;
    for flood in [frame(PING, 0, 0, b"12345678"), frame(SETTINGS, 0, 0, &[])] {
        let mut caller = Caller::to(front.addr).await;
        let flood = flood.repeat(10_000);
        let sent = async { while caller.stream.write_all(&flood).await.is_ok() {} };
        soon("the connection to be cut", sent).await;
    }
}

// rule: a-closed-window-does-not-hold-an-answer
#[tokio::test]
async fn a_caller_who_opens_no_window_has_its_stream_reset_and_keeps_the_others() {
    let (dropped, mut seen) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<RequestBody>| {
        let guard = OnDrop(dropped.clone());
        async move {
            let size = if request.method() == "POST" {
                1
            } else {
                1024 * 1024
            };
            let block = Bytes::from(vec![b'x'; size]);
            let frames = stream::iter([block]).map(move |data| {
                let _ = &guard;
                Ok::<_, Infallible>(BodyFrame::data(data))
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        }
    });
    let stalled = Limits {
        write_stall: AT_ONCE,
        ..patient()
    };
    let front = Running::start(service, stalled).await;
    for window in [0, 1, 20_000] {
        let mut caller = Caller::with_window(front.addr, window).await;
        caller.get(1).await;
        let answer = caller.answer(1).await;
        assert_eq!(answer.end, End::Reset(CANCEL), "window {window}");
        assert!(answer.body.len() <= window as usize);
        soon("the drop", seen.recv()).await;
        if window > 0 {
            caller.ask(3, &fields("POST", &[])).await;
            assert_eq!(caller.answer(3).await.end, End::Whole);
            soon("the drop", seen.recv()).await;
        }
    }
}

#[tokio::test]
async fn a_large_answer_comes_whole_as_its_windows_open() {
    let service = service_fn(|_: Request<RequestBody>| async {
        let whole = Bytes::from(vec![b'x'; 300_000]);
        Ok::<_, Infallible>(Response::new(Full::from(whole)))
    });
    let front = Running::start(service, patient()).await;
    let mut caller = Caller::with_window(front.addr, 1_000).await;
    caller.get(1).await;
    let mut length = 0;
    loop {
        let frame = caller.next().await.expect("a frame");
        if frame.kind != DATA {
            continue;
        }
        length += frame.payload.len();
        if frame.flags & END_STREAM != 0 {
            break;
        }
        let more = u32::try_from(frame.payload.len())
            .expect("a length")
            .to_be_bytes();
        for id in [0, 1] {
            caller.send(WINDOW_UPDATE, 0, id, &more).await;
        }
    }
    assert_eq!(length, 300_000);
}

// rule: http2-idle-connections-are-closed
#[tokio::test]
async fn a_connection_without_stream_is_told_and_closed_whether_it_answers_or_not() {
    for alive in [true, false] {
        let impatient = Limits {
            idle: AT_ONCE,
            linger_time: AT_ONCE,
            ..patient()
        };
        let front = Running::start(answering(200), impatient).await;
        let mut caller = Caller::to(front.addr).await;
        caller.alive = alive;
        assert_eq!(caller.end().await, Some(NO_ERROR), "alive: {alive}");
    }
}

#[tokio::test]
async fn a_connection_is_not_idle_while_a_service_works() {
    let (service, called, go) = waiting();
    let impatient = Limits {
        idle: Duration::from_millis(50),
        ..patient()
    };
    let front = Running::start(service, impatient).await;
    let mut caller = Caller::to(front.addr).await;
    caller.get(1).await;
    soon("the call", called.notified()).await;
    // The limit has run out for a connection that came later.
    let mut later = Caller::to(front.addr).await;
    assert_eq!(later.end().await, Some(NO_ERROR));
    go.notify_one();
    assert_eq!(caller.answer(1).await.end, End::Whole);
}

// rule: a-caller-without-sign-of-life-is-gone
#[tokio::test]
async fn a_caller_who_answers_no_ping_is_gone_and_one_who_does_is_not() {
    let (dropped, mut seen) = mpsc::unbounded_channel();
    let service = service_fn(move |_: Request<RequestBody>| {
        let guard = OnDrop(dropped.clone());
        async move {
            let _guard = guard;
            pending::<Result<Response<Full<Bytes>>, Infallible>>().await
        }
    });
    let probing = Http2Limits {
        ping_every: AT_ONCE,
        ping_answer: NEVER,
        ..quiet()
    };
    let front = Running::start(
        service.clone(),
        Limits {
            http2: Some(probing),
            ..patient()
        },
    )
    .await;
    let mut there = Caller::to(front.addr).await;
    there.get(1).await;
    there.alive = false;
    for _ in 0..3 {
        let ping = there.next().await.expect("a ping");
        assert_eq!(ping.kind, PING);
        there.send(PING, ACK, 0, &ping.payload).await;
    }
    assert!(
        seen.try_recv().is_err(),
        "dropped while its caller was there"
    );
    let strict = Http2Limits {
        ping_answer: AT_ONCE,
        ..probing
    };
    let front = Running::start(
        service,
        Limits {
            http2: Some(strict),
            ..patient()
        },
    )
    .await;
    let mut gone = Caller::to(front.addr).await;
    gone.alive = false;
    gone.get(1).await;
    gone.end().await;
}

#[tokio::test]
async fn a_panic_in_a_service_ends_its_stream_alone() {
    let service = service_fn(|request: Request<RequestBody>| async move {
        assert_ne!(request.method(), "PUT", "as this test wants");
        Ok::<_, Infallible>(text(200, "answer"))
    });
    let front = Running::start(service, patient()).await;
    let mut caller = Caller::to(front.addr).await;
    caller.ask(1, &fields("PUT", &[])).await;
    assert!(matches!(caller.answer(1).await.end, End::Reset(_)));
    caller.get(3).await;
    assert_eq!(caller.answer(3).await.status(), 200);
}
