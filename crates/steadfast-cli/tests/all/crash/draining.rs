//! SIGTERM: readiness goes first, what runs may end, what does not is written down as unknown.

use super::KEY;
use super::killed::{set, unknown_record};
use crate::stage::{Caller, Folder, Gateway, Honours, Ledger, Request, until};

/// A gateway at work, and the caller who waits for it.
fn at_work(folder: &Folder, ledger: &Ledger) -> (Gateway, Caller) {
    let gateway = folder.gateway();
    ledger.hold();
    let mut caller = Caller::to(gateway.data).expect("a connection");
    caller.send(&Request::order(KEY));
    until("the effect", || (ledger.effects() == 1).then_some(()));
    (gateway, caller)
}

fn draining(gateway: &Gateway) {
    gateway.terminate();
    until("a gateway that is not ready", || {
        let answer = Caller::to(gateway.admin)?.ask(&Request::get("/readyz"));
        (answer.ok()?.status == 503).then_some(())
    });
}

#[test]
fn work_that_ends_inside_the_drain_is_answered_and_recorded() {
    let (folder, ledger) = set(Honours::Nothing, "drain = \"50s\"", "");
    let (mut gateway, mut caller) = at_work(&folder, &ledger);
    draining(&gateway);
    ledger.answer();
    let answer = caller.answer().expect("an answer");
    assert_eq!((answer.status, answer.replayed()), (201, Some("false")));
    assert_eq!(gateway.ended().code(), Some(0), "{}", gateway.log());
    assert!(gateway.log().ends_with("drained; all work has ended\n"));
    let gateway = folder.gateway();
    let again = gateway.ask(&Request::order(KEY)).expect("an answer");
    assert_eq!(again.essence(), answer.essence());
    assert_eq!(again.replayed(), Some("true"));
    assert_eq!(ledger.effects(), 1);
}

#[test]
fn work_that_does_not_end_inside_the_drain_is_unknown_by_shutdown() {
    let (folder, ledger) = set(Honours::Nothing, "drain = \"300ms\"", "");
    let (mut gateway, mut caller) = at_work(&folder, &ledger);
    gateway.terminate();
    let told = caller.answer().expect("an answer");
    assert_eq!(told.status, 504, "{told:?}");
    assert_eq!(told.problem().as_deref(), Some("outcome-unknown"));
    assert_eq!(gateway.ended().code(), Some(0), "{}", gateway.log());
    let log = gateway.log();
    assert!(log.contains("stopped 1 keyed operations"), "{log}");
    ledger.answer();
    // It is on record already, long before its lease would have been over.
    let gateway = folder.gateway();
    let record = unknown_record(&gateway);
    let id = record["id"].as_str().expect("an id");
    let shown = folder.json(&["keys", "show", id, "--json", "--config", "s.toml"]);
    let last = &shown["history"].as_array().expect("a history").last();
    let last = last.expect("an event");
    assert!(last["detail"].to_string().contains("shutdown"), "{last}");
    let answer = gateway.ask(&Request::order(KEY)).expect("an answer");
    assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"));
    assert_eq!(ledger.effects(), 1);
}

#[test]
fn idle_connections_do_not_hold_the_end_up() {
    // Longer than this test would wait.
    let (folder, _ledger) = set(Honours::Nothing, "drain = \"1h\"", "");
    let mut gateway = folder.gateway();
    let mut used = Caller::to(gateway.data).expect("a connection");
    used.send(&Request::get("/").kept());
    assert_eq!(used.answer().expect("an answer").status, 200);
    let mut unused = Caller::to(gateway.data).expect("a connection");
    gateway.terminate();
    assert_eq!(gateway.ended().code(), Some(0), "{}", gateway.log());
    assert_eq!((used.rest(), unused.rest()), (Vec::new(), Vec::new()));
}
