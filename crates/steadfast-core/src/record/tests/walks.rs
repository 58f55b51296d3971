//! Random walks over every transition of one record, against what truly happened.
//!
//! The walk knows what the record cannot: which holds sent, and what came of it. Holders are late,
//! stale and doubted; the store's clock jumps ahead; an operator and a sweeper act in between.

use proptest::prelude::*;

use super::*;

mod steps;
mod truth;

use steps::{ENDS, Step, steps};
use truth::Holder;

struct Walk {
    bench: Bench,
    holders: Vec<Holder>,
    origin: WallTime,
    wall: WallTime,
    mono_ms: u64,
    /// The version seen last, and since when.
    seen: Option<(Guard, u64)>,
}

impl Walk {
    fn new(bench: Bench) -> Walk {
        Walk {
            origin: bench.now,
            wall: bench.now,
            bench,
            holders: Vec::new(),
            mono_ms: 0,
            seen: None,
        }
    }

    fn take(&mut self, step: Step) {
        let before = self.bench.row.clone();
        self.act(step);
        self.check(before.as_ref(), step);
        let guard = self.bench.row.as_ref().map(Record::guard);
        if guard != self.seen.map(|(guard, _)| guard) {
            self.seen = guard.map(|guard| (guard, self.mono_ms));
        }
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::Begin(start) => self.begin(start, false),
            Step::BeginDoubted(start) => self.begin(start, true),
            Step::Mark(at) => self.mark(at, false),
            Step::MarkDoubted(at) => self.mark(at, true),
            Step::Renew(at) => self.renew(at),
            Step::Send(at) => self.send(at),
            Step::End(at, end) => self.end(at, ENDS[end]()),
            Step::Withdraw(at) => self.withdraw(at),
            Step::Sweep => self.sweep(),
            Step::Release => self.settle_by_hand(Bench::release),
            Step::Run => self.run(false),
            Step::RunDoubted => self.run(true),
            Step::EndLater(at, end) => self.end_later(at, ENDS[end]()),
            Step::GiveUp => {
                if self.bench.row.is_some() {
                    self.bench.give_up();
                }
            }
            Step::Discard => {
                if self.bench.row.is_some() {
                    let _ = self.bench.discard();
                }
            }
            Step::Resolve(code) => self.settle_by_hand(|bench| bench.resolve(code)),
            Step::Pass(ms) => {
                self.mono_ms += ms;
                self.jump(i64::try_from(ms).unwrap());
            }
            Step::Jump(ms) => self.jump(ms),
        }
    }

    fn one(&self, at: usize) -> Option<Holder> {
        let newest_first = self.holders.len().checked_sub(at + 1)?;
        self.holders.get(newest_first).cloned()
    }

    fn change(&mut self, holder: Holder) {
        let token = holder.hold.owner;
        let standing = self.holders.iter_mut().find(|h| h.hold.owner == token);
        *standing.expect("a holder of this walk") = holder;
    }

    fn unrenewed(&self) -> Duration {
        let guard = self.bench.row.as_ref().map(Record::guard);
        match self.seen {
            Some((seen, since)) if Some(seen) == guard => {
                Duration::from_millis(self.mono_ms - since)
            }
            _ => Duration::ZERO,
        }
    }

    /// The store's clock has not run ahead of the monotonic one by more than a lease.
    fn expiry_is_trusted(&self) -> bool {
        let mono = Duration::from_millis(self.mono_ms);
        self.bench.now.since(self.origin).saturating_sub(mono) <= LEASE
    }

    fn begin(&mut self, start: Start, doubted: bool) {
        self.bench.tokens += 1;
        let request = self.bench.asking(start);
        let now = self.bench.now;
        match self.bench.row.clone() {
            None => self.bench.row = Some(self.bench.drawn(reserve(&request, start, now))),
            Some(row) => {
                let (same, expiry) = (Sameness::Same, self.expiry_is_trusted());
                let met = admit(&row, &request, same, start, now, self.unrenewed(), expiry);
                match met {
                    Admission::TakeOver(next, guard) => {
                        let next = self.bench.drawn(*next);
                        self.bench.put(next, guard);
                    }
                    Admission::Recover(change) => return self.recovered(change),
                    _ => return,
                }
            }
        }
        // What is in the queue is held by nobody.
        if start != Start::Deferred {
            self.hold(start == Start::Dispatched, doubted);
        }
    }

    /// The row's present hold is another holder's.
    fn hold(&mut self, marked: bool, doubted: bool) {
        let hold = self.bench.row().hold();
        self.bench
            .earlier
            .insert(hold.fence, self.bench.row().earlier());
        self.holders.push(Holder {
            hold,
            doubted,
            marked,
            sent: false,
            ended: None,
            renewed_ms: self.mono_ms,
            forgiven: false,
        });
    }

    /// The queue takes what it keeps, due or not.
    fn run(&mut self, doubted: bool) {
        if self.bench.row.is_some() && self.bench.run().is_some() {
            self.hold(false, doubted);
        }
    }

    /// The end of a hold whose operation goes on in the queue, where it was not executed.
    fn end_later(&mut self, at: usize, end: AttemptEnd) {
        let ready = |h: &Holder| !h.doubted && h.ended.is_none();
        let Some(holder) = self.one(at).filter(ready) else {
            return;
        };
        let end = match holder.sent {
            true => end,
            false => failed(Failure::NotWritten),
        };
        if let Some(row) = &self.bench.row {
            let mut ended = self.bench.ending(holder.hold, end);
            let request = Some(Box::new(self.bench.kept_request()));
            let at = self.bench.now;
            ended.later = Some(Later { at, request });
            if let Settle::Put(next, guard) = settle(row, holder.hold, &ended, self.bench.now) {
                self.bench.put(*next, guard);
            }
        }
        self.change(Holder {
            ended: Some(end),
            ..holder
        });
    }

    fn mark(&mut self, at: usize, doubted: bool) {
        let Some(holder) = self
            .one(at)
            .filter(|h| !h.doubted && !h.marked && h.ended.is_none())
        else {
            return;
        };
        if self.bench.row.is_some() && self.bench.mark(holder.hold) {
            self.change(Holder {
                marked: true,
                doubted,
                renewed_ms: self.mono_ms,
                ..holder
            });
        }
    }

    fn renew(&mut self, at: usize) {
        let Some(holder) = self.one(at).filter(|h| !h.doubted && h.ended.is_none()) else {
            return;
        };
        if self.bench.row.is_some() && self.bench.renew(holder.hold) {
            self.change(Holder {
                renewed_ms: self.mono_ms,
                ..holder
            });
        }
    }

    /// A holder that is certain of its hold sends: under `hold` nothing sent before may have
    /// executed.
    fn send(&mut self, at: usize) {
        let ready = |h: &Holder| h.marked && !h.doubted && !h.sent && h.ended.is_none();
        let Some(holder) = self.one(at).filter(ready) else {
            return;
        };
        let since = Duration::from_millis(self.mono_ms - holder.renewed_ms);
        if !may_start(since, LEASE) {
            return;
        }
        let earlier: Vec<_> = self.of(holder.hold.id).collect();
        let shown = |h: &&Holder| h.ended == Some(unsure()) && !h.forgiven;
        // An upstream that showed that it honours the key executes once, however often it is asked;
        // and for a hold that an operator settled before it sent, the operator has answered.
        let answered_for = holder.forgiven || earlier.iter().any(shown);
        if self.bench.way_out == OnUnknown::Hold && !answered_for {
            let again = earlier.iter().any(|h| h.may_have_executed());
            assert!(!again, "a second execution");
        }
        self.change(Holder {
            sent: true,
            ..holder
        });
    }

    /// What was sent ends in `end`; what was not ends unsent. A success may be brought again.
    fn end(&mut self, at: usize, end: AttemptEnd) {
        let Some(holder) = self.one(at).filter(|holder| !holder.doubted) else {
            return;
        };
        let end = match &holder.ended {
            Some(ended) => *ended,
            None if holder.sent => end,
            None => failed(Failure::NotWritten),
        };
        if self.bench.row.is_some() {
            self.bench.end(holder.hold, end);
        }
        self.change(Holder {
            ended: Some(end),
            ..holder
        });
    }

    fn withdraw(&mut self, at: usize) {
        let doubted = self.holders.iter().rev().filter(|holder| holder.doubted);
        let hold = doubted.map(|holder| holder.hold).nth(at);
        if let Some(hold) = hold.filter(|_| self.bench.row.is_some()) {
            self.bench.withdraw(hold);
        }
    }

    fn sweep(&mut self) {
        if let Some(row) = &self.bench.row {
            if let Some(change) = recover(row, self.bench.now, self.unrenewed()) {
                self.recovered(change);
            } else if self.expiry_is_trusted() && row.is_expired(self.bench.now) {
                self.bench.row = None;
            }
        }
    }

    fn recovered(&mut self, change: Change) {
        self.bench.apply(change);
    }

    fn settle_by_hand(&mut self, decide: impl Fn(&mut Bench) -> Result<(), NotSettleable>) {
        if self.bench.row.is_some() && decide(&mut self.bench).is_ok() {
            self.holders.iter_mut().for_each(|h| h.forgiven = true);
        }
    }

    /// The store's clock never goes back.
    fn jump(&mut self, ms: i64) {
        self.wall = WallTime::from_unix_ms(self.wall.unix_ms().saturating_add_signed(ms));
        self.bench.now = self.bench.now.max(self.wall);
    }

    fn of(&self, id: OperationId) -> impl Iterator<Item = &Holder> {
        self.holders.iter().filter(move |h| h.hold.id == id)
    }
}

fn walk(bench: Bench, steps: &[Step]) {
    let mut walk = Walk::new(bench);
    for step in steps {
        walk.take(*step);
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 6_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    // rule: under-hold-nothing-executes-twice
    #[test]
    fn under_hold_nothing_that_may_have_executed_is_forgotten_or_executed_again(steps in steps()) {
        walk(hold(), &steps);
    }

    // rule: under-repeat-nothing-is-forgotten
    #[test]
    fn under_repeat_nothing_that_may_have_executed_is_forgotten(steps in steps()) {
        walk(repeat(), &steps);
    }
}
