//! The queue: nobody holds what waits, one takes it at a time, and what may have been executed is
//! never taken for undone (U3).

use super::*;

fn queued(mut bench: Bench) -> Bench {
    bench.queue().expect("it goes into the queue");
    bench
}

// rule: deferred-is-held-by-nobody
#[test]
fn what_is_deferred_is_held_by_nobody_is_due_at_once_and_a_duplicate_meets_it() {
    let bench = queued(hold());
    let row = bench.row();
    assert_eq!(bench.state(), Some(State::Deferred));
    assert!(!row.is_held() && row.standing.locked_until.is_none());
    assert_eq!(row.due_at(), Some(bench.now));
    assert_eq!(row.standing.effect, Effect::None);
    assert_eq!(row.standing.expires_at, None, "it never expires");
    assert_eq!(bench.meet(Sameness::Same), Admission::Deferred);
    assert_eq!(bench.meet(Sameness::Different), Admission::Mismatch);
}

// rule: a-run-is-a-hold-of-its-own
#[test]
fn a_run_is_reserved_first_keeps_the_request_and_is_taken_by_one_alone() {
    let mut bench = queued(hold());
    let fence = bench.row().standing.fence;
    let mine = bench.run().expect("it is taken");
    assert_eq!(bench.state(), Some(State::Reserved), "nothing is sent yet");
    assert!(mine.fence > fence);
    assert!(bench.run().is_none(), "not twice at once");
    assert!(bench.mark(mine));
    assert_eq!(bench.state(), Some(State::Dispatched));
    assert!(bench.row().request().is_some());
    bench.end(mine, status(201));
    assert_eq!(bench.state(), Some(State::Completed));
    assert!(bench.row().request().is_none(), "kept until its end only");
    assert!(bench.run().is_none());
}

// rule: a-lost-reservation-puts-the-deferred-back
#[test]
fn a_run_that_lost_its_lease_before_it_sent_leaves_what_was_deferred_as_it_was() {
    let mut bench = queued(hold());
    let before = bench.row().standing.clone();
    bench.run().expect("it is taken");
    assert!(bench.later(LEASE).sweep());
    assert_eq!(bench.row().standing, before);
    let mine = bench.run().expect("it is taken again");
    assert!(bench.withdraw(mine));
    assert_eq!(bench.row().standing, before);
}

// rule: a-run-that-ends-released-stays-deferred
#[test]
fn a_run_that_ends_released_or_unsent_stays_deferred_until_its_next_date() {
    let ends = [
        status(503),
        status(401),
        status(403),
        status(407),
        status(429),
        failed(Failure::Connect),
        failed(Failure::NotWritten),
    ];
    for end in ends {
        let mut bench = queued(hold());
        let mine = bench.run().expect("it is taken");
        assert!(bench.mark(mine));
        bench.end(mine, end);
        let row = bench.row();
        assert_eq!(bench.state(), Some(State::Deferred), "{end:?}");
        assert_eq!(row.standing.effect, Effect::None, "{end:?}");
        assert_eq!(row.standing.pending.steps, 1, "{end:?}");
        let next = bench.now.plus(Duration::from_secs(1));
        assert_eq!(row.due_at(), Some(next), "{end:?}");
        assert!(row.request().is_some(), "{end:?}");
    }
}

// rule: a-run-that-may-have-executed-follows-the-way-out
#[test]
fn a_run_that_was_cut_is_unknown_and_runs_again_only_under_repeat() {
    for (bench, again) in [(hold(), false), (repeat(), true)] {
        let mut bench = queued(bench);
        let mine = bench.run().expect("it is taken");
        assert!(bench.mark(mine));
        bench.end(mine, failed(Failure::Reset));
        assert_eq!(bench.state(), Some(State::Unknown));
        assert_eq!(bench.row().due_at().is_some(), again);
        assert_eq!(bench.run().is_some(), again);
        assert!(!again || bench.row().earlier().ambiguous);
    }
}

// rule: a-crashed-run-follows-the-way-out
#[test]
fn a_run_whose_process_died_after_the_mark_is_unknown_and_due_under_repeat() {
    for (bench, again) in [(hold(), false), (repeat(), true)] {
        let mut bench = queued(bench);
        let mine = bench.run().expect("it is taken");
        assert!(bench.mark(mine));
        assert!(bench.later(LEASE).sweep());
        assert_eq!(bench.state(), Some(State::Unknown));
        assert_eq!(bench.row().due_at().is_some(), again);
        // A late holder still brings its success.
        bench.end(mine, status(201));
        assert_eq!(bench.state(), Some(State::Completed));
    }
}

