//! An upstream that speaks HTTP/2 over TLS: what it did not process goes again, under a key or
//! without; what it may have processed goes again only where that is safe.

mod service;

use crate::stage::{Answer, Folder, Gateway, Request};
use service::{Fate, Service};

const KEY: &str = "5f0f9c2e-6b1a-4e0c-9d5e-0b7a8c1d2e3f";
const KEYLESS: Request<'_> = Request::post("/orders", None);
const KEYED: Request<'_> = Request::order(KEY);
const QUICK: &str = "retry = { base = \"1ms\" }\n";
const REPEAT: &str = "retry = { base = \"1ms\" }\nidempotency = { on_unknown = \"repeat\" }\n";
const UNTRUSTED: &str = "retry = { base = \"1ms\", unsent_writes = false }\n";

fn ask(gateway: &Gateway, request: &Request<'_>) -> Answer {
    gateway.ask(request).expect("an answer")
}

fn counted(gateway: &Gateway, attempt: u32, result: &str) {
    let metrics = gateway.metrics();
    let series = format!("attempt=\"{attempt}\",result=\"{result}\"}} 1\n");
    assert!(metrics.contains(&series), "no {series} in {metrics}");
}

// rule: over-http2-what-was-not-processed-goes-again
#[test]
fn a_stream_that_was_not_processed_goes_again_with_or_without_a_key_and_is_counted() {
    for (fate, result) in [
        (Fate::Refused, "refused-stream"),
        (Fate::Unprocessed, "goaway-unprocessed"),
    ] {
        for (request, is_keyed) in [(KEYLESS, false), (KEYED, true)] {
            let folder = Folder::new();
            let service = Service::start(&folder, &[fate]);
            let gateway = service.gateway(&folder, QUICK);
            let answer = ask(&gateway, &request);
            assert_eq!((answer.status, &*answer.body), (201, &b"made"[..]));
            assert_eq!(answer.field("steadfast-attempts"), Some("1"), "sent");
            counted(&gateway, 1, result);
            counted(&gateway, 2, "201");
            let taken = service.taken();
            assert_eq!(taken.len(), 1, "{fate:?}: {taken:?}");
            assert_eq!(taken[0].body, b"{\"amount\":1}");
            assert_eq!(taken[0].field("steadfast-attempt"), "2");
            let connections = if fate == Fate::Refused { 1 } else { 2 };
            assert_eq!(service.connections(), connections, "{fate:?}");
            if is_keyed {
                assert_eq!(taken[0].field("idempotency-key"), KEY);
                let record = &gateway.records()[0];
                let fence = taken[0].fence().into();
                assert_eq!((&record["fence"], &record["attempts"]), (&fence, &2.into()));
                assert_eq!(ask(&gateway, &request).replayed(), Some("true"));
                assert_eq!(service.taken().len(), 1);
            }
        }
    }
}

#[test]
fn a_stream_that_is_refused_each_time_was_never_sent_and_leaves_the_key_free() {
    let folder = Folder::new();
    let service = Service::start(&folder, &[Fate::Refused; 7]);
    let gateway = service.gateway(&folder, QUICK);
    for request in [KEYLESS, KEYED] {
        let answer = ask(&gateway, &request);
        assert_eq!(answer.problem().as_deref(), Some("upstream-unreachable"));
        assert_eq!(answer.field("steadfast-effect"), Some("none"));
    }
    // The seventh is refused and goes again.
    assert_eq!(ask(&gateway, &KEYED).replayed(), Some("false"));
    assert_eq!(service.taken().len(), 1);
    // Where the operator trusts no evidence, a write without a key stays with its first attempt.
    let service = Service::start(&folder, &[Fate::Refused]);
    let gateway = service.gateway(&folder, UNTRUSTED);
    let answer = ask(&gateway, &KEYLESS);
    assert_eq!(answer.problem().as_deref(), Some("upstream-unreachable"));
    assert_eq!(service.taken().len(), 0);
}

// rule: over-http2-what-may-have-been-processed-is-unknown
#[test]
fn a_stream_that_may_have_been_processed_is_unknown_and_goes_again_only_where_that_is_safe() {
    for (fate, result) in [
        (Fate::Reset, "reset"),
        (Fate::Processed, "goaway-processed"),
    ] {
        let folder = Folder::new();
        for request in [KEYLESS, KEYED] {
            let service = Service::start(&folder, &[fate]);
            let gateway = service.gateway(&folder, QUICK);
            let before = service.taken().len();
            let answer = ask(&gateway, &request);
            assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"));
            assert_eq!(answer.field("steadfast-effect"), Some("unknown"));
            counted(&gateway, 1, result);
            // The library's service keeps what it took; the other only says so.
            let took = usize::from(fate == Fate::Reset);
            assert_eq!(service.taken().len() - before, took, "{fate:?}");
        }
        let service = Service::start(&folder, &[fate]);
        let gateway = service.gateway(&folder, QUICK);
        assert_eq!(ask(&gateway, &Request::get("/orders")).status, 201);
        counted(&gateway, 1, result);
        counted(&gateway, 2, "201");
    }
}

// rule: over-http2-a-keyed-repeat-has-a-newer-fence
#[test]
fn under_repeat_a_stream_that_may_have_been_processed_goes_again_with_a_newer_fence() {
    let folder = Folder::new();
    let service = Service::start(&folder, &[Fate::Processed, Fate::Reset]);
    let gateway = service.gateway(&folder, REPEAT);
    let answer = ask(&gateway, &KEYED);
    assert_eq!((answer.status, answer.replayed()), (201, Some("false")));
    assert_eq!(answer.field("steadfast-attempts"), Some("3"));
    for (attempt, result) in [(1, "goaway-processed"), (2, "reset"), (3, "201")] {
        counted(&gateway, attempt, result);
    }
    let taken = service.taken();
    let fences: Vec<u64> = taken.iter().map(service::Taken::fence).collect();
    assert!(fences.len() == 2 && fences[0] < fences[1], "{fences:?}");
    let record = &gateway.records()[0];
    let last = fences[1].into();
    assert_eq!((&record["fence"], &record["attempts"]), (&last, &3.into()));
    assert_eq!(ask(&gateway, &KEYED).replayed(), Some("true"));
    assert_eq!(service.taken().len(), 2);
}

// rule: over-http2-a-connection-that-goes-away-loses-nothing
#[test]
fn a_connection_that_goes_away_after_each_answer_loses_no_request_and_repeats_none() {
    let folder = Folder::new();
    let service = Service::start(&folder, &[Fate::AnsweredLast; 40]);
    let gateway = service.gateway(&folder, QUICK);
    for turn in 0..40 {
        let key = format!("{turn:08x}-6b1a-4e0c-9d5e-0b7a8c1d2e3f");
        let request = match turn % 2 {
            0 => KEYLESS,
            _ => Request::order(&key),
        };
        assert_eq!(ask(&gateway, &request).status, 201, "{turn}");
    }
    assert_eq!(service.taken().len(), 40);
    assert!(service.connections() > 1, "they did go away");
}
