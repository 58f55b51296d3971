//! Random walks over every transition of one record, against what truly happened.
//!
//! The walk knows what the record cannot: which holds sent, and what came of it. Holders are late,
//! stale and doubted; the store's clock jumps ahead; an operator and a sweeper act in between.

use proptest::prelude::*;

use super::*;

mod steps;
mod truth;

use super::ways::{SETTLE, asking};
use steps::{ENDS, Said, Step, steps};
use truth::Holder;

struct Walk {
    bench: Bench,
    holders: Vec<Holder>,
    origin: WallTime,
    wall: WallTime,
    mono_ms: u64,
    /// The version seen last, and since when.
    seen: Option<(Guard, u64)>,
    /// Turns to ask for the outcome, the newest last.
    turns: Vec<u64>,
    /// What the look-ups said, the newest last, with the dates of those that said "not there".
    heard: Vec<Option<WallTime>>,
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
            turns: Vec::new(),
            heard: Vec::new(),
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
            Step::Resolve(code) => self.settle_by_hand(|bench| bench.resolve(code)),
            Step::Ask => {
                self.bench.tokens += 1;
                let turn = self.bench.tokens;
                if self.bench.row.is_some() && self.bench.takes_turn(turn) {
                    self.turns.push(turn);
                }
            }
            Step::Hear(at, said) => self.hear(at, said),
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
        let request = self.bench.request(self.bench.tokens);
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
        let hold = self.bench.row().hold();
        self.bench
            .earlier
            .insert(hold.fence, self.bench.row().earlier());
        self.holders.push(Holder {
            hold,
            doubted,
            marked: start == Start::Dispatched,
            sent: false,
            ended: None,
            renewed_ms: self.mono_ms,
            forgiven: false,
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
        if self.bench.way_out != OnUnknown::Repeat && !answered_for {
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

    /// A look-up ends, the newest but so many. A service that knows of an effect finds it, or does
    /// not know yet; one that knows of none does not find it.
    fn hear(&mut self, at: usize, said: Said) {
        let newest_first = self.turns.len().checked_sub(at + 1);
        let Some(turn) = newest_first.map(|at| self.turns[at]) else {
            return;
        };
        let Some(before) = self.bench.row.clone() else {
            return;
        };
        let seen = match said {
            Said::Found if self.of(before.id).any(Holder::may_have_executed) => {
                Seen::Found(kept(200))
            }
            Said::Found | Said::Absent => Seen::Absent,
            Said::Unclear => Seen::Unclear,
        };
        let absent = seen == Seen::Absent;
        if !self.bench.saw(turn, seen) {
            return;
        }
        self.heard.push(absent.then_some(self.bench.now));
        if self.bench.state() == Some(State::Released) {
            let since = before.standing.pending.unknown_at.expect("it was unknown");
            let last = &self.heard[self.heard.len().saturating_sub(2)..];
            let counts = |at: &Option<WallTime>| at.is_some_and(|at| at >= since.plus(SETTLE));
            assert!(
                last.len() == 2 && last.iter().all(counts),
                "released early: {last:?}"
            );
            self.holders.iter_mut().for_each(|h| h.forgiven = true);
        }
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

    // rule: under-lookup-nothing-is-forgotten-or-executed-twice
    #[test]
    fn under_lookup_nothing_is_forgotten_or_executed_again_but_what_was_twice_not_there(
        steps in steps()
    ) {
        walk(asking(), &steps);
    }
}
