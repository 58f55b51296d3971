//! Redirects over real sockets: not unless asked for, and never with what is another origin's.

use std::sync::{Arc, Mutex};

use http::{HeaderValue, Method};
use steadfast::client::Client;

use super::ready::to;
use super::{ends, policy, told};
use crate::pool::upstream::{OK, Upstream};

type Seen = Arc<Mutex<Vec<String>>>;

/// Answers each request with `answer`, and notes it.
async fn noting(answer: String) -> (Upstream, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let upstream = Upstream::start(move |mut peer| {
        let (noted, answer) = (Arc::clone(&noted), answer.clone());
        async move {
            while let Some(request) = peer.request().await {
                noted.lock().expect("no panic").push(request);
                peer.say(&answer).await;
            }
        }
    })
    .await;
    (upstream, seen)
}

fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} There\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}

// rule: redirects-only-where-asked
#[tokio::test]
async fn a_redirect_is_the_answer_unless_following_was_asked_for() {
    let (there, seen) = noting(OK.to_owned()).await;
    let (here, _) = noting(redirect(307, &format!("{}/there", there.target()))).await;
    let ended = Client::new(policy()).send(to(&here, Method::GET)).await;
    let answer = ended.into_answer().expect("the redirect");
    assert_eq!((answer.status().as_u16(), there.whole()), (307, 0));

    let client = Client::builder(policy()).follow_redirects(3).build();
    let mut request = to(&here, Method::PUT);
    let secret = HeaderValue::from_static("Bearer secret");
    request.headers_mut().insert("authorization", secret);
    let ended = client.send(request).await;
    assert_eq!(ends(&ended), ["307", "200"]);
    let seen = seen.lock().expect("no panic").join("");
    assert!(seen.starts_with("PUT /there HTTP/1.1\r\n"), "{seen}");
    assert!(seen.ends_with("hello"), "the body goes along: {seen}");
    assert!(!seen.contains("secret"), "{seen}");
    assert!(
        seen.contains(&format!("host: {}\r\n", there.target().authority())),
        "{seen}"
    );
}

#[tokio::test]
async fn a_303_is_read_by_get_without_body_and_key_and_a_keyed_307_is_not_led_away() {
    let (there, seen) = noting(OK.to_owned()).await;
    let (see_other, _) = noting(redirect(303, &format!("{}/order/1", there.target()))).await;
    let client = Client::builder(policy()).endpoints_honour_keys();
    let client = client.follow_redirects(3).build();
    let ended = client.send(to(&see_other, Method::POST)).await;
    assert_eq!(
        (ends(&ended), told(&ended).0),
        (vec!["303".into(), "200".into()], "done")
    );
    let read = seen.lock().expect("no panic").join("");
    assert!(read.starts_with("GET /order/1 HTTP/1.1\r\n"), "{read}");
    assert!(
        !read.contains("idempotency-key") && !read.contains("hello"),
        "{read}"
    );

    let (moved, _) = noting(redirect(307, &format!("{}/", there.target()))).await;
    let ended = client.send(to(&moved, Method::POST)).await;
    assert_eq!(ends(&ended), ["307"]);
    assert_eq!(there.whole(), 1, "the key stays at its origin");
}

#[tokio::test]
async fn redirects_in_a_circle_end_with_their_bound() {
    let (here, _) = noting(redirect(302, "/again")).await;
    let client = Client::builder(policy()).follow_redirects(5).build();
    let ended = client.send(to(&here, Method::GET)).await;
    let answer = ended.into_answer().expect("the last redirect");
    assert_eq!((answer.status().as_u16(), here.whole()), (302, 6));
}
