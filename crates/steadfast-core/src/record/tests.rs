//! The rules of docs/keyed-requests.md that the record decides: one marked test a rule, then random
//! walks.

use std::collections::BTreeMap;

use http::Method;

use super::*;
use crate::attempt::{Answered, AttemptEnd, Failure};
use crate::effect::verdict;
use crate::fingerprint::{FingerprintOptions, FingerprintSecret, RequestView};
use crate::policy::Statuses;

mod admission;
mod another;
mod bodies;
mod bookkeeping;
mod joining;
mod leases;
mod operators;
mod settling;
mod walks;
mod withdrawal;

const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// One key's row and what the core is told about it: the date, the fences, and who asks. Every
/// change goes through its guard, and raises the version by one.
#[derive(Clone, Debug)]
struct Bench {
    row: Option<Record>,
    now: WallTime,
    fence: u64,
    tokens: u64,
    way_out: OnUnknown,
    body_retention: Duration,
    earlier: BTreeMap<u64, Earlier>,
}

/// A bench whose route holds an unknown outcome.
fn hold() -> Bench {
    Bench {
        row: None,
        now: WallTime::from_unix_ms(1_000_000),
        fence: 100,
        tokens: 0,
        way_out: OnUnknown::Hold,
        body_retention: RETENTION,
        earlier: BTreeMap::new(),
    }
}

/// A bench whose route repeats it.
fn repeat() -> Bench {
    Bench {
        way_out: OnUnknown::Repeat,
        ..hold()
    }
}

/// A whole answer to a request that was written in full.
fn status(code: u16) -> AttemptEnd {
    AttemptEnd::Answered(Answered {
        status: StatusCode::from_u16(code).unwrap(),
        request_written: true,
        through_intermediary: false,
        says_unknown: false,
    })
}

/// The answer of an upstream that honours the key and does not know.
fn unsure() -> AttemptEnd {
    AttemptEnd::Answered(Answered {
        status: StatusCode::CONFLICT,
        request_written: true,
        through_intermediary: false,
        says_unknown: true,
    })
}

fn failed(failure: Failure) -> AttemptEnd {
    AttemptEnd::Failed(failure)
}

/// The answer that is kept of `status(code)`.
fn kept(code: u16) -> StoredAnswer {
    StoredAnswer {
        status: StatusCode::from_u16(code).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::from(code.to_string()),
    }
}

fn fingerprint() -> Fingerprint {
    let view = RequestView {
        method: &Method::POST,
        path_and_query: b"/orders",
        headers: &HeaderMap::new(),
        body: b"{}",
    };
    let secret = FingerprintSecret::new(1, &[7; 32]);
    Fingerprint::of(&view, &FingerprintOptions::default(), &secret)
}

impl Bench {
    fn row(&self) -> &Record {
        self.row.as_ref().expect("a row stands")
    }

    fn state(&self) -> Option<State> {
        self.row.as_ref().map(|row| row.standing.state)
    }

    fn later(&mut self, length: Duration) -> &mut Bench {
        self.now = self.now.plus(length);
        self
    }

    fn request(&self, token: u64) -> Request {
        Request {
            scope: ScopeHash::from_bytes([1; 32]),
            id: OperationId::from_bits(u128::from(token)),
            tenant: Tenant::anonymous(),
            principal_rule: "authorization".to_owned(),
            operation: Operation::new(&Method::POST, "/orders"),
            key: Key::from_stored("k-5b1e9a70c4d2").unwrap(),
            fingerprint: fingerprint(),
            on_unknown: self.way_out,
            lease: LEASE,
            retention: RETENTION,
            body_retention: self.body_retention,
            owner: Owner::new(9, u128::from(token)),
        }
    }

    /// What a request of the given sameness meets, nothing being written.
    fn meet(&self, same: Sameness) -> Admission {
        let request = self.request(self.tokens + 1);
        let (start, fresh) = (Start::Dispatched, Duration::ZERO);
        admit(self.row(), &request, same, start, self.now, fresh, true)
    }

    /// The same request asks to start; its hold, or what it met.
    fn ask(&mut self, start: Start) -> Result<Hold, Admission> {
        self.tokens += 1;
        let request = self.request(self.tokens);
        loop {
            let Some(row) = self.row.clone() else {
                self.row = Some(self.drawn(reserve(&request, start, self.now)));
                break;
            };
            let (same, fresh) = (Sameness::Same, Duration::ZERO);
            match admit(&row, &request, same, start, self.now, fresh, true) {
                Admission::TakeOver(next, guard) => {
                    let next = self.drawn(*next);
                    self.put(next, guard);
                    break;
                }
                Admission::Recover(change) => self.apply(change),
                met => return Err(met),
            }
        }
        let hold = self.row().hold();
        self.earlier.insert(hold.fence, self.row().earlier());
        Ok(hold)
    }

    fn drawn(&mut self, mut row: Record) -> Record {
        self.fence += 1;
        row.standing.fence = self.fence;
        row
    }

