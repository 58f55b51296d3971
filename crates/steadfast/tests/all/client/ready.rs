//! The ready client over real sockets.

use std::sync::{Arc, Mutex};

use http::{Method, Request};
use http_body_util::BodyExt;
use steadfast::client::pool::PoolStatus;
use steadfast::client::{AnswerCut, Client, ClientBody, Ended, RequestBody};
use steadfast::core::policy::RoutePolicy;
use steadfast::core::timeouts::Timeouts;

use super::{ends, ms, policy, told};
use crate::pool::upstream::{OK, Upstream};

pub fn to(upstream: &Upstream, method: Method) -> Request<RequestBody> {
    let uri = format!("{}/orders", upstream.target());
    let request = Request::builder().method(method).uri(uri);
    request
        .body(RequestBody::whole("hello"))
        .expect("a request")
}

async fn body(ended: Ended<ClientBody>) -> bytes::Bytes {
    let answer = ended.into_answer().expect("an answer");
    answer.into_body().bytes().await.expect("whole")
}

/// `policy` with so much for an attempt.
fn within(attempt: u64, deadline: u64) -> RoutePolicy {
    let policy = policy();
    RoutePolicy {
        deadline: ms(deadline),
        timeouts: Timeouts {
            attempt: ms(attempt),
            ..policy.timeouts
        },
        ..policy
    }
}

#[tokio::test]
async fn a_request_goes_out_with_its_fields_and_its_answer_comes_back() {
    let seen = Arc::new(Mutex::new(String::new()));
    let note = Arc::clone(&seen);
    let upstream = Upstream::start(move |mut peer| {
        let note = Arc::clone(&note);
        async move {
            let request = peer.request().await.expect("a request");
            *note.lock().expect("no panic") = request;
            peer.say(OK).await;
        }
    })
    .await;
    let client = Client::builder(policy()).endpoints_honour_keys().build();
    let ended = client.send(to(&upstream, Method::POST)).await;
    assert_eq!(told(&ended), ("done", "answered", "applied"));
    let key = ended.account().key.clone().expect("one was made");
    assert_eq!(body(ended).await, "ok");
    let seen = seen.lock().expect("no panic").clone();
    assert!(seen.starts_with("POST /orders HTTP/1.1\r\n"), "{seen}");
    for field in [
        format!("idempotency-key: {}\r\n", key.as_str()),
        "steadfast-attempt: 1\r\n".to_owned(),
        "request-timeout-ms: ".to_owned(),
        "content-length: 5\r\n".to_owned(),
        format!("host: {}\r\n", upstream.target().authority()),
    ] {
        assert!(seen.contains(&field), "{field}: {seen}");
    }
    assert!(seen.ends_with("\r\n\r\nhello"), "{seen}");
}

#[tokio::test]
async fn a_refused_connection_was_never_sent_and_every_method_goes_again() {
    let upstream = Upstream::start(|peer| peer.ended()).await;
    let request = to(&upstream, Method::POST);
    drop(upstream);
    // The port is free again once the server's task is gone.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let client = Client::new(policy());
    let ended = client.send(request).await;
    assert_eq!(told(&ended), ("failed", "attempts", "none"));
    assert_eq!(ends(&ended), ["connect", "connect", "connect"]);
    let text = ended.account().to_string();
    assert!(
        text.starts_with("Attempt 3 failed (connect): http://127.0.0.1:"),
        "{text}"
    );
    assert!(text.ends_with("It is safe to send it again."), "{text}");
    assert_eq!(client.pool().status(), PoolStatus::default());
}

// rule: a-reset-is-repeated-by-method-and-key
#[tokio::test]
async fn a_reset_after_the_request_is_repeated_for_get_and_is_unknown_for_post() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.request().await;
        match peer.nth % 2 {
            0 => peer.reset(),
            _ => peer.say(OK).await,
        }
    })
    .await;
    let client = Client::new(policy());
    let ended = client.send(to(&upstream, Method::GET)).await;
    assert_eq!(
        (ends(&ended), told(&ended).0),
        (vec!["reset".into(), "200".into()], "done")
    );
    drop(ended);
    let ended = client.send(to(&upstream, Method::POST)).await;
    assert_eq!(told(&ended), ("unknown", "maybe-executed", "unknown"));
    assert_eq!((upstream.whole(), ends(&ended)), (3, vec!["reset".into()]));
    let text = ended.account().to_string();
    assert!(text.contains("It may have been executed."), "{text}");
    assert!(text.contains("Look up whether it happened"), "{text}");
}

// rule: one-key-over-sockets
#[tokio::test]
async fn the_key_is_the_same_on_the_wire_for_every_attempt() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&keys);
    let upstream = Upstream::start(move |mut peer| {
        let noted = Arc::clone(&noted);
        async move {
            let request = peer.request().await.expect("a request");
            let mut lines = request.lines();
            let key = lines.find_map(|line| line.strip_prefix("idempotency-key: "));
            noted.lock().expect("no panic").push(key.map(str::to_owned));
            match peer.nth {
                0 => peer.reset(),
                1 => {
                    peer.say("HTTP/1.1 504 Gone\r\ncontent-length: 0\r\n\r\n")
                        .await
                }
                _ => peer.say(OK).await,
            }
        }
    })
    .await;
    let client = Client::builder(policy()).endpoints_honour_keys().build();
    let ended = client.send(to(&upstream, Method::POST)).await;
    assert_eq!(ends(&ended), ["reset", "504", "200"]);
    let own = ended
        .account()
        .key
        .as_ref()
        .map(|key| key.as_str().to_owned());
    assert!(own.is_some());
    assert_eq!(
        *keys.lock().expect("no panic"),
        [own.clone(), own.clone(), own]
    );
}

