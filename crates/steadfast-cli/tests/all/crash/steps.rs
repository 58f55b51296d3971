//! A gateway that ends at its n-th store operation, for every n, before and after the operation.
//!
//! The gateway that is started after it is the released program.

use std::collections::BTreeSet;

use super::{KEY, failing};
use crate::stage::{Answer, Config, Fate, Folder, Honours, Ledger, Request, until};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pool {
    /// The request has to connect first.
    Cold,
    /// A connection is at hand.
    Warm,
}

/// Who meets first what the ended gateway left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetBy {
    Duplicate,
    Sweeper,
}

/// The request before the one that meets the end of its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Earlier {
    /// There was none.
    Nothing,
    /// It had an effect and no answer, and nobody has written that down yet.
    Held,
    /// The same, and it is written down.
    Unknown,
}

/// What the service does with the first attempts at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// Each succeeds.
    Sound,
    /// One is not done and one is done and lost; all others succeed.
    FailsFirst,
    /// Each is done, and its answer lost.
    NeverSays,
}

/// One way to the end, at every operation.
#[derive(Clone, Copy, Debug)]
struct Walk {
    pool: Pool,
    on_unknown: &'static str,
    kind: &'static str,
    point: &'static str,
    met_by: MetBy,
    earlier: Earlier,
    service: Service,
}

/// What the operation came to at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Final,
    Unknown,
}

impl Walk {
    /// Ends the gateway at each operation in turn, until the request is through before that.
    /// Gives how many operations there were, and what the ends were.
    fn go(self) -> (u32, BTreeSet<End>) {
        let mut ends = BTreeSet::new();
        let mut n = 1;
        loop {
            let stage = Stage::set(self);
            let crash = format!("crash:{}:{}:{n}", self.point, self.kind);
            let told = stage.meet(&crash);
            ends.insert(stage.settle(told.as_ref(), &crash));
            if told.is_some() {
                return (n - 1, ends);
            }
            n += 1;
        }
    }
}

/// The end that an answer tells; `None` where the same request is to be sent again.
fn end_of(answer: &Answer) -> Option<End> {
    let effect = answer.field("steadfast-effect");
    match (answer.status, answer.problem().as_deref()) {
        (201, None) => Some(End::Final),
        (409, Some("outcome-unknown")) => Some(End::Unknown),
        // The service's own, after its last attempt.
        (504, None) if effect == Some("unknown") => Some(End::Unknown),
        _ => None,
    }
}

struct Stage {
    walk: Walk,
    folder: Folder,
    ledger: Ledger,
}

impl Stage {
    fn set(walk: Walk) -> Stage {
        let honours = match walk.on_unknown {
            "repeat" => Honours::Keys,
            _ => Honours::Nothing,
        };
        let (folder, ledger) = (Folder::new(), Ledger::open(honours));
        let rules = format!("lease = \"1500ms\", on_unknown = \"{}\"", walk.on_unknown);
        match walk.service {
            Service::Sound => {}
            Service::FailsFirst => ledger.fated([Fate::Undone, Fate::Lost]),
            Service::NeverSays => ledger.fated([Fate::Lost; 1000]),
        }
        let config = Config {
            to: &ledger,
            top: "[defaults]\nretry = { base = \"1ms\", cap = \"1ms\" }",
            idempotency: &rules,
        };
        folder.write("s.toml", config.text());
        if walk.earlier != Earlier::Nothing {
            super::killed::between_effect_and_answer(&folder, &ledger);
        }
        if walk.earlier == Earlier::Unknown {
            let gateway = folder.gateway();
            super::killed::unknown_record(&gateway);
            gateway.kill();
        }
        Stage {
            walk,
            folder,
            ledger,
        }
    }

    /// Sends the request through a gateway that ends as planned; the answer where it came first.
    fn meet(&self, crash: &str) -> Option<Answer> {
        let mut gateway = match failing::start(&self.folder, crash) {
            Ok(gateway) => gateway,
            // The operation was one of the start's.
            Err(died) => {
                assert_eq!(died.status.code(), None, "{crash}: {died:?}");
                return None;
            }
        };
        if self.walk.pool == Pool::Warm {
            let warmed = gateway.ask(&Request::get("/"));
            if let Some(warmed) = warmed {
                assert_eq!(warmed.status, 200, "{crash}: {warmed:?}");
            }
        }
        let answer = until("an answer or the gateway's end", || {
            match gateway.ask(&Request::order(KEY)) {
                Some(answer) if end_of(&answer).is_some() => Some(Some(answer)),
                // A machine under load may take longer than the short lease allows.
                Some(_) => None,
                None => Some(None),
            }
        });
        if answer.is_none() {
            assert_eq!(gateway.ended().code(), None, "{crash}: {}", gateway.log());
        }
        gateway.kill();
        answer
    }

