//! `kill -9` between an effect and its answer, while others wait, and in the middle of an answer.

use serde_json::Value;

use super::KEY;
use crate::stage::{Answer, Caller, Config, Folder, Gateway, Honours, Ledger, Request, until};

/// A folder with a gateway's configuration, and the service behind it.
pub fn set(honours: Honours, top: &str, idempotency: &str) -> (Folder, Ledger) {
    let (folder, ledger) = (Folder::new(), Ledger::open(honours));
    let config = Config {
        to: &ledger,
        top,
        idempotency,
    };
    folder.write("s.toml", config.text());
    (folder, ledger)
}

/// Leaves the record of an operation that was done and whose gateway died before it knew.
pub fn between_effect_and_answer(folder: &Folder, ledger: &Ledger) {
    let before = ledger.effects();
    let gateway = folder.gateway();
    ledger.hold();
    let mut caller = Caller::to(gateway.data).expect("a connection");
    caller.send(&Request::order(KEY));
    until("the effect", || (ledger.effects() > before).then_some(()));
    gateway.kill();
    let cut = caller.answer().expect_err("nobody is left to answer");
    assert_eq!(cut.0, b"", "no byte of an answer that is not on record");
    ledger.answer();
}

/// The one record, once it is written down that nobody knows its outcome.
pub fn unknown_record(gateway: &Gateway) -> Value {
    until("an unknown record", || {
        let mut records = gateway.records();
        assert_eq!(records.len(), 1, "{records:?}");
        (records[0]["state"] == "unknown").then(|| records.remove(0))
    })
}

/// What a duplicate is told once the outcome is known to be unknown.
pub fn asked_until_unknown(gateway: &Gateway, path: &str) -> Answer {
    until("an outcome", || {
        let answer = gateway.ask(&Request::post(path, Some(KEY)));
        let answer = answer.expect("an answer");
        (answer.problem().as_deref() != Some("in-progress")).then_some(answer)
    })
}

// rule: killed-between-effect-and-answer-is-unknown
#[test]
fn killed_between_effect_and_answer_the_outcome_is_unknown_and_nothing_runs_again() {
    let (folder, ledger) = set(Honours::Nothing, "", "lease = \"500ms\"");
    between_effect_and_answer(&folder, &ledger);
    let gateway = folder.gateway();
    // Without any request: by the sweeper.
    unknown_record(&gateway);
    for _ in 0..3 {
        let answer = gateway.ask(&Request::order(KEY));
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 409, "{answer:?}");
        assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"));
        assert_eq!(answer.field("steadfast-effect"), Some("unknown"));
    }
    assert_eq!(ledger.effects(), 1);
}

#[test]
fn killed_between_effect_and_answer_a_service_that_honours_keys_is_asked_again_under_repeat() {
    let rules = "lease = \"500ms\", on_unknown = \"repeat\"";
    let (folder, ledger) = set(Honours::Keys, "", rules);
    between_effect_and_answer(&folder, &ledger);
    let gateway = folder.gateway();
    let answer = asked_until_unknown(&gateway, "/orders");
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.replayed(), Some("false"), "it asked itself");
    assert_eq!(ledger.effects(), 1);
    let fences = ledger.fences();
    assert!(fences.len() == 2 && fences[0] < fences[1], "{fences:?}");
}

#[test]
fn killed_while_forty_duplicates_wait_nobody_is_told_anything_and_nothing_runs_again() {
    let rules = "lease = \"500ms\", waiters_per_key = 40";
    let (folder, ledger) = set(Honours::Nothing, "", rules);
    let gateway = folder.gateway();
    ledger.hold();
    let post = Request::order(KEY);
    let mut first = Caller::to(gateway.data).expect("a connection");
    first.send(&post);
    until("the effect", || (ledger.effects() == 1).then_some(()));
    let (told, tells) = std::sync::mpsc::channel();
    let data = gateway.data;
    std::thread::scope(|scope| {
        for _ in 0..41 {
            let told = told.clone();
            scope.spawn(move || {
                let caller = Caller::to(data).expect("a connection");
                let _ = told.send(caller.ask(&post).ok());
            });
        }
        // One is refused because forty wait.
        let refused = tells.recv().expect("an end").expect("an answer");
        assert_eq!(refused.problem().as_deref(), Some("in-progress"));
        gateway.kill();
        for _ in 0..40 {
            let answer = tells.recv().expect("an end");
            assert!(answer.is_none(), "{answer:?}");
        }
    });
    assert!(first.answer().is_err());
    ledger.answer();
    let gateway = folder.gateway();
    let answer = asked_until_unknown(&gateway, "/orders");
    assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"));
    assert_eq!(ledger.effects(), 1);
}

#[test]
fn killed_in_a_streamed_answer_the_caller_sees_the_cut_and_the_outcome_is_unknown() {
    let (folder, ledger) = set(Honours::Nothing, "", "lease = \"500ms\"");
    let gateway = folder.gateway();
    ledger.hold();
    let mut caller = Caller::to(gateway.data).expect("a connection");
    caller.send(&Request::post("/stream", Some(KEY)));
    caller.read_to("first\n");
    gateway.kill();
    let rest = caller.rest();
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "an end that was none: {rest:?}"
    );
    ledger.answer();
    let gateway = folder.gateway();
    let answer = asked_until_unknown(&gateway, "/stream");
    assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"));
    assert_eq!(ledger.effects(), 1);
}
