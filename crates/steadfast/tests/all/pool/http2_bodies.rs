//! Heads and bodies over HTTP/2, against a server of the library's own kind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::server::{SendResponse, handshake};
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use steadfast::client::Target;
use steadfast::client::pool::{Pool, RequestBody, SendEnd};
use steadfast::core::attempt::Failure;
use steadfast::core::timeouts::Timeouts;

use super::certificates::Authority;
use super::frames::{H2, WINDOW_UPDATE, speaking_http2};
use super::secured::Secured;
use super::{SOON, acquire, failure, get, head, in_time, long_lived, patient, post, read, request};
use super::{send, until};

type Served = (Request<h2::RecvStream>, SendResponse<Bytes>);

/// A server that hands each request to `serve`.
async fn stage<S, F>(serve: S) -> (Secured, Pool, Target)
where
    S: Fn(Served) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let authority = Authority::new();
    let config = speaking_http2(&authority.signs("localhost"));
    let upstream = Secured::start(config, move |peer| {
        let serve = serve.clone();
        async move {
            let mut connection = handshake(peer.stream).await.expect("a client");
            while let Some(Ok(served)) = connection.accept().await {
                tokio::spawn(serve(served));
            }
        }
    })
    .await;
    let target = upstream.target();
    let pool = Pool::with_tls(long_lived(), authority.trusted());
    (upstream, pool, target)
}

async fn whole(body: &mut h2::RecvStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.expect("a body");
        all.extend_from_slice(&data);
        let _ = body.flow_control().release_capacity(data.len());
    }
    all
}

async fn echo((request, mut respond): Served) {
    let mut body = request.into_body();
    let all = whole(&mut body).await;
    let trailers = body.trailers().await.expect("no error");
    let mut send = respond
        .send_response(Response::new(()), false)
        .expect("a stream");
    send.send_data(all.into(), false).expect("room");
    send.send_trailers(trailers.unwrap_or_default())
        .expect("an open stream");
}

fn full(bytes: Vec<u8>) -> RequestBody {
    Full::new(Bytes::from(bytes))
        .map_err(|e| match e {})
        .boxed_unsync()
}

#[tokio::test]
async fn bodies_larger_than_any_window_and_trailers_come_whole_both_ways() {
    let (_upstream, pool, target) = stage(echo).await;
    let large: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "1".parse().expect("a value"));
    let chunks = large.chunks(10_000).map(Bytes::copy_from_slice);
    let frames: Vec<_> = chunks.map(Frame::data).collect();
    let frames = frames
        .into_iter()
        .chain([Frame::trailers(trailers.clone())]);
    let streamed = StreamBody::new(futures_util::stream::iter(frames.map(Ok))).boxed_unsync();
    for (body, expected) in [
        (streamed, trailers),
        (full(large.clone()), HeaderMap::new()),
    ] {
        let end = send(&pool, &target, request(Method::POST, body)).await;
        let (response, written) = head(end);
        assert!(written);
        let whole = response.into_body().collect().await.expect("whole");
        assert_eq!(whole.trailers().cloned().unwrap_or_default(), expected);
        assert!(whole.to_bytes() == large);
        assert_eq!((pool.status().idle, pool.status().in_use), (1, 0));
    }
}

#[tokio::test]
async fn a_request_names_its_host_once_and_nothing_of_a_connection() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    let (_upstream, pool, target) = stage(move |(request, mut respond): Served| {
        kept.lock().expect("no panic").push(request.into_parts().0);
        let _ = respond.send_response(Response::new(()), true);
        async {}
    })
    .await;
    let mut sent = get();
    for (name, value) in [
        ("host", "orders.example"),
        ("connection", "keep-alive, x-hop"),
        ("keep-alive", "timeout=5"),
        ("x-hop", "1"),
        ("te", "gzip"),
        ("transfer-encoding", "chunked"),
        ("x-own", "2"),
    ] {
        sent.headers_mut()
            .insert(name, value.parse().expect("a value"));
    }
    for request in [sent, get()] {
        let (response, _) = head(send(&pool, &target, request).await);
        assert_eq!(read(response.into_body()).await.expect("a body"), "");
    }
    let heads = heads.lock().expect("no panic");
    assert_eq!(heads[0].uri, "https://orders.example/orders");
    assert_eq!(heads[1].uri.to_string(), format!("{target}/orders"));
    let names: Vec<_> = heads[0].headers.keys().map(|name| name.as_str()).collect();
    assert_eq!(names, ["x-own"]);
}

