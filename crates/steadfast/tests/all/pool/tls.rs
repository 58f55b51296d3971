//! TLS to an upstream: whom we speak to is proven, and what a handshake's end proves.

use rustls::version::{TLS12, TLS13};
use steadfast::client::pool::{NeverSent, Pool, PoolSettings, PoolStatus, Reuse, SendEnd};
use steadfast::client::{Target, TlsFiles, TlsPart, UpstreamTls};
use steadfast::core::attempt::Failure;
use steadfast::core::timeouts::Timeouts;

use super::certificates::{Authority, Identity, pem};
use super::secured::Secured;
use super::upstream::{OK, Upstream};
use super::{
    SOON, acquire, failure, get, head, in_time, long_lived, patient, post, read, send, until,
};

fn pool(tls: UpstreamTls) -> Pool {
    Pool::with_tls(long_lived(), tls)
}

async fn refused(pool: &Pool, target: &Target, timeouts: Timeouts) -> NeverSent {
    let ready = pool.acquire(target, Reuse::Safe, &timeouts, in_time());
    let never_sent = ready.await.expect_err("a connection");
    assert!(never_sent.failure.never_sent());
    assert_eq!(pool.status(), PoolStatus::default(), "something stayed");
    never_sent
}

/// A plain server where a target with TLS is expected.
fn as_https(upstream: &Upstream) -> Target {
    let port = upstream.target().port();
    Target::parse(&format!("https://localhost:{port}")).expect("a target")
}

// rule: tls-to-upstreams
#[tokio::test]
async fn an_https_upstream_is_verified_spoken_to_and_its_connection_kept() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let config = authority.signs("localhost").server_of(&[version]);
        let upstream = Secured::start(config, |peer| peer.keep_answering(OK)).await;
        let pool = pool(authority.trusted());
        for _ in 0..5 {
            let (response, written) = head(send(&pool, &upstream.target(), post("hello")).await);
            assert!(written);
            assert_eq!(read(response.into_body()).await.expect("a body"), "ok");
            assert_eq!((pool.status().idle, pool.status().in_use), (1, 0));
        }
        assert_eq!((upstream.opened(), upstream.whole()), (1, 5), "{version:?}");
        drop(pool);
        until("closed", || upstream.closed() == 1).await;
    }
}

#[tokio::test]
async fn an_address_is_verified_like_a_name() {
    let authority = Authority::new();
    let config = authority.signs("127.0.0.1").server();
    let upstream = Secured::start(config, |peer| peer.keep_answering(OK)).await;
    let pool_ = pool(authority.trusted());
    drop(head(send(&pool_, &upstream.by_address(), get()).await));
    let never_sent = refused(&pool_, &upstream.target(), patient()).await;
    assert_eq!(never_sent.failure, Failure::TlsIdentity);
}

// rule: tls-identity-is-never-a-cut-handshake
#[tokio::test]
async fn who_is_not_proven_to_be_the_upstream_is_an_identity_failure() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (identity, why) in [
        (authority.signs_expired("localhost"), "expired"),
        (authority.signs("other.example"), "other.example"),
        (stranger.signs("localhost"), "UnknownIssuer"),
        (Identity::self_signed("localhost"), ""),
    ] {
        for version in [&TLS12, &TLS13] {
            let config = identity.server_of(&[version]);
            let upstream = Secured::start(config, |peer| peer.keep_answering(OK)).await;
            let pool = pool(authority.trusted());
            let never_sent = refused(&pool, &upstream.target(), patient()).await;
            assert_eq!(never_sent.failure, Failure::TlsIdentity, "{never_sent}");
            assert!(never_sent.detail.contains(why), "{never_sent}");
            until("closed", || upstream.closed() == 1).await;
            assert_eq!(upstream.whole(), 0);
        }
    }
}

// rule: tls-handshake-cut
#[tokio::test]
async fn a_handshake_that_is_cut_is_no_identity_failure() {
    let authority = Authority::new();
    // A record header that announces more than comes; an alert that is of no certificate.
    for (first, resets) in [
        ("", false),
        ("", true),
        ("\x16\x03\x03\x00\x7a\x02\x00", false),
        ("\x16\x03\x03\x00\x7a\x02\x00", true),
        ("\x15\x03\x03\x00\x02\x02\x28", false),
        ("\x15\x03\x03\x00\x02\x02\x78", false),
    ] {
        let upstream = Upstream::start(move |mut peer| async move {
            peer.bytes(64).await;
            peer.say(first).await;
            if resets {
                peer.reset();
            }
        })
        .await;
        let pool = pool(authority.trusted());
        let never_sent = refused(&pool, &as_https(&upstream), patient()).await;
        assert_eq!(never_sent.failure, Failure::TlsHandshake, "{never_sent}");
    }
}

