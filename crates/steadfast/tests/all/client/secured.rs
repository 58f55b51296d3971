//! The ready client over TLS: who must be proven, and what HTTP/2 says of a stream.

use std::sync::Arc;

use http::{Method, Request};
use rustls::ServerConfig;
use steadfast::client::pool::PoolStatus;
use steadfast::client::{Client, RequestBody};

use super::{ends, policy, told};
use crate::pool::certificates::{Authority, Identity};
use crate::pool::frames::{H2, REFUSED_STREAM, speaking_http2};
use crate::pool::secured::Secured;
use crate::pool::upstream::OK;

fn to(upstream: &Secured, method: Method) -> Request<RequestBody> {
    let uri = format!("{}/orders", upstream.target());
    let request = Request::builder().method(method).uri(uri);
    request
        .body(RequestBody::whole("hello"))
        .expect("a request")
}

fn trusting(authority: &Authority) -> Client {
    let builder = Client::builder(policy());
    builder.with_tls(authority.trusted()).build()
}

// rule: the-client-speaks-http2
#[tokio::test]
async fn over_http2_a_refused_stream_and_one_above_goaway_go_again_and_a_reset_one_is_unknown() {
    let authority = Authority::new();
    let config = speaking_http2(&authority.signs("localhost"));
    let upstream = Secured::start(config, |peer| async move {
        let mut h2 = H2::greet(peer, &[]).await;
        let id = h2.request().await.expect("a request");
        match h2.nth() {
            0 => {
                h2.reset(id, REFUSED_STREAM).await;
                h2.request().await.expect("another");
                h2.goaway(0).await;
            }
            1 => {
                h2.answer(id).await;
                let id = h2.request().await.expect("another");
                h2.reset(id, 2).await;
                h2.ended().await;
            }
            _ => panic!("another connection"),
        }
    })
    .await;
    let client = trusting(&authority);
    let ended = client.send(to(&upstream, Method::POST)).await;
    assert_eq!(
        ends(&ended),
        ["refused-stream", "goaway-unprocessed", "200"]
    );
    assert_eq!(told(&ended), ("done", "answered", "applied"));
    let answer = ended.into_answer().expect("an answer");
    let body = answer.into_body().bytes().await.expect("whole");
    assert_eq!(body, "ok");
    let ended = client.send(to(&upstream, Method::POST)).await;
    assert_eq!(ends(&ended), ["reset"]);
    assert_eq!(told(&ended), ("unknown", "maybe-executed", "unknown"));
    assert_eq!(upstream.opened(), 2);
}

/// Servers whose identity nobody should accept for `localhost`.
fn impostors(authority: &Authority) -> [(&'static str, ServerConfig); 3] {
    [
        ("expired", authority.signs_expired("localhost").server()),
        ("wrong host", authority.signs("other.test").server()),
        ("self-signed", Identity::self_signed("localhost").server()),
    ]
}

// rule: a-refused-identity-is-met-once
#[tokio::test]
async fn an_identity_that_is_refused_is_met_once_and_sent_nothing_whatever_the_method() {
    let authority = Authority::new();
    for method in [Method::GET, Method::PUT, Method::POST] {
        for (name, config) in impostors(&authority) {
            let upstream = Secured::start(config, |peer| peer.keep_answering(OK)).await;
            let client = trusting(&authority);
            let ended = client.send(to(&upstream, method.clone())).await;
            assert_eq!(ends(&ended), ["tls"], "{name}");
            assert_eq!(told(&ended), ("failed", "identity", "none"), "{name}");
            assert_eq!((upstream.opened(), upstream.whole()), (1, 0), "{name}");
            assert_eq!(client.pool().status(), PoolStatus::default());
        }
    }
}

// rule: a-cut-handshake-goes-again
#[tokio::test]
async fn a_handshake_that_is_cut_goes_again_whatever_the_method() {
    let authority = Authority::new();
    let config = Arc::new(authority.signs("localhost").server());
    for method in [Method::GET, Method::POST] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&config));
        let serving = tokio::spawn(async move {
            // The first is closed before a word of TLS was said.
            drop(listener.accept().await.expect("a connection"));
            let (tcp, _) = listener.accept().await.expect("another");
            let mut stream = acceptor.accept(tcp).await.expect("a handshake");
            let mut seen = Vec::new();
            while !seen.ends_with(b"hello") {
                let read = tokio::io::AsyncReadExt::read_buf(&mut stream, &mut seen).await;
                assert!(read.expect("the request") > 0);
            }
            let said = tokio::io::AsyncWriteExt::write_all(&mut stream, OK.as_bytes()).await;
            said.expect("an answer");
            tokio::io::AsyncWriteExt::flush(&mut stream)
                .await
                .expect("sent");
            stream
        });
        let request = Request::builder()
            .method(method)
            .uri(format!("https://localhost:{port}/orders"))
            .body(RequestBody::whole("hello"));
        let ended = trusting(&authority).send(request.expect("one")).await;
        assert_eq!(ends(&ended), ["tls-handshake", "200"]);
        assert_eq!(told(&ended).0, "done");
        drop(serving.await.expect("no panic"));
    }
}

#[tokio::test]
async fn a_client_without_tls_sends_nothing_to_an_https_url_and_says_what_is_missing() {
    let authority = Authority::new();
    let config = authority.signs("localhost").server();
    let upstream = Secured::start(config, |peer| peer.keep_answering(OK)).await;
    let ended = Client::new(policy()).send(to(&upstream, Method::GET)).await;
    assert_eq!(told(&ended), ("failed", "identity", "none"));
    let account = ended.account().to_string();
    assert!(account.contains("`with_tls`"), "{account}");
    assert_eq!(upstream.opened(), 0);
}
