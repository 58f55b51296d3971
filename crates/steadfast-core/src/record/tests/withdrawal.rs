//! Taking back a write whose store reply did not arrive.

use super::*;

/// Each row that a doubted write can stand over, made on a route that repeats.
fn befores() -> [(&'static str, Option<AttemptEnd>); 5] {
    [
        ("no row", None),
        ("released", Some(status(503))),
        ("unknown", Some(failed(Failure::Reset))),
        ("unknown with answer", Some(status(500))),
        (
            "unknown at an upstream that honours the key",
            Some(unsure()),
        ),
    ]
}

/// Puts the doubted hold over `before`; then what stood before must stand again.
fn is_put_back(name: &str, before: Option<AttemptEnd>, doubt: impl Fn(&mut Bench) -> Hold) {
    let mut bench = repeat();
    if let Some(end) = before {
        bench.ended(end);
    }
    let stood = bench.row.clone().map(|row| row.standing);
    let doubted = doubt(&mut bench);
    assert!(bench.withdraw(doubted), "{name}");
    assert_eq!(bench.row.clone().map(|row| row.standing), stood, "{name}");
    if let Some(row) = &bench.row {
        assert_eq!(row.history.last().unwrap().event, "withdrawn");
        assert!(!bench.withdraw(doubted), "{name}: it is back already");
    }
}

// rule: a-doubted-reservation-is-withdrawn
#[test]
fn a_reservation_whose_reply_was_lost_is_withdrawn_whatever_its_lease() {
    for (name, before) in befores() {
        is_put_back(name, before, Bench::reserved);
        is_put_back(name, before, |bench| {
            let doubted = bench.reserved();
            bench.later(LEASE * 9);
            doubted
        });
    }
}

// rule: a-doubted-dispatch-mark-is-withdrawn
#[test]
fn a_dispatch_mark_whose_reply_was_lost_is_withdrawn() {
    for (name, before) in befores() {
        is_put_back(name, before, Bench::dispatched);
        is_put_back(name, before, |bench| {
            let doubted = bench.reserved();
            assert!(bench.mark(doubted));
            doubted
        });
    }
}

// rule: a-doubted-mark-is-withdrawn-also-once-it-was-swept
#[test]
fn a_dispatch_mark_that_the_sweeper_wrote_unknown_is_withdrawn_all_the_same() {
    for (name, before) in befores() {
        is_put_back(name, before, Bench::lost);
    }
}

// rule: a-settled-row-is-never-withdrawn
#[test]
fn nothing_settled_is_withdrawn_and_nothing_under_another_token() {
    for end in [
        status(201),
        status(503),
        status(500),
        failed(Failure::Reset),
        unsure(),
    ] {
        let mut bench = hold();
        let mine = bench.ended(end);
        assert!(!bench.withdraw(mine), "{end:?}");
    }
    let mut late = hold();
    let mine = late.lost();
    late.end(mine, status(500));
    assert!(!late.withdraw(mine), "an answer came, so it was sent");
    let mut newer = repeat();
    let doubted = newer.lost();
    newer.dispatched();
    assert!(!newer.withdraw(doubted), "the row is a newer holder's");
}

// rule: a-withdrawal-never-removes-an-earlier-attempt
#[test]
fn a_withdrawal_never_removes_a_row_that_stood_before_its_token() {
    for first in [status(503), failed(Failure::Reset), status(500)] {
        let mut bench = repeat();
        bench.ended(first);
        let doubted = bench.lost();
        // A newer hold comes to nothing: the doubted row stands again, without what stood before
        // it.
        let newer = bench.reserved();
        bench.end(newer, failed(Failure::Connect));
        assert_eq!(bench.row().standing.owner, doubted.owner);
        bench.withdraw(doubted);
        assert_eq!(bench.state(), Some(State::Unknown), "{first:?}");
        assert_eq!(bench.meet(Sameness::Different), Admission::Mismatch);
    }
    // Where the token's was the first, nothing of worth goes.
    let mut bench = repeat();
    let doubted = bench.lost();
    let newer = bench.reserved();
    bench.end(newer, failed(Failure::Connect));
    assert!(bench.withdraw(doubted));
    assert_eq!(bench.row, None);
}
