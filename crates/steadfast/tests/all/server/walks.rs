//! Random walks: many requests of one operation, two processes, a store and an effect that fail at
//! random, callers that leave at random. What must hold, holds on every walk; a seed repeats one.

use std::collections::HashMap;

use steadfast::core::attempt::Failure;
use steadfast::server::sweep;

use super::faults::{Act, Fault, unavailable};
use super::script::Turn;
use super::*;

/// Numbers that look random and are the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn ms(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }
}

/// What the effect of a turn is to whoever knows all.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Truth {
    /// Nothing, and its end says so.
    Nothing,
    /// It may have executed, or has.
    Something,
    /// It has executed, and its end says so.
    Applied,
}

fn turn(dice: &mut Dice) -> (Turn, Truth) {
    match dice.below(10) {
        0..=2 => (Turn::Answer(201), Truth::Applied),
        3 => (Turn::Answer(429), Truth::Nothing),
        4 => (Turn::Answer(500), Truth::Something),
        5 => (Turn::Fails(Failure::Reset), Truth::Something),
        6 => (Turn::Fails(Failure::NotWritten), Truth::Nothing),
        7 => (Turn::Never, Truth::Something),
        8 => (Turn::Panics, Truth::Something),
        _ => (Turn::Answer(503), Truth::Nothing),
    }
}

fn fault(dice: &mut Dice) -> (Act, Fault) {
    let act = match dice.below(8) {
        0 => Act::Insert,
        1 => Act::TakeOver,
        2 => Act::Mark,
        3 => Act::Renew,
        4 | 5 => Act::Settle,
        6 => Act::Get,
        _ => Act::Now,
    };
    let fault = match dice.below(5) {
        0 => Fault::Fails(unavailable()),
        1 => Fault::LosesReply,
        2 => Fault::Hangs,
        3 => Fault::HangsDone,
        _ => Fault::LandsLater,
    };
    (act, fault)
}

struct Walk {
    here: World,
    there: World,
    truths: Vec<Truth>,
    asks: Vec<(usize, JoinHandle<Seen>)>,
}

const NUMBERS: [&str; 16] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
];

async fn walk(seed: u64, repeats: bool) -> Walk {
    let dice = &mut Dice(seed);
    let mut here = World::new().await;
    if seed % 2 == 1 {
        // One request may be sent more than once by itself, and no deadline hides an answer that
        // came.
        here.script.repeating();
        here.policy.deadline = 300 * SECOND;
    }
    here.policy.idempotency.lease = 10 * SECOND;
    if repeats {
        here.policy.idempotency.on_unknown = OnUnknown::Repeat;
    }
    let mut truths = Vec::new();
    for _ in 0..40 {
        let (turn, truth) = turn(dice);
        here.script.after(dice.ms(15_000), turn);
        truths.push(truth);
    }
    let there = here.neighbour().await;
    let mut asks = Vec::new();
    for (number, name) in NUMBERS.into_iter().enumerate() {
        for _ in 0..dice.below(3) {
            let (act, fault) = fault(dice);
            here.store.fault(act, fault);
        }
        if dice.below(4) == 0 {
            here.script.toggle();
        }
        here.store.down(dice.below(8) == 0);
        let world = if dice.below(2) == 0 { &here } else { &there };
        let ask = charge(50).with("x-number", name);
        let ask = world.spawn(ask.within(dice.ms(20_000)));
        pass(dice.ms(6_000)).await;
        if dice.below(6) == 0 {
            ask.abort();
        } else {
            asks.push((number, ask));
        }
        // At the latest after three pauses, which is within the two leases of a token.
        if number % 3 == 2 || dice.below(3) == 0 {
            here.store.land_some().await;
        }
        if dice.below(3) == 0 {
            let _ = clock::within(2 * SECOND, sweep(&there.server)).await;
        }
    }
    Walk {
        here,
        there,
        truths,
        asks,
    }
}

impl Walk {
    /// Lets everything come to rest: the store is back, and nothing more is asked.
    async fn rest(&mut self) -> Vec<(usize, Seen)> {
        self.here.store.heal();
        self.here.store.land_some().await;
        let mut seen = Vec::new();
        for (number, ask) in self.asks.drain(..) {
            seen.push((number, end(ask).await));
        }
        // What lands after its token is forgotten is left unknown, which is safe, and not walked
        // here.
        self.here.store.land_some().await;
        for _ in 0..6 {
            pass(60 * SECOND).await;
            sweep(&self.here.server).await.unwrap();
        }
        assert_eq!(self.here.server.drain(SECOND).await, 0, "no task is left");
        assert_eq!(self.there.server.drain(SECOND).await, 0, "no task is left");
        for row in self.here.rows().await {
            assert!(!row.is_held(), "no hold is left: {row:?}");
        }
        seen
    }