// rule: given-up-by-what-it-may-have-done
#[test]
fn what_is_given_up_is_completed_where_it_was_never_sent_and_unknown_otherwise() {
    let mut never = queued(hold());
    assert!(never.give_up());
    let standing = &never.row().standing;
    assert_eq!(
        (standing.state, standing.effect),
        (State::Completed, Effect::None)
    );
    assert_eq!(standing.answer, Answer::Stored(kept(504)));
    assert_eq!(never.meet(Sameness::Same), Admission::Replay);
    let mut cut = queued(repeat());
    let mine = cut.run().expect("it is taken");
    assert!(!cut.give_up(), "not while somebody is at work");
    assert!(cut.mark(mine));
    cut.end(mine, failed(Failure::Reset));
    let again = cut.run().expect("it is taken again");
    cut.end(again, failed(Failure::Connect));
    assert!(cut.give_up());
    let standing = &cut.row().standing;
    assert_eq!(
        (standing.state, standing.effect),
        (State::Unknown, Effect::Unknown)
    );
    assert!(cut.run().is_none(), "it is not sent any more");
}

// rule: dropped-only-before-it-was-sent
#[test]
fn only_what_was_never_sent_is_dropped() {
    let mut waiting = queued(hold());
    assert_eq!(waiting.discard(), Ok(()));
    let standing = &waiting.row().standing;
    assert_eq!(standing.answer, Answer::Stored(kept(410)));
    assert_eq!(
        waiting.discard(),
        Err(NotDroppable::NotDeferred(State::Completed))
    );
    let mut running = queued(repeat());
    let mine = running.run().expect("it is taken");
    let sent = |state| Err(NotDroppable::Sent(state));
    assert_eq!(running.discard(), sent(State::Reserved));
    assert!(running.mark(mine));
    assert_eq!(running.discard(), sent(State::Dispatched));
    running.end(mine, failed(Failure::Reset));
    assert_eq!(running.discard(), sent(State::Unknown));
}

// rule: on-the-way-into-the-queue
#[test]
fn an_operation_whose_caller_waits_goes_on_in_the_queue_where_it_was_not_executed() {
    for (end, goes) in [
        (status(503), true),
        (failed(Failure::Connect), true),
        (status(201), false),
        (status(500), false),
        (failed(Failure::Reset), false),
    ] {
        let mut bench = hold();
        let mine = bench.dispatched();
        let mut ended = bench.ending(mine, end);
        let at = bench.now.plus(Duration::from_secs(60));
        let request = Some(Box::new(bench.kept_request()));
        ended.later = Some(Later { at, request });
        let Settle::Put(next, guard) = settle(bench.row(), mine, &ended, bench.now) else {
            panic!("an end is written");
        };
        bench.put(*next, guard);
        let deferred = bench.state() == Some(State::Deferred);
        assert_eq!(deferred, goes, "{end:?}");
        assert_eq!(bench.row().request().is_some(), goes, "{end:?}");
        assert_eq!(bench.row().due_at().is_some(), goes, "{end:?}");
    }
}

// rule: the-queue-s-next-step
#[test]
fn the_queue_waits_for_the_date_runs_then_and_gives_up_when_the_time_is_over() {
    let ways = Ways {
        on_unknown: OnUnknown::Hold,
        can_look: false,
        compensates_after: None,
        can_run: true,
    };
    let mut bench = queued(hold());
    assert_eq!(step(bench.row(), ways, bench.now), Step::Run);
    let mine = bench.run().expect("it is taken");
    assert_eq!(step(bench.row(), ways, bench.now), Step::Nothing);
    bench.end(mine, failed(Failure::Connect));
    let due = bench.row().due_at().expect("a date");
    assert_eq!(step(bench.row(), ways, bench.now), Step::Wait(due));
    assert_eq!(step(bench.row(), ways, due), Step::Run);
    let over = bench.now.plus(Duration::from_secs(3600));
    assert_eq!(step(bench.row(), ways, over), Step::GiveUp);
    assert!(run(bench.row(), Owner::new(1, 1), OnUnknown::Hold, over).is_none());
}