    fn reserved(&mut self) -> Hold {
        self.ask(Start::Reserved).expect("it may start")
    }

    fn dispatched(&mut self) -> Hold {
        self.ask(Start::Dispatched).expect("it may start")
    }

    /// Dispatched and settled at once.
    fn ended(&mut self, end: AttemptEnd) -> Hold {
        let mine = self.dispatched();
        self.end(mine, end);
        mine
    }

    /// Dispatched, and its lease lost.
    fn lost(&mut self) -> Hold {
        let mine = self.dispatched();
        assert!(self.later(LEASE).sweep());
        mine
    }

    fn mark(&mut self, mine: Hold) -> bool {
        let Some(next) = dispatch(self.row(), mine, self.now) else {
            return false;
        };
        self.put(next, self.row().guard());
        true
    }

    fn renew(&mut self, mine: Hold) -> bool {
        let row = self.row();
        if !row.is_held_by(mine) {
            return false;
        }
        self.put(renew(row, self.now), row.guard());
        true
    }

    fn ending(&self, mine: Hold, end: AttemptEnd) -> Ended {
        let answer = match &end {
            AttemptEnd::Answered(answered) => Answer::Stored(kept(answered.status.as_u16())),
            AttemptEnd::Failed(_) => Answer::None,
        };
        Ended {
            verdict: verdict(&end, &Statuses::default(), self.earlier[&mine.fence]),
            answer,
            reason: end.slug(),
            nothing_sent: end.never_sent(),
        }
    }

    /// Another attempt under the same hold, after one that ended so.
    fn again(&mut self, mine: Hold, end: AttemptEnd) -> Option<Hold> {
        let ended = self.ending(mine, end);
        let next = again(self.row(), mine, &ended, self.now)?;
        let (next, guard) = (self.drawn(next), self.row().guard());
        self.put(next, guard);
        let hold = self.row().hold();
        self.earlier.insert(hold.fence, self.row().earlier());
        Some(hold)
    }

    fn end(&mut self, mine: Hold, end: AttemptEnd) -> Settle {
        let ended = self.ending(mine, end);
        let settled = settle(self.row(), mine, &ended, self.now);
        if let Settle::Put(next, guard) = settled.clone() {
            self.put(*next, guard);
        }
        settled
    }

    /// A lost lease is written down, if one is.
    fn sweep(&mut self) -> bool {
        let change = recover(self.row(), self.now, Duration::ZERO);
        change.is_some_and(|change| {
            self.apply(change);
            true
        })
    }

    fn withdraw(&mut self, mine: Hold) -> bool {
        let change = withdraw(self.row(), mine.owner, self.now);
        change.is_some_and(|change| {
            self.apply(change);
            true
        })
    }

    fn operator(&mut self) -> Owner {
        self.tokens += 1;
        Owner::new(3, u128::from(self.tokens))
    }

    fn release(&mut self) -> Result<(), NotSettleable> {
        let token = self.operator();
        let next = release(self.row(), token, "ann", self.now)?;
        self.put(next, self.row().guard());
        Ok(())
    }

    fn resolve(&mut self, code: u16) -> Result<(), NotSettleable> {
        let token = self.operator();
        let next = resolve(self.row(), kept(code), token, "ann", self.now)?;
        self.put(next, self.row().guard());
        Ok(())
    }

    fn join(&self, waited: Hold) -> Joining {
        join(self.row.as_ref(), waited, self.now, Duration::ZERO)
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put(next, guard) => self.put(*next, guard),
            Change::Remove(guard) => {
                assert_eq!(guard, self.row().guard());
                self.row = None;
            }
        }
    }

    fn put(&mut self, next: Record, guard: Guard) {
        assert_eq!(guard, self.row().guard());
        assert_eq!(next.version, self.row().version + 1);
        assert_eq!(next.updated_at, self.now);
        self.row = Some(next);
    }
}

/// A bench in each state, by its name; the deferred one as its queue will leave it.
fn in_every_state() -> Vec<(&'static str, Bench)> {
    let mut all = Vec::new();
    let mut add = |name, make: &dyn Fn(&mut Bench)| {
        let mut bench = hold();
        make(&mut bench);
        all.push((name, bench));
    };
    add("reserved", &|b| {
        b.reserved();
    });
    add("dispatched", &|b| {
        b.dispatched();
    });
    add("completed", &|b| {
        b.ended(status(201));
    });
    add("released", &|b| {
        b.ended(status(503));
    });
    add("unknown", &|b| {
        b.ended(failed(Failure::Reset));
    });
    add("unknown with answer", &|b| {
        b.ended(status(500));
    });
    add("deferred", &|b| b.row = Some(deferred(b)));
    all
}

fn deferred(bench: &mut Bench) -> Record {
    let mine = bench.reserved();
    let mut row = bench.row().clone();
    row.standing.state = State::Deferred;
    row.standing.locked_until = None;
    row.standing.owner = mine.owner;
    row
}