    /// What each request's own sendings truly did.
    fn own(&self) -> HashMap<usize, Vec<Truth>> {
        let mut own: HashMap<usize, Vec<Truth>> = HashMap::new();
        for (at, reached) in self.here.script.ledger().iter().enumerate() {
            let number = reached.headers["x-number"].to_str().unwrap();
            let number = number.parse().unwrap();
            own.entry(number).or_default().push(self.truths[at]);
        }
        own
    }
}

fn holds_on_every_walk(walk: &Walk, seen: &[(usize, Seen)]) {
    let ledger = walk.here.script.ledger();
    let fences: Vec<u64> = ledger.iter().filter_map(|r| r.fence).collect();
    assert_eq!(fences.len(), ledger.len(), "every attempt has a fence");
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    let own = walk.own();
    for (number, answer) in seen {
        let did = own.get(number).map_or(&[][..], Vec::as_slice);
        let replayed = answer.header("idempotent-replayed");
        let says_none = answer.header("steadfast-effect") == Some("none");
        if says_none && replayed != Some("true") {
            assert!(
                did.iter().all(|truth| *truth == Truth::Nothing),
                "{number} was told none and did {did:?}: {answer:?}"
            );
        }
        if answer.status == 201 {
            let body = String::from_utf8_lossy(answer.bytes());
            let effect: usize = body
                .trim_matches(|c: char| !c.is_ascii_digit())
                .parse()
                .unwrap();
            assert_eq!(walk.truths[effect - 1], Truth::Applied, "{answer:?}");
        }
        if replayed == Some("false") {
            assert!(!did.is_empty(), "{number} executed: {answer:?}");
        }
    }
}

// rule: nothing-executes-twice-under-hold-whatever-fails
#[tokio::test(start_paused = true)]
async fn under_hold_nothing_follows_what_may_have_executed_whatever_fails() {
    for seed in 0..400 {
        let mut walk = walk(seed, false).await;
        let seen = walk.rest().await;
        holds_on_every_walk(&walk, &seen);
        let sent = walk.here.script.effects();
        let truths = &walk.truths[..sent];
        let (last, before) = truths.split_last().unwrap_or((&Truth::Nothing, &[]));
        assert!(
            before.iter().all(|truth| *truth == Truth::Nothing),
            "seed {seed}: {truths:?}"
        );
        let rows = walk.here.rows().await;
        let state = rows.first().map(|row| row.standing.state);
        let told: Vec<State> = match last {
            Truth::Nothing => vec![State::Released],
            Truth::Something => vec![State::Unknown],
            Truth::Applied => vec![State::Completed],
        };
        let nothing_sent = sent == 0 && state.is_none();
        assert!(
            nothing_sent || state.is_some_and(|state| told.contains(&state)),
            "seed {seed}: {truths:?} and {rows:?}"
        );
    }
}

// rule: a-success-under-repeat-is-the-end-whatever-fails
#[tokio::test(start_paused = true)]
async fn under_repeat_nothing_follows_a_success_that_was_recorded_whatever_fails() {
    for seed in 1000..1400 {
        let mut walk = walk(seed, true).await;
        let seen = walk.rest().await;
        holds_on_every_walk(&walk, &seen);
        let sent = walk.here.script.effects();
        let truths = &walk.truths[..sent];
        let rows = walk.here.rows().await;
        let state = rows.first().map(|row| row.standing.state);
        if truths.contains(&Truth::Applied) {
            assert_eq!(state, Some(State::Completed), "seed {seed}: {truths:?}");
        } else if truths.contains(&Truth::Something) {
            assert_eq!(state, Some(State::Unknown), "seed {seed}: {truths:?}");
        } else {
            // A lease that ended before its attempt did may leave behind that nobody knows.
            let lost = |row: &Record| row.history.iter().any(|e| e.event == "lease-over");
            assert!(
                matches!(state, None | Some(State::Released)) || rows.iter().any(lost),
                "seed {seed}: {truths:?} and {rows:?}"
            );
        }
    }
}