#[tokio::test]
async fn an_answer_to_head_and_one_without_body_have_none() {
    let (_upstream, pool, target) = stage(|(_, mut respond): Served| async move {
        let head = Response::builder().header("content-length", "5");
        let _ = respond.send_response(head.body(()).expect("a head"), true);
    })
    .await;
    let (response, _) = head(send(&pool, &target, request(Method::HEAD, full(Vec::new()))).await);
    assert_eq!(response.headers()["content-length"], "5");
    assert_eq!(read(response.into_body()).await.expect("a body"), "");
    assert_eq!((pool.status().idle, pool.status().in_use), (1, 0));
}

#[tokio::test]
async fn an_early_answer_is_taken_and_says_that_the_request_was_not_whole() {
    let (upstream, pool, target) = stage(|(_, mut respond): Served| async move {
        let mut send = respond
            .send_response(Response::new(()), false)
            .expect("open");
        let _ = send.send_data(Bytes::from_static(b"no"), true);
    })
    .await;
    for _ in 0..3 {
        let never = StreamBody::new(futures_util::stream::pending()).boxed_unsync();
        let ready = acquire(&pool, &target).await;
        let end = ready
            .send(request(Method::POST, never), &patient(), in_time())
            .await;
        let (response, written) = head(end);
        assert!(!written);
        assert_eq!(read(response.into_body()).await.expect("a body"), "no");
        assert_eq!(pool.status().in_use, 0);
    }
    assert_eq!(upstream.opened(), 1);
}

#[tokio::test]
async fn a_body_that_its_caller_breaks_off_is_the_caller_s_fault() {
    use steadfast::client::pool::CallerLeft;
    let (upstream, pool, target) = stage(echo).await;
    let detail = "gone".to_owned();
    let frames = [
        Ok(Frame::data(Bytes::from_static(b"a"))),
        Err(CallerLeft { detail }),
    ];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
    let end = send(&pool, &target, request(Method::POST, body)).await;
    assert!(matches!(end, SendEnd::CallerLeft { .. }), "{end:?}");
    assert_eq!(pool.status().in_use, 0);
    let (response, _) = head(send(&pool, &target, post("hello")).await);
    assert_eq!(read(response.into_body()).await.expect("a body"), "hello");
    assert_eq!(upstream.opened(), 1, "the connection is left to others");
}

/// A peer that reads nothing fills the socket, so that nothing of the next request passes. It is
/// still in the library's hands and would go out later: nobody may be told that it never will.
#[tokio::test]
async fn a_request_that_may_still_go_out_is_not_called_unsent() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    const ALL: u32 = (1 << 31) - 1;
    let settings: &[(u16, u32)] = &[(INITIAL_WINDOW_SIZE, ALL)];
    let (_upstream, pool, target) = super::http2::stage(settings, |mut h2: H2| async move {
        let more = (ALL - 65_535).to_be_bytes();
        h2.send(WINDOW_UPDATE, 0, 0, &more).await;
        std::future::pending::<()>().await;
    })
    .await;
    let given = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&given);
    let chunks = std::iter::repeat_with(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(Frame::data(Bytes::from_static(&[0; 64 * 1024])))
    });
    let endless = StreamBody::new(futures_util::stream::iter(chunks)).boxed_unsync();
    let ready = acquire(&pool, &target).await;
    let fills = tokio::spawn(async move {
        let request = request(Method::POST, endless);
        ready.send(request, &patient(), in_time()).await
    });
    let (last, looks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    until("the socket is full", || {
        let now = given.load(Ordering::SeqCst);
        match last.swap(now, Ordering::SeqCst) == now && now > 0 {
            true => looks.fetch_add(1, Ordering::SeqCst) > 10_000,
            false => {
                looks.store(0, Ordering::SeqCst);
                false
            }
        }
    })
    .await;
    let timeouts = Timeouts {
        write: SOON,
        ..patient()
    };
    // What the first leaves may still fit into the buffer of TLS; nothing of the second does.
    for _ in 0..2 {
        let ready = acquire(&pool, &target).await;
        let ended = ready.send(post("hello"), &timeouts, in_time()).await;
        assert_eq!(failure(ended), Failure::Write);
    }
    fills.abort();
    assert!(fills.await.is_err());
    assert_eq!(pool.status().in_use, 0);
}
