//! What nobody knows is shown to the operator, who settles it by hand.

use super::killed::{between_effect_and_answer, set, unknown_record};
use super::{KEY, OTHER_KEY};
use crate::stage::{Folder, Gateway, Honours, Ledger, Ran, Request};

const STORE: [&str; 2] = ["--store", "sqlite:records.db"];

fn run(folder: &Folder, words: &[&str]) -> Ran {
    folder.run(&[&["keys"], words, &STORE].concat())
}

/// An unknown record, and the gateway that wrote it down.
fn unknown() -> (Folder, Ledger, Gateway, String) {
    let (folder, ledger) = set(Honours::Nothing, "", "lease = \"500ms\"");
    between_effect_and_answer(&folder, &ledger);
    let gateway = folder.gateway();
    let record = unknown_record(&gateway);
    let id = record["id"].as_str().expect("an id").to_owned();
    (folder, ledger, gateway, id)
}

fn state(folder: &Folder, id: &str) -> String {
    let show = [&["keys", "show", id, "--json"], &STORE[..]].concat();
    let shown = folder.json(&show);
    shown["state"].as_str().expect("a state").to_owned()
}

#[test]
fn an_unknown_record_is_listed_and_shown_with_its_history() {
    let (folder, _ledger, _gateway, id) = unknown();
    let list = ["keys", "list", "--state", "unknown", "--json"];
    let listed = folder.json(&[&list, &STORE[..]].concat());
    let listed = listed.as_array().expect("a list");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["id"], id);
    assert_eq!(listed[0]["operation"], "POST /orders");
    assert_eq!(listed[0]["effect"], "unknown");
    assert_eq!(listed[0]["attempts"], 1);
    let shown = folder.json(&[&["keys", "show", &id, "--json"], &STORE[..]].concat());
    let history = shown["history"].as_array().expect("a history");
    let events: Vec<&str> = history
        .iter()
        .map(|event| event["event"].as_str().expect("an event"))
        .collect();
    assert_eq!(events, ["reserved", "dispatched", "lease-over"]);
    let completed = ["keys", "list", "--state", "completed", "--json"];
    let others = folder.json(&[&completed, &STORE[..]].concat());
    assert_eq!(others, serde_json::json!([]));
}

#[test]
fn a_duplicate_gets_the_answer_that_an_operator_gave() {
    let (folder, ledger, gateway, id) = unknown();
    let resolve = [
        "resolve",
        &id,
        "--status",
        "201",
        "--header",
        "content-type: application/json",
        "--body",
        "{\"id\":1}",
        "--yes",
    ];
    let ran = run(&folder, &resolve);
    assert_eq!((ran.code, ran.err.contains("error")), (0, false), "{ran:?}");
    let answer = gateway.ask(&Request::order(KEY)).expect("an answer");
    let expected = (201, Some("application/json"), None, "{\"id\":1}");
    assert_eq!(answer.essence(), expected);
    assert_eq!(answer.replayed(), Some("true"));
    assert_eq!(ledger.effects(), 1);
    // What is settled stays settled.
    let again = run(&folder, &resolve);
    let refused = format!(
        "error: {id}: the record is completed; only unknown and deferred records can be settled by \
         hand, and one at work once its lease has ended\n"
    );
    assert_eq!((again.code, again.err), (1, refused.clone()));
    let release = run(&folder, &["release", &id, "--yes"]);
    assert_eq!((release.code, release.err), (1, refused));
    assert_eq!(gateway.ask(&Request::order(KEY)).expect("one").status, 201);
    assert_eq!(ledger.effects(), 1);
}

#[test]
fn the_same_request_runs_once_more_after_an_operator_released_it() {
    let (folder, ledger, gateway, id) = unknown();
    let ran = run(&folder, &["release", &id, "--yes"]);
    assert_eq!((ran.code, ran.out), (0, format!("released {id}\n")));
    let answer = gateway.ask(&Request::order(KEY)).expect("an answer");
    assert_eq!((answer.status, answer.replayed()), (201, Some("false")));
    let again = gateway.ask(&Request::order(KEY)).expect("an answer");
    assert_eq!((again.status, again.replayed()), (201, Some("true")));
    assert_eq!(again.essence(), answer.essence());
    // The operator said that the first did not happen; it did, so there are two.
    assert_eq!(ledger.effects(), 2);
    let fences = ledger.fences();
    assert!(fences.len() == 2 && fences[0] < fences[1], "{fences:?}");
}

#[test]
fn what_is_not_clearly_asked_for_is_refused_and_changes_nothing() {
    let (folder, ledger, gateway, id) = unknown();
    let absent = "0".repeat(id.len());
    let nothing = "name the records: their ids, or a filter such as --state unknown";
    let missing =
        format!("there is no record {absent}; `steadfast keys list` shows those there are");
    let give = format!(
        "this would give 201 as the answer of POST /orders ({id}); repeat it with --yes to do so"
    );
    let release = format!(
        "this would release {id}: it was not executed, and may run again; repeat it with --yes to \
         do so"
    );
    let table: [(&[&str], i32, &str); 6] = [
        (&["release"], 2, nothing),
        (&["release", "--limit", "1", "--yes"], 2, nothing),
        (&["resolve", &id, "--status", "201"], 1, &give),
        (&["release", &id], 1, &release),
        (&["release", "--state", "unknown"], 1, &release),
        (
            &["resolve", &absent, "--status", "201", "--yes"],
            1,
            &missing,
        ),
    ];
    for (words, code, message) in table {
        let ran = run(&folder, words);
        let said = (ran.code, ran.out.as_str(), ran.err.as_str());
        assert_eq!(
            said,
            (code, "", format!("error: {message}\n").as_str()),
            "{words:?}"
        );
        assert_eq!(state(&folder, &id), "unknown", "{words:?}");
    }
    let answer = gateway.ask(&Request::order(KEY)).expect("an answer");
    assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"));
    assert_eq!(ledger.effects(), 1);
}

#[test]
fn of_two_ids_both_are_released_and_one_that_cannot_be_does_not_stop_the_other() {
    let (folder, ledger, gateway, id) = unknown();
    let done = gateway.ask(&Request::order(OTHER_KEY)).expect("an answer");
    assert_eq!(done.status, 201);
    let records = gateway.records();
    let completed = records.iter().find(|record| record["state"] == "completed");
    let completed = completed.expect("the other record")["id"].as_str();
    let completed = completed.expect("an id");
    let ran = run(&folder, &["release", completed, &id, "--yes"]);
    assert_eq!((ran.code, ran.out), (1, format!("released {id}\n")));
    let refused = format!(
        "error: {completed}: the record is completed; only unknown and deferred records can be \
         settled by hand, and one at work once its lease has ended\n"
    );
    // What an operator did is logged, too.
    assert!(ran.err.starts_with(&refused), "{}", ran.err);
    assert_eq!(state(&folder, completed), "completed");
    assert_eq!(state(&folder, &id), "released");
    assert_eq!(ledger.effects(), 2);
}
