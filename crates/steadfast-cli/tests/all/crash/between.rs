//! `kill -9` between two attempts of one keyed request, and a gateway that stands still between
//! them while another takes over.

use std::process::Command;

use serde_json::Value;

use super::KEY;
use super::killed::{asked_until_unknown, set, unknown_record};
use crate::stage::{Answer, Caller, Fate, Folder, Gateway, Honours, Ledger, Request, until};

const POST: Request<'_> = Request::order(KEY);

/// A service that honours keys, before it a gateway whose second attempt comes after `wait`.
fn stage(wait: &str) -> (Folder, Ledger) {
    let top = format!(
        "[defaults]\ndeadline = \"180s\"\nretry = {{ backoff = \"fixed\", base = \"{wait}\", \
         cap = \"{wait}\", jitter = \"none\" }}"
    );
    set(
        Honours::Keys,
        &top,
        "lease = \"500ms\", on_unknown = \"repeat\"",
    )
}

/// Waits until the gateway has told the first attempt: from then on it waits for the second.
fn between_attempts(gateway: &Gateway, status: u16) {
    let told = format!("attempt=\"1\",result=\"{status}\"}} 1\n");
    until("the first attempt's end", || {
        gateway.metrics().contains(&told).then_some(())
    });
}

/// Leaves what a gateway leaves that was killed in its wait after an attempt of this fate.
fn killed_in_its_wait(folder: &Folder, ledger: &Ledger, fate: Fate, status: u16) {
    let gateway = folder.gateway();
    ledger.fated([fate]);
    let mut callers = [(); 2].map(|()| Caller::to(gateway.data).expect("a connection"));
    callers[0].send(&POST);
    between_attempts(&gateway, status);
    // A duplicate, who waits for all attempts of the first.
    callers[1].send(&POST);
    until("a duplicate that waits", || {
        let waits = "steadfast_waiters{kind=\"key\"} 1\n";
        gateway.metrics().contains(waits).then_some(())
    });
    gateway.kill();
    for mut caller in callers {
        let cut = caller.answer().expect_err("nobody is left to answer");
        assert_eq!(cut.0, b"", "an answer of an attempt that was not the last");
    }
}

/// The one record, with its history.
fn shown(folder: &Folder, record: &Value) -> Value {
    let id = record["id"].as_str().expect("an id");
    folder.json(&["keys", "show", id, "--json", "--config", "s.toml"])
}

/// The answer is the operation's end: each repeat is given it again, and nothing is sent.
fn is_final(gateway: &Gateway, ledger: &Ledger, answer: &Answer, attempts: usize) {
    assert_eq!(answer.status, 201, "{answer:?}");
    let again = gateway.ask(&POST).expect("an answer");
    assert_eq!(again.essence(), answer.essence());
    assert_eq!(again.replayed(), Some("true"));
    assert_eq!(ledger.effects(), 1);
    let fences = ledger.fences();
    assert_eq!(fences.len(), attempts, "{fences:?}");
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    let records = gateway.records();
    assert_eq!(records.len(), 1, "{records:?}");
    let record = &records[0];
    let end = (&record["state"], &record["effect"], &record["fence"]);
    let last = fences.last().copied().into();
    assert_eq!(end, (&"completed".into(), &"applied".into(), &last));
}

// rule: killed-between-attempts-is-unknown-and-goes-again
#[test]
fn killed_between_attempts_the_outcome_is_unknown_until_the_same_request_brings_it_to_its_end() {
    for (fate, status) in [(Fate::Undone, 503), (Fate::Lost, 504)] {
        let (folder, ledger) = stage("60s");
        killed_in_its_wait(&folder, &ledger, fate, status);
        assert_eq!(ledger.fences().len(), 1, "no second attempt yet");
        let gateway = folder.gateway();
        // By the sweeper; it decides nothing and sends nothing.
        let record = unknown_record(&gateway);
        let left = (&record["effect"], &record["attempts"]);
        assert_eq!(left, (&"unknown".into(), &1.into()), "{status}");
        let shown = shown(&folder, &record);
        let history = shown["history"].as_array().expect("a history");
        let events = history.iter().map(|event| event["event"].as_str());
        let events: Vec<&str> = events.map(|event| event.expect("a word")).collect();
        assert_eq!(events, ["reserved", "dispatched", "lease-over"], "{status}");
        assert_eq!(ledger.fences().len(), 1, "{status}");
        // Another request under the key stays another, also now.
        let other = gateway.ask(&POST.saying("{\"amount\":2}"));
        let other = other.expect("an answer").problem();
        assert_eq!(other.as_deref(), Some("key-reused"), "{status}");
        let answer = gateway.ask(&POST).expect("an answer");
        assert_eq!(answer.replayed(), Some("false"), "{status}: it asked");
        is_final(&gateway, &ledger, &answer, 2);
    }
}

#[test]
fn killed_in_its_second_attempt_the_third_has_the_newest_fence() {
    for fate in [Fate::Undone, Fate::Lost] {
        let (folder, ledger) = stage("1ms");
        let gateway = folder.gateway();
        ledger.fated([fate]);
        ledger.hold();
        let mut caller = Caller::to(gateway.data).expect("a connection");
        caller.send(&POST);
        until("a second attempt", || {
            (ledger.fences().len() == 2).then_some(())
        });
        gateway.kill();
        let cut = caller.answer().expect_err("nobody is left to answer");
        assert_eq!(cut.0, b"");
        ledger.answer();
        let gateway = folder.gateway();
        let record = unknown_record(&gateway);
        let second = ledger.fences().last().copied().into();
        let left = (&record["attempts"], &record["fence"]);
        assert_eq!(left, (&2.into(), &second), "{fate:?}");
        let answer = asked_until_unknown(&gateway, "/orders");
        assert_eq!(answer.replayed(), Some("false"), "{fate:?}: it asked");
        is_final(&gateway, &ledger, &answer, 3);
    }
}

fn signal(gateway: &Gateway, name: &str) {
    let id = gateway.id().to_string();
    let sent = Command::new("sh")
        .args(["-c", "kill \"-$1\" \"$0\"", &id, name])
        .status();
    assert!(sent.expect("kill runs").success(), "SIG{name} is sent");
}

// rule: a-holder-that-stood-still-between-attempts-sends-nothing
#[test]
fn a_gateway_that_stood_still_between_attempts_sends_nothing_more_and_gives_what_stands() {
    let (folder, ledger) = stage("5s");
    let [one, other] = [folder.gateway(), folder.gateway()];
    ledger.fated([Fate::Undone]);
    let mut first = Caller::to(one.data).expect("a connection");
    first.send(&POST);
    between_attempts(&one, 503);
    signal(&one, "STOP");
    let answer = asked_until_unknown(&other, "/orders");
    assert_eq!(answer.replayed(), Some("false"), "it took over");
    signal(&one, "CONT");
    let told = first.answer().expect("an answer");
    assert_eq!(told.essence(), answer.essence());
    assert_eq!(told.replayed(), Some("true"));
    is_final(&one, &ledger, &answer, 2);
}