#[tokio::test]
async fn a_port_that_speaks_plain_http_is_a_failed_handshake() {
    let authority = Authority::new();
    let upstream = Upstream::start(|mut peer| async move {
        peer.bytes(64).await;
        peer.say("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            .await;
        peer.ended().await;
    })
    .await;
    let never_sent = refused(&pool(authority.trusted()), &as_https(&upstream), patient()).await;
    assert_eq!(never_sent.failure, Failure::TlsHandshake, "{never_sent}");
    assert!(never_sent.detail.contains("speaks TLS"), "{never_sent}");
    until("closed", || upstream.closed() == 1).await;
}

#[tokio::test]
async fn a_handshake_that_never_ends_ends_with_its_limit() {
    let authority = Authority::new();
    let upstream = Upstream::start(|peer| peer.ended()).await;
    let limits = [
        Timeouts {
            tls: SOON,
            ..patient()
        },
        Timeouts {
            attempt: SOON,
            ..patient()
        },
    ];
    for (nth, timeouts) in limits.into_iter().enumerate() {
        let pool = pool(authority.trusted());
        let never_sent = refused(&pool, &as_https(&upstream), timeouts).await;
        assert_eq!(never_sent.failure, Failure::TlsHandshake, "{never_sent}");
        until("closed", || upstream.closed() == nth + 1).await;
    }
}

#[tokio::test]
async fn a_pool_without_tls_reaches_no_https_upstream() {
    let target = Target::parse("https://127.0.0.1:1").expect("a target");
    let never_sent = refused(&Pool::new(PoolSettings::default()), &target, patient()).await;
    assert_eq!(never_sent.failure, Failure::TlsIdentity);
    assert!(never_sent.detail.contains("with_tls"), "{never_sent}");
}

#[tokio::test]
async fn an_upstream_that_asks_for_our_certificate_gets_it() {
    let authority = Authority::new();
    let (server, own) = (authority.signs("localhost"), authority.signs("client"));
    for version in [&TLS12, &TLS13] {
        let config = authority.asks_for_certificates(&server, version);
        let upstream = Secured::start(config, |peer| peer.keep_answering(OK)).await;
        let tls = UpstreamTls::new(&authority.files_of(&own)).unwrap_or_else(|e| panic!("{e}"));
        let (response, _) = head(send(&pool(tls), &upstream.target(), get()).await);
        assert_eq!(read(response.into_body()).await.expect("a body"), "ok");
    }
}

/// A TLS 1.3 server judges our certificate when our side of the handshake is done, so its verdict
/// meets the first request.
#[tokio::test]
async fn an_upstream_that_refuses_our_certificate_is_an_identity_failure() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = authority.signs("localhost");
    let unknown = stranger.signs("client");
    let expired = authority.signs_expired("client");
    for version in [&TLS12, &TLS13] {
        for own in [&unknown, &expired] {
            let config = authority.asks_for_certificates(&server, version);
            let upstream = Secured::start(config, |peer| peer.keep_answering(OK)).await;
            let files = authority.files_of(own);
            let pool = pool(UpstreamTls::new(&files).unwrap_or_else(|e| panic!("{e}")));
            let (target, limits) = (upstream.target(), patient());
            let ready = pool.acquire(&target, Reuse::Safe, &limits, in_time());
            let failed = match ready.await {
                Err(NeverSent { failure, .. }) => failure,
                Ok(ready) => failure(ready.send(post("hello"), &patient(), in_time()).await),
            };
            assert_eq!(failed, Failure::TlsIdentity, "{version:?}");
            assert_eq!(
                (upstream.whole(), pool.status()),
                (0, PoolStatus::default())
            );
        }
    }
}

/// A body without announced length ends with the connection; under TLS a cut is told from an end
/// (RFC 8446, 6.1).
#[tokio::test]
async fn a_body_that_is_cut_without_a_closing_word_of_tls_is_truncated() {
    let authority = Authority::new();
    for says_goodbye in [true, false] {
        let config = authority.signs("localhost").server();
        let upstream = Secured::start(config, move |mut peer| async move {
            peer.request().await;
            peer.say("HTTP/1.1 200 OK\r\n\r\nhalf").await;
            if says_goodbye {
                let _ = tokio::io::AsyncWriteExt::shutdown(&mut peer.stream).await;
            }
        })
        .await;
        let pool = pool(authority.trusted());
        let (response, _) = head(send(&pool, &upstream.target(), get()).await);
        let ended = read(response.into_body()).await;
        assert_eq!(ended.is_ok(), says_goodbye, "{ended:?}");
        assert_eq!(pool.status(), PoolStatus::default());
    }
}

