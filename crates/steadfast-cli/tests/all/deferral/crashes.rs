//! A gateway that ends at its n-th store operation, for every n, while it puts a request into its
//! queue and sends it from there.

use std::collections::BTreeSet;

use super::{KEY, folder};
use crate::crash::failing;
use crate::stage::{Answer, Folder, Gateway, Honours, Ledger, Request, until};

/// What the operation came to at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Final,
    Unknown,
}

fn end_of(answer: &Answer) -> Option<End> {
    match (answer.status, answer.problem().as_deref()) {
        (201, None) => Some(End::Final),
        (409, Some("outcome-unknown")) => Some(End::Unknown),
        _ => None,
    }
}

/// Repeats the request until its end is told; `None` where the gateway has ended.
fn asked(gateway: &Gateway) -> Option<End> {
    until("an end, or the gateway's", || {
        match gateway.ask(&Request::order(KEY)) {
            None => Some(None),
            Some(answer) => end_of(&answer).map(Some),
        }
    })
}

/// Ends the gateway at each operation in turn, until the request is through before that. Gives how
/// many operations there were, and what the ends were.
fn walk(on_unknown: &str, kind: &str, point: &str) -> (u32, BTreeSet<End>) {
    let mut ends = BTreeSet::new();
    for n in 1.. {
        let (folder, ledger) = stage(on_unknown);
        let crash = format!("crash:{point}:{kind}:{n}");
        let told = failing::start(&folder, &crash).ok();
        let told = told.and_then(|gateway| {
            let end = asked(&gateway);
            gateway.kill();
            end
        });
        let case = format!("{on_unknown} {crash}, told {told:?}");
        let gateway = folder.gateway();
        let end = asked(&gateway).unwrap_or_else(|| panic!("{case}: {}", gateway.log()));
        ends.insert(end);
        let records = gateway.records();
        assert_eq!(records.len(), 1, "{case}: {records:?}");
        match end {
            End::Final => assert_eq!(ledger.effects(), 1, "{case}"),
            End::Unknown => assert!(ledger.effects() <= 1, "{case}"),
        }
        let fences = ledger.fences();
        assert!(fences.is_sorted_by(|a, b| a < b), "{case}: {fences:?}");
        if told.is_some() {
            return (n - 1, ends);
        }
    }
    unreachable!("a gateway does not write for ever")
}

fn stage(on_unknown: &str) -> (Folder, Ledger) {
    let honours = match on_unknown {
        "repeat" => Honours::Keys,
        _ => Honours::Nothing,
    };
    let ledger = Ledger::open(honours);
    let rules = format!("lease = \"1500ms\", on_unknown = \"{on_unknown}\"");
    let folder = folder(ledger.address(), &rules, "defer = \"always\"");
    (folder, ledger)
}

fn walks(on_unknown: &'static str) -> Vec<(u32, BTreeSet<End>)> {
    let kinds = [("write", "before"), ("write", "after"), ("read", "after")];
    std::thread::scope(|scope| {
        let running = kinds.map(|(kind, point)| scope.spawn(move || walk(on_unknown, kind, point)));
        let done = running.into_iter().map(|running| {
            running
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        done.collect()
    })
}

// rule: a-crash-at-any-store-operation-of-the-queue
#[test]
fn a_crash_at_any_store_operation_of_the_queue_makes_no_second_effect_under_hold() {
    for (operations, ends) in walks("hold") {
        // Put there, taken, marked, ended.
        assert!(operations >= 4, "{operations} operations");
        // Before the mark it is sent later, after it nobody knows.
        assert!(ends.contains(&End::Final), "{ends:?}");
    }
}

#[test]
fn a_crash_at_any_store_operation_of_the_queue_is_one_effect_under_repeat() {
    for (operations, ends) in walks("repeat") {
        assert!(operations >= 4, "{operations} operations");
        assert_eq!(ends, BTreeSet::from([End::Final]));
    }
}