    /// Restarts, and repeats the request until its end is told.
    fn settle(&self, told: Option<&Answer>, crash: &str) -> End {
        let case = format!("{:?} {crash}, told {told:?}", self.walk);
        let gateway = self.folder.gateway();
        if self.walk.met_by == MetBy::Sweeper {
            until("a record that nobody holds", || {
                let held = ["reserved", "dispatched"];
                let records = gateway.records();
                let open = records
                    .iter()
                    .any(|r| held.iter().any(|h| r["state"] == *h));
                (!open).then_some(())
            });
        }
        let (end, answer) = until("an end", || {
            let answer = gateway.ask(&Request::order(KEY));
            let answer = answer.unwrap_or_else(|| panic!("{case}: {}", gateway.log()));
            let end = end_of(&answer);
            let again = answer.problem().as_deref() == Some("in-progress");
            assert!(end.is_some() || again, "{case}: {answer:?}");
            end.map(|end| (end, answer))
        });
        if let Some(told) = told {
            assert_eq!(Some(end), end_of(told), "{case}");
        }
        let effects = self.ledger.effects();
        let records = gateway.records();
        let state = &records[0]["state"];
        assert_eq!(records.len(), 1, "{case}: {records:?}");
        match end {
            End::Final => {
                assert_eq!(effects, 1, "{case}");
                assert_eq!(state, "completed", "{case}");
                if let Some(told) = told {
                    assert_eq!(answer.essence(), told.essence(), "{case}");
                    assert_eq!(answer.replayed(), Some("true"), "{case}");
                }
            }
            End::Unknown => {
                assert!(effects <= 1, "{case}: {effects} effects");
                let says = self.walk.service != Service::NeverSays;
                assert_eq!(self.walk.on_unknown == "hold", says, "{case}");
                assert_eq!(state, "unknown", "{case}");
            }
        }
        let fences = self.ledger.fences();
        assert!(fences.is_sorted_by(|a, b| a < b), "{case}: {fences:?}");
        end
    }
}

/// All walks of one kind at the same time: each is mostly waiting for a lease.
fn walks(
    on_unknown: &'static str,
    earlier: Earlier,
    service: Service,
) -> Vec<(Walk, u32, BTreeSet<End>)> {
    let mut walks = Vec::new();
    for pool in [Pool::Cold, Pool::Warm] {
        for (kind, met_by) in [("write", MetBy::Duplicate), ("read", MetBy::Sweeper)] {
            for point in ["before", "after"] {
                walks.push(Walk {
                    pool,
                    on_unknown,
                    kind,
                    point,
                    met_by,
                    earlier,
                    service,
                });
            }
        }
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = walks
            .iter()
            .map(|walk| (*walk, scope.spawn(|| walk.go())))
            .collect();
        let done = running.into_iter().map(|(walk, running)| {
            let (operations, ends) = running
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (walk, operations, ends)
        });
        done.collect()
    })
}

/// The fewest operations that the request itself has: reads of the date aside, its writes.
fn least(walk: Walk) -> u32 {
    // A mark for each further attempt.
    let marks = match walk.service {
        Service::Sound => 0,
        Service::FailsFirst | Service::NeverSays => 2,
    };
    let one = match (walk.kind, walk.pool) {
        // Reserved, dispatched, completed; with a connection at hand the first is the second.
        ("write", Pool::Cold) => 3,
        ("write", Pool::Warm) => 2,
        // The start's two, and the date for each write.
        (_, Pool::Cold) => 5,
        (_, Pool::Warm) => 4,
    };
    one + marks
}

// rule: a-crash-at-any-store-operation-makes-no-second-effect
#[test]
fn a_crash_at_any_store_operation_makes_no_second_effect_under_hold() {
    for (walk, operations, ends) in walks("hold", Earlier::Nothing, Service::Sound) {
        assert!(
            operations >= least(walk),
            "{walk:?}: {operations} operations"
        );
        // Both ends are there: before the mark it is executed later, after it nobody knows.
        let both = BTreeSet::from([End::Final, End::Unknown]);
        assert_eq!(ends, both, "{walk:?}");
    }
}

#[test]
fn a_crash_at_any_store_operation_is_repeated_to_one_effect_under_repeat() {
    for (walk, operations, ends) in walks("repeat", Earlier::Nothing, Service::Sound) {
        assert!(
            operations >= least(walk),
            "{walk:?}: {operations} operations"
        );
        assert_eq!(ends, BTreeSet::from([End::Final]), "{walk:?}");
    }
}

// rule: a-crash-between-attempts-makes-no-second-effect
#[test]
fn a_crash_at_any_store_operation_of_several_attempts_comes_to_one_end_under_newer_fences() {
    for (service, end) in [
        (Service::FailsFirst, End::Final),
        (Service::NeverSays, End::Unknown),
    ] {
        for (walk, operations, ends) in walks("repeat", Earlier::Nothing, service) {
            assert!(
                operations >= least(walk),
                "{walk:?}: {operations} operations"
            );
            assert_eq!(ends, BTreeSet::from([end]), "{walk:?}");
        }
    }
}

#[test]
fn a_crash_at_any_store_operation_of_a_take_over_is_repeated_to_one_effect() {
    for (walk, operations, ends) in walks("repeat", Earlier::Unknown, Service::Sound) {
        assert!(
            operations >= least(walk),
            "{walk:?}: {operations} operations"
        );
        assert_eq!(ends, BTreeSet::from([End::Final]), "{walk:?}");
    }
}

#[test]
fn a_crash_at_any_store_operation_of_writing_an_end_down_leaves_it_to_the_next() {
    for (walk, operations, ends) in walks("hold", Earlier::Held, Service::Sound) {
        // One write, of what is unknown now; the start's reads, and those of the one who looks.
        let least = if walk.kind == "write" { 1 } else { 4 };
        assert!(operations >= least, "{walk:?}: {operations} operations");
        assert_eq!(ends, BTreeSet::from([End::Unknown]), "{walk:?}");
    }
}