/// As over plain TCP: what is proven not to have been written was not received, hundreds of times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_tls_connection_never_hides_a_received_request() {
    let authority = Authority::new();
    let config = authority.signs("localhost").server();
    let upstream = Secured::start(config, |mut peer| async move {
        for _ in 0..1 + peer.nth % 3 {
            if peer.request().await.is_none() {
                return;
            }
            peer.say(OK).await;
        }
        for _ in 0..peer.nth % 8 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (pool, target) = (pool(authority.trusted()), upstream.target());
    let (mut answered, mut maybe) = (0, 0);
    for _ in 0..300 {
        match send(&pool, &target, post("hello")).await {
            SendEnd::Head { response, .. } => {
                read(response.into_body()).await.expect("a body");
                answered += 1;
            }
            SendEnd::Failed { failure, .. } => match failure {
                Failure::NotWritten => {}
                Failure::Reset | Failure::Write => maybe += 1,
                other => panic!("{other:?}"),
            },
            SendEnd::CallerLeft { detail, .. } => panic!("{detail}"),
        }
        assert!(upstream.whole() <= answered + maybe);
    }
    assert!(answered >= 150, "{answered} answered, {maybe} maybe");
    assert_eq!(pool.status().in_use, 0);
}

#[tokio::test]
async fn a_connection_tells_whether_it_was_used_before() {
    let authority = Authority::new();
    let config = authority.signs("localhost").server();
    let upstream = Secured::start(config, |peer| peer.keep_answering(OK)).await;
    let (pool, target) = (pool(authority.trusted()), upstream.target());
    let ready = acquire(&pool, &target).await;
    assert!(!ready.is_reused());
    let (response, _) = head(ready.send(get(), &patient(), in_time()).await);
    read(response.into_body()).await.expect("a body");
    assert!(acquire(&pool, &target).await.is_reused());
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_with_the_reason_and_the_next_step() {
    let authority = Authority::new();
    let own = authority.signs("client");
    let other = pem(
        "PRIVATE KEY",
        &rcgen::KeyPair::generate().expect("a key").serialize_der(),
    );
    let sound = authority.files_of(&own);
    let empty = authority.write("empty.pem", "nothing\n");
    let torn = authority.write("torn.pem", "-----BEGIN CERTIFICATE-----\n!!\n");
    let junk = authority.write("junk.pem", &pem("CERTIFICATE", b"junk"));
    let strange = authority.write("strange.key", &other);
    let gone = authority.write("x", "").with_file_name("gone.pem");
    let with = |change: &dyn Fn(&mut TlsFiles)| {
        let mut files = sound.clone();
        change(&mut files);
        files
    };
    for (files, part, reason) in [
        (
            with(&|f| f.ca = Some(gone.clone())),
            TlsPart::Ca,
            "gone.pem` cannot be read",
        ),
        (
            with(&|f| f.ca = Some(empty.clone())),
            TlsPart::Ca,
            "empty.pem` has no certificate",
        ),
        (
            with(&|f| f.ca = Some(torn.clone())),
            TlsPart::Ca,
            "torn.pem` is no PEM",
        ),
        (
            with(&|f| f.ca = Some(junk.clone())),
            TlsPart::Ca,
            "junk.pem` has a certificate that",
        ),
        (
            with(&|f| f.client_key = None),
            TlsPart::ClientCert,
            "the client's key is missing",
        ),
        (
            with(&|f| f.client_cert = None),
            TlsPart::ClientKey,
            "certificate is missing",
        ),
        (
            with(&|f| f.client_key = Some(empty.clone())),
            TlsPart::ClientKey,
            "no private key",
        ),
        (
            with(&|f| f.client_key = Some(strange.clone())),
            TlsPart::ClientKey,
            "is not that of",
        ),
    ] {
        let error = UpstreamTls::new(&files).expect_err(reason);
        assert_eq!(error.part, part, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert!(UpstreamTls::new(&sound).is_ok());
}

/// A TLS 1.3 server sends tickets after its handshake, which stand in the socket when the first
/// request goes out (RFC 8446, 4.6.1).
#[tokio::test]
async fn what_tls_says_between_requests_does_not_end_a_connection() {
    let authority = Authority::new();
    let shaken = std::sync::Arc::new(tokio::sync::Notify::new());
    let told = std::sync::Arc::clone(&shaken);
    let config = authority.signs("localhost").server_of(&[&TLS13]);
    let upstream = Secured::start(config, move |peer| {
        told.notify_one();
        peer.keep_answering(OK)
    })
    .await;
    let pool = pool(authority.trusted());
    let ready = acquire(&pool, &upstream.target()).await;
    shaken.notified().await;
    let (response, _) = head(ready.send(post("hello"), &patient(), in_time()).await);
    assert_eq!(read(response.into_body()).await.expect("a body"), "ok");
    assert_eq!(upstream.opened(), 1);
}
