//! Several attempts under one hold.

use super::*;

// rule: each-attempt-has-a-fence-of-its-own
#[test]
fn another_attempt_has_a_newer_fence_under_the_same_owner_and_counts() {
    let mut bench = repeat();
    let first = bench.dispatched();
    let second = bench.again(first, failed(Failure::Reset)).expect("held");
    assert_eq!((second.id, second.owner), (first.id, first.owner));
    assert!(second.fence > first.fence);
    let row = bench.row();
    assert_eq!(row.standing.state, State::Dispatched);
    assert_eq!((row.standing.attempts, row.standing.ambiguous), (2, true));
    let last = row.history.last().unwrap();
    assert_eq!(
        (last.event, last.detail.as_str()),
        ("dispatched", "again, after reset")
    );
    // The old fence writes nothing any more.
    assert_eq!(bench.end(first, status(201)), Settle::Lost);
    assert!(matches!(bench.end(second, status(201)), Settle::Put(..)));
    assert_eq!(bench.state(), Some(State::Completed));
}

// rule: another-attempt-only-from-one-s-own-dispatch
#[test]
fn whoever_does_not_hold_the_dispatch_marks_no_other_attempt() {
    let mut lost = repeat();
    let mine = lost.lost();
    assert_eq!(
        lost.again(mine, failed(Failure::Reset)),
        None,
        "its lease is over"
    );
    let mut settled = repeat();
    let mine = settled.ended(status(201));
    assert_eq!(settled.again(mine, failed(Failure::Reset)), None);
    let mut reserved = repeat();
    let mine = reserved.reserved();
    assert_eq!(reserved.again(mine, failed(Failure::Connect)), None);
}

// rule: another-attempt-forgets-nothing
#[test]
fn what_an_attempt_may_have_executed_outlives_later_ones_that_were_never_sent() {
    let mut bench = repeat();
    let first = bench.dispatched();
    let second = bench.again(first, failed(Failure::Reset)).expect("held");
    let third = bench
        .again(second, failed(Failure::NotWritten))
        .expect("held");
    bench.end(third, failed(Failure::RefusedStream));
    assert_eq!(bench.state(), Some(State::Unknown));
    assert!(bench.row().standing.ambiguous);
    // Nor does a withdrawal under the same token forget it.
    let mut doubted = repeat();
    let first = doubted.dispatched();
    let second = doubted.again(first, failed(Failure::Reset)).expect("held");
    assert!(!doubted.withdraw(second));
    assert_eq!(doubted.state(), Some(State::Dispatched));
}

#[test]
fn while_nothing_was_sent_what_stood_before_is_still_put_back() {
    let mut bench = repeat();
    bench.ended(failed(Failure::Reset));
    let before = bench.row().standing.clone();
    let first = bench.dispatched();
    let second = bench
        .again(first, failed(Failure::NotWritten))
        .expect("held");
    bench.end(second, failed(Failure::RefusedStream));
    assert_eq!(bench.row().standing, before);
}

#[test]
fn a_lease_that_ends_in_a_later_attempt_leaves_the_outcome_unknown_under_its_fence() {
    let mut bench = repeat();
    let first = bench.dispatched();
    let second = bench.again(first, status(503)).expect("held");
    assert!(!bench.row().standing.ambiguous, "a promise of none");
    assert!(bench.later(LEASE).sweep());
    assert_eq!(bench.state(), Some(State::Unknown));
    assert_eq!(bench.row().hold(), second);
    assert!(
        matches!(bench.end(second, status(201)), Settle::Put(..)),
        "late"
    );
}