#[tokio::test]
async fn a_head_that_never_comes_ends_with_the_attempt_and_then_with_the_deadline() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.request().await;
        peer.ended().await;
    })
    .await;
    let client = Client::new(within(50, 10_000));
    let ended = client.send(to(&upstream, Method::GET)).await;
    assert_eq!(told(&ended), ("failed", "attempts", "none"));
    assert_eq!(ends(&ended), ["read-timeout"; 3]);
    let client = Client::new(within(10_000, 50));
    let ended = client.send(to(&upstream, Method::GET)).await;
    assert_eq!(told(&ended), ("failed", "deadline", "none"));
    let ended = client.send(to(&upstream, Method::POST)).await;
    assert_eq!(told(&ended), ("unknown", "maybe-executed", "unknown"));
    assert_eq!(client.pool().status(), PoolStatus::default());
}

#[tokio::test]
async fn a_body_that_trickles_ends_at_the_operation_s_deadline() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.request().await;
        peer.say("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
            .await;
        while peer.trickle().await {}
    })
    .await;
    let client = Client::new(within(10_000, 100));
    let ended = client.send(to(&upstream, Method::GET)).await;
    let Ended::Done { answer, .. } = ended else {
        panic!("its head came")
    };
    let cut = answer.into_body().bytes().await.expect_err("it never ends");
    let pools = |error: &steadfast::body::BoxError| {
        error.downcast_ref() == Some(&steadfast::client::pool::BodyError::Deadline)
    };
    let by_deadline = match &cut {
        AnswerCut::Deadline => true,
        AnswerCut::Failed(error) => pools(error),
        _ => false,
    };
    assert!(by_deadline, "{cut:?}");
    assert_eq!(client.pool().status(), PoolStatus::default());
}

#[tokio::test]
async fn the_body_of_the_last_503_is_given_and_the_others_lie_no_connection_open() {
    let answer = "HTTP/1.1 503 Later\r\ncontent-length: 8\r\n\r\nnot now.";
    let upstream = Upstream::start(move |peer| peer.keep_answering(answer)).await;
    let client = Client::new(policy());
    let ended = client.send(to(&upstream, Method::GET)).await;
    assert_eq!(told(&ended), ("failed", "attempts", "none"));
    assert_eq!(body(ended).await, "not now.");
    // Read while the repeat waited, each left its connection to the next.
    assert_eq!((upstream.opened(), upstream.whole()), (1, 3));
    assert_eq!(
        (client.pool().status().idle, client.pool().status().in_use),
        (1, 0)
    );
}

#[tokio::test]
async fn what_cannot_be_sent_is_the_request_s_own_fault() {
    let client = Client::new(policy());
    for uri in ["/orders", "ftp://a.test/", "http://me:secret@127.0.0.1/"] {
        let request = Request::get(uri)
            .body(RequestBody::empty())
            .expect("a request");
        let ended = client.send(request).await;
        assert_eq!(told(&ended), ("failed", "caller-left", "none"));
        let text = ended.account().to_string();
        assert!(text.starts_with("Nothing was sent: "), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

// rule: a-hundred-leave-nothing-in-the-pool
#[tokio::test]
async fn a_hundred_who_leave_in_flight_and_in_back_off_leave_no_connection() {
    let silent = Upstream::start(|mut peer| async move {
        peer.request().await;
        peer.ended().await;
    })
    .await;
    let later = "HTTP/1.1 503 Later\r\nretry-after: 20\r\ncontent-length: 0\r\n\r\n";
    let refusing = Upstream::start(move |peer| peer.keep_answering(later)).await;
    let client = Client::new(RoutePolicy {
        breaker: steadfast::core::breaker::BreakerPolicy {
            min_requests: u32::MAX,
            ..Default::default()
        },
        budget: steadfast::core::budget::BudgetPolicy {
            floor_per_second: 1000,
            ..Default::default()
        },
        ..policy()
    });
    for upstream in [&silent, &refusing] {
        let balance = client.upstream(&upstream.target()).budget_balance();
        let all: Vec<_> = (0..100)
            .map(|_| {
                let (client, request) = (client.clone(), to(upstream, Method::GET));
                tokio::spawn(async move { client.send(request).await })
            })
            .collect();
        while upstream.whole() < 100 {
            tokio::task::yield_now().await;
        }
        for one in &all {
            one.abort();
        }
        for one in all {
            assert!(one.await.is_err(), "it was still at work");
        }
        assert_eq!(client.pool().status().in_use, 0);
        assert_eq!(client.pool().status().waiting, 0);
        let now = client.upstream(&upstream.target()).budget_balance();
        assert_eq!(now, balance);
    }
}

/// A body that streams goes out as it comes, and once.
#[tokio::test]
async fn a_streamed_body_goes_out_chunked_and_is_not_sent_again() {
    let upstream = Upstream::start(|mut peer| async move {
        peer.through(b"0\r\n\r\n").await;
        peer.say("HTTP/1.1 503 Later\r\ncontent-length: 0\r\n\r\n")
            .await;
    })
    .await;
    let frames =
        ["he", "llo"].map(|part| Ok::<_, std::io::Error>(http_body::Frame::data(part.into())));
    let body = http_body_util::StreamBody::new(futures_util::stream::iter(frames));
    let request = to(&upstream, Method::PUT).map(|_| RequestBody::stream(body.boxed_unsync()));
    let ended = Client::new(policy()).send(request).await;
    assert_eq!(told(&ended), ("done", "body-streamed", "none"));
    assert_eq!(upstream.opened(), 1);
}
