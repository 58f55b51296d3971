//! A thousand operations, and a gateway that is killed while they wait and while they run.

use super::{accepted, ask, at_rest, folder, in_states, key};
use crate::stage::{Caller, Down, Folder, Honours, Ledger, Request, until};

const ALWAYS: &str = "defer = \"always\"";

/// Sends the operations from `numbers`; gives their addresses.
fn send(gateway: &crate::stage::Gateway, numbers: std::ops::Range<usize>) -> Vec<String> {
    let mut caller = Caller::to(gateway.data).expect("a connection");
    let sent = numbers.map(|number| {
        let answer = ask(&mut caller, Request::order(&key(number)));
        accepted(&answer)
    });
    sent.collect()
}

// rule: deferred-work-survives-every-kill-and-happens-once
#[test]
fn a_thousand_that_wait_for_a_service_through_ten_kills_are_a_thousand_effects_and_no_more() {
    let down = Down::new();
    let folder = folder(down.address(), "lease = \"1s\"", ALWAYS);
    let mut addresses = Vec::new();
    for round in 0..10 {
        let gateway = folder.gateway();
        addresses.extend(send(&gateway, round * 100..(round + 1) * 100));
        gateway.kill();
    }
    let ledger = down.up(Honours::Nothing);
    let gateway = folder.gateway();
    let states = at_rest(&gateway, &addresses);
    assert!(states.iter().all(|state| state == "completed"));
    assert_eq!(ledger.effects(), 1000);
    assert_eq!(ledger.most_posts_of_a_key(), 1);
    let mut caller = Caller::to(gateway.data).expect("a connection");
    for address in &addresses {
        let answer = ask(&mut caller, Request::get(&format!("{address}/response")));
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(answer.replayed(), Some("true"));
    }
}

/// Two hundred operations of a gateway that is killed again and again while they run.
fn killed_while_they_run(ledger: &Ledger, folder: &Folder, rest: &[&str]) -> Vec<String> {
    ledger.hold();
    let gateway = folder.gateway();
    let addresses = send(&gateway, 0..200);
    let mut gateway = Some(gateway);
    for round in 1..=5 {
        let before = ledger.posts();
        until("operations that run", || {
            (ledger.posts() > before).then_some(())
        });
        // Answers that come just when it is killed.
        if round % 2 == 0 {
            ledger.answer();
            let enough = before + 10;
            until("answers", || (ledger.posts() >= enough).then_some(()));
            ledger.hold();
        }
        if let Some(gateway) = gateway.take() {
            gateway.kill();
        }
        gateway = Some(folder.gateway());
    }
    ledger.answer();
    let gateway = gateway.expect("a gateway");
    let states = in_states(&gateway, &addresses, rest);
    assert_eq!(states.len(), 200);
    states
}

// rule: deferred-work-that-was-running-follows-the-way-out
#[test]
fn killed_while_they_run_a_service_that_honours_keys_does_each_once_under_repeat() {
    let ledger = Ledger::open(Honours::Keys);
    let rules = "lease = \"1s\", on_unknown = \"repeat\"";
    let folder = folder(ledger.address(), rules, ALWAYS);
    killed_while_they_run(&ledger, &folder, &["completed"]);
    assert_eq!(ledger.effects(), 200);
}

#[test]
fn killed_while_they_run_each_is_one_effect_or_visibly_unknown_under_hold() {
    let ledger = Ledger::open(Honours::Nothing);
    let folder = folder(ledger.address(), "lease = \"1s\"", ALWAYS);
    let states = killed_while_they_run(&ledger, &folder, &["completed", "unknown"]);
    assert_eq!(ledger.most_posts_of_a_key(), 1, "none was sent twice");
    let completed = states.iter().filter(|state| *state == "completed").count();
    assert!(completed < 200, "some were killed on their way");
    assert!(completed <= ledger.effects() && ledger.effects() <= 200);
}
