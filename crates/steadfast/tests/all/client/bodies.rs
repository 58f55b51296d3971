//! Bodies: a stream goes out once, and an answer that is read whole counts when it is whole.

use bytes::Bytes;
use http::{Method, Request};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use steadfast::client::{ClientLayer, Ended, RequestBody};
use steadfast::core::attempt::Failure;

use super::script::{Does, Gives, Script, answers};
use super::{ask, ends, policy, request, told};

fn streamed(method: Method) -> Request<RequestBody> {
    let stream = RequestBody::stream(Full::new(Bytes::from_static(b"amount=50")));
    request(method).map(|_| stream)
}

// rule: a-stream-is-not-sent-twice
#[tokio::test(start_paused = true)]
async fn a_streamed_body_that_was_read_is_not_sent_again_and_that_is_the_reason() {
    let layer = ClientLayer::new(policy()).endpoint_honours_keys();
    for (method, does, end) in [
        (Method::PUT, answers(503), ("done", "body-streamed", "none")),
        (
            Method::POST,
            answers(504),
            ("unknown", "body-streamed", "unknown"),
        ),
    ] {
        let script = Script::of([does]);
        let ended = ask(&layer, &script, streamed(method)).await;
        assert_eq!((script.times(), told(&ended)), (1, end));
        assert_eq!(script.given()[0].body, "amount=50");
    }
    // Nobody read of it, so it is still there.
    let script = Script::of([Does::Fails(Failure::Connect), answers(201)]);
    let ended = ask(&layer, &script, streamed(Method::POST)).await;
    assert_eq!(
        (ends(&ended), told(&ended).0),
        (vec!["connect".into(), "201".into()], "done")
    );
    assert_eq!(script.given()[1].body, "amount=50");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_fails_by_itself_is_the_request_s_own_fault() {
    let layer = ClientLayer::new(policy());
    let broken = [Err::<Frame<Bytes>, _>(std::io::Error::other("gone"))];
    let body = RequestBody::stream(StreamBody::new(futures_util::stream::iter(broken)));
    let script = Script::of([answers(200)]);
    let ended = ask(&layer, &script, request(Method::PUT).map(|_| body)).await;
    assert_eq!(told(&ended).1, "caller-left");
    let text = ended.account().to_string();
    assert!(text.contains("The request itself is at fault"), "{text}");
}

// rule: a-cut-answer-is-asked-for-again
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_read_whole_and_was_cut_is_asked_for_again() {
    let cut = Does::Body(200, Gives::Error);
    let whole = ClientLayer::new(policy()).with_whole_answers(1024);
    let script = Script::of([cut.clone(), answers(200)]);
    let ended = ask(&whole, &script, request(Method::GET)).await;
    assert_eq!(ends(&ended), ["truncated", "200"]);
    let answer = ended.into_answer().expect("it came");
    assert_eq!(
        answer.into_body().bytes().await.expect("whole"),
        "an answer"
    );
    // A write that was answered and cut has been executed, or not: nobody knows.
    let script = Script::of([cut.clone()]);
    let ended = ask(&whole, &script, request(Method::POST)).await;
    assert_eq!(
        (script.times(), told(&ended)),
        (1, ("unknown", "maybe-executed", "unknown"))
    );
    // Longer than what is read whole, it is passed on as it comes, from its beginning.
    let short = ClientLayer::new(policy()).with_whole_answers(1);
    let script = Script::of([answers(200)]);
    let Ended::Done { answer, .. } = ask(&short, &script, request(Method::GET)).await else {
        panic!("its head came")
    };
    assert_eq!(
        answer.into_body().bytes().await.expect("whole"),
        "an answer"
    );
}
