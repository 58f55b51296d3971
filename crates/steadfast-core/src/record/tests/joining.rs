//! What a waiter is given. It never executes.

use super::*;

fn settled(code: u16) -> impl Fn(&Joining) -> bool {
    move |joining| {
        matches!(joining, Joining::Settled(standing)
            if standing.answer == Answer::Stored(kept(code)))
    }
}

// rule: a-waiter-gets-the-settled-answer
#[test]
fn a_waiter_gets_the_settled_answer_also_of_a_released_or_unknown_attempt() {
    for code in [201, 422, 503, 429, 500] {
        let mut bench = hold();
        let waited = bench.reserved();
        assert_eq!(bench.join(waited), Joining::Wait);
        assert!(bench.mark(waited));
        assert_eq!(bench.join(waited), Joining::Wait);
        bench.end(waited, status(code));
        assert!(settled(code)(&bench.join(waited)), "{code}");
    }
}

// rule: a-waiter-gets-the-answer-that-it-missed
#[test]
fn a_waiter_that_missed_the_end_gets_it_from_under_the_newer_hold() {
    for (mut bench, code) in [(hold(), 503), (repeat(), 500)] {
        let waited = bench.ended(status(code));
        let newer = bench.reserved();
        assert!(settled(code)(&bench.join(waited)), "{code}");
        assert_eq!(
            bench.join(newer),
            Joining::Wait,
            "the newer one's waiters wait"
        );
        assert!(bench.mark(newer));
        assert!(settled(code)(&bench.join(waited)), "{code}");
        // The newer hold's lost lease is not this waiter's to wait for.
        bench.later(LEASE);
        assert!(settled(code)(&bench.join(waited)), "{code}");
    }
}

#[test]
fn a_waiter_that_missed_a_never_sent_end_is_told_so_and_does_not_wait_on() {
    let mut bench = hold();
    let waited = bench.ended(failed(Failure::Connect));
    bench.dispatched();
    assert_eq!(bench.join(waited), Joining::NeverSent);
}

#[test]
fn a_waiter_that_missed_an_end_without_answer_waits_for_the_one_that_took_over() {
    let mut bench = repeat();
    let waited = bench.ended(failed(Failure::Reset));
    let newer = bench.dispatched();
    assert_eq!(bench.join(waited), Joining::Wait);
    bench.end(newer, status(201));
    assert!(settled(201)(&bench.join(waited)));
}

// rule: a-waiter-asks-again-only-on-unknown-without-answer
#[test]
fn a_waiter_asks_again_only_when_the_outcome_is_unknown_without_an_answer() {
    for end in [failed(Failure::Reset), unsure()] {
        let mut bench = hold();
        let waited = bench.ended(end);
        assert_eq!(bench.join(waited), Joining::AskAgain, "{end:?}");
    }
    let mut lost = hold();
    let waited = lost.lost();
    assert_eq!(lost.join(waited), Joining::AskAgain);
    assert_eq!(lost.ask(Start::Dispatched), Err(Admission::Unknown));
    let mut repeated = repeat();
    let waited = repeated.lost();
    assert_eq!(repeated.join(waited), Joining::AskAgain);
    repeated.dispatched();
}

// rule: a-waiter-never-executes
#[test]
fn a_waiter_for_what_was_never_sent_is_told_so_and_does_not_start() {
    let mut first = hold();
    let waited = first.reserved();
    first.end(waited, failed(Failure::Connect));
    assert_eq!(first.join(waited), Joining::NeverSent);
    // The same where an earlier, released answer stands again: it is not this attempt's.
    let mut second = hold();
    let earlier = second.ended(status(503));
    let waited = second.reserved();
    second.end(waited, failed(Failure::Connect));
    assert_eq!(second.join(waited), Joining::NeverSent);
    assert!(settled(503)(&second.join(earlier)));
}

#[test]
fn a_waiter_whose_row_went_or_is_another_operation_s_is_told_that_it_is_gone() {
    let mut bench = hold();
    let waited = bench.reserved();
    assert!(bench.later(LEASE).sweep());
    assert_eq!(bench.join(waited), Joining::Gone);
    bench.dispatched();
    assert_eq!(bench.join(waited), Joining::Gone);
}

#[test]
fn a_waiter_for_a_released_attempt_that_an_operator_took_back_is_told_that_nothing_counts() {
    let mut bench = hold();
    let waited = bench.lost();
    bench.release().unwrap();
    assert_eq!(bench.join(waited), Joining::NeverSent);
}
