//! What an end writes, and over what.

use super::*;

// rule: an-end-writes-what-the-table-says
#[test]
fn the_end_of_a_first_attempt_moves_the_record_as_the_table_says() {
    for (end, state, effect, answered) in [
        (status(201), State::Completed, Effect::Applied, true),
        (status(303), State::Completed, Effect::Applied, true),
        (status(302), State::Completed, Effect::Unknown, true),
        (status(422), State::Completed, Effect::None, true),
        (status(429), State::Released, Effect::None, true),
        (status(503), State::Released, Effect::None, true),
        (status(500), State::Unknown, Effect::Unknown, true),
        (unsure(), State::Unknown, Effect::Unknown, false),
        (
            failed(Failure::Connect),
            State::Released,
            Effect::None,
            false,
        ),
        (
            failed(Failure::Reset),
            State::Unknown,
            Effect::Unknown,
            false,
        ),
    ] {
        let mut bench = hold();
        bench.ended(end);
        let standing = &bench.row().standing;
        assert_eq!(
            (standing.state, standing.effect),
            (state, effect),
            "{end:?}"
        );
        assert_eq!(standing.answer != Answer::None, answered, "{end:?}");
        assert_eq!(standing.locked_until, None);
        assert_eq!(standing.reason, end.slug());
    }
}

// rule: retention-counts-from-the-final-moment
#[test]
fn retention_counts_from_the_moment_a_record_became_final() {
    for (end, finals) in [
        (status(201), true),
        (status(503), true),
        (status(500), true),
        (failed(Failure::Reset), false),
        (unsure(), false),
    ] {
        let mut bench = hold();
        let mine = bench.dispatched();
        bench.later(LEASE / 2).end(mine, end);
        let standing = &bench.row().standing;
        assert_eq!(standing.final_at, finals.then_some(bench.now), "{end:?}");
        let expiry = finals.then(|| bench.now.plus(RETENTION));
        assert_eq!(standing.expires_at, expiry, "{end:?}");
    }
    // Settled late: from then on, not from the lease's end.
    let mut bench = hold();
    let mine = bench.lost();
    bench.later(RETENTION).end(mine, status(201));
    assert_eq!(bench.row().standing.final_at, Some(bench.now));
}

// rule: a-late-holder-s-end-is-kept-while-nobody-newer-stands
#[test]
fn a_holder_that_lost_its_lease_settles_while_nobody_newer_stands() {
    for (end, state) in [
        (status(201), State::Completed),
        (status(422), State::Completed),
        (status(503), State::Released),
        (failed(Failure::NotWritten), State::Released),
    ] {
        let mut bench = hold();
        let mine = bench.lost();
        assert!(matches!(bench.end(mine, end), Settle::Put(..)), "{end:?}");
        assert_eq!(bench.state(), Some(state), "{end:?}");
    }
    // Its own lost lease is no earlier attempt that its end would have to settle.
    let mut bench = hold();
    bench.lost();
    assert_eq!(bench.row().earlier(), Earlier::default());
}

#[test]
fn a_late_holder_that_does_not_know_either_only_adds_its_answer() {
    let mut bench = hold();
    let mine = bench.lost();
    assert_eq!(bench.end(mine, failed(Failure::Reset)), Settle::Already);
    assert!(matches!(bench.end(mine, status(500)), Settle::Put(..)));
    assert_eq!(
        bench.row().standing.answer.status(),
        Some(StatusCode::INTERNAL_SERVER_ERROR)
    );
    assert!(bench.row().standing.expires_at.is_some());
    assert_eq!(bench.end(mine, status(502)), Settle::Already);
}

// rule: a-newer-holder-s-row-is-not-overwritten
#[test]
fn a_stale_holder_writes_nothing_over_a_newer_holder_s_row() {
    for end in [
        status(201),
        status(422),
        status(503),
        status(500),
        failed(Failure::Reset),
    ] {
        let mut bench = repeat();
        let stale = bench.lost();
        bench.reserved();
        assert_eq!(bench.end(stale, end), Settle::Lost, "{end:?}");
        let mut bench = repeat();
        let stale = bench.lost();
        let newer = bench.dispatched();
        assert_eq!(bench.end(stale, end), Settle::Lost, "{end:?}");
        bench.end(newer, status(202));
        assert_eq!(bench.end(stale, end), Settle::Lost, "{end:?}");
    }
    // Neither over a release that is not its own, nor over another operation.
    let mut bench = hold();
    let stale = bench.ended(status(503));
    bench.ended(status(503));
    assert_eq!(bench.end(stale, status(201)), Settle::Lost);
    bench.later(RETENTION).dispatched();
    assert_eq!(bench.end(stale, status(201)), Settle::Lost);
}

// rule: a-late-success-completes-what-a-newer-holder-left-unknown
#[test]
fn a_late_success_completes_what_a_newer_holder_left_unknown() {
    for newer_end in [failed(Failure::Reset), status(500), status(503)] {
        let mut bench = repeat();
        let stale = bench.lost();
        let newer = bench.ended(newer_end);
        assert_eq!(bench.state(), Some(State::Unknown), "{newer_end:?}");
        for end in [
            status(422),
            status(503),
            status(500),
            failed(Failure::Reset),
        ] {
            assert_eq!(bench.end(stale, end), Settle::Lost, "{end:?}");
        }
        assert!(matches!(bench.end(stale, status(201)), Settle::Put(..)));
        let row = bench.row();
        assert_eq!(row.standing.state, State::Completed);
        assert_eq!(row.standing.answer, Answer::Stored(kept(201)));
        assert_eq!(row.standing.fence, newer.fence, "a fence only grows");
        // Who wrote it is on record, and the newer holder learns that it was not itself.
        assert_eq!(row.history.last().unwrap().by, stale.owner.to_string());
        assert_eq!(bench.end(stale, status(201)), Settle::Already);
        assert_eq!(bench.end(newer, status(422)), Settle::Lost);
    }
}

// rule: completed-is-never-overwritten
#[test]
fn a_completed_record_is_never_overwritten() {
    let mut bench = hold();
    let mine = bench.ended(status(201));
    let row = bench.row().clone();
    for end in [
        status(200),
        status(503),
        status(500),
        failed(Failure::Connect),
    ] {
        assert_eq!(bench.end(mine, end), Settle::Already, "{end:?}");
        let other = Hold {
            owner: Owner::new(5, 5),
            ..mine
        };
        assert_eq!(bench.end(other, end), Settle::Lost, "{end:?}");
    }
    assert!(!bench.withdraw(mine) && !bench.later(LEASE).sweep());
    assert!(!bench.mark(mine) && !bench.renew(mine));
    assert!(bench.release().is_err() && bench.resolve(200).is_err());
    assert_eq!(bench.row(), &row);
}

// rule: a-looked-up-release-is-completed-by-a-late-success
#[test]
fn a_released_row_that_keeps_owner_and_fence_is_completed_by_a_late_success_alone() {
    let mut bench = hold();
    let mine = bench.lost();
    let mut row = bench.row().clone();
    row.standing.state = State::Released;
    row.standing.effect = Effect::None;
    row.standing.ambiguous = false;
    bench.row = Some(row);
    for end in [
        status(422),
        status(503),
        status(500),
        failed(Failure::Reset),
    ] {
        assert_eq!(bench.end(mine, end), Settle::Already, "{end:?}");
    }
    let mut newer = bench.clone();
    newer.dispatched();
    assert_eq!(newer.end(mine, status(201)), Settle::Lost);
    assert!(matches!(bench.end(mine, status(201)), Settle::Put(..)));
    assert_eq!(bench.state(), Some(State::Completed));
}

// rule: a-hold-that-came-to-nothing-puts-back
#[test]
fn an_end_with_nothing_sent_puts_back_what_stood_before() {
    for first in [status(503), status(500), failed(Failure::Reset), unsure()] {
        for late in [false, true] {
            let mut bench = repeat();
            bench.ended(first);
            let before = bench.row().standing.clone();
            let mine = if late { bench.lost() } else { bench.reserved() };
            assert!(
                matches!(bench.end(mine, failed(Failure::Connect)), Settle::Put(..)),
                "{first:?}, late: {late}"
            );
            let row = bench.row();
            assert_eq!((&row.standing, &row.before), (&before, &None), "{first:?}");
            let last = row.history.last().unwrap();
            assert_eq!(
                (last.event, last.by.as_str()),
                ("withdrawn", &*mine.owner.to_string())
            );
        }
    }
}

// rule: an-earlier-attempt-s-effect-is-not-forgotten
#[test]
fn after_an_attempt_that_may_have_executed_only_a_success_settles_the_record() {
    for first in [failed(Failure::Reset), status(500)] {
        for (second, state) in [
            (status(201), State::Completed),
            (status(303), State::Completed),
            (status(422), State::Completed),
            (status(409), State::Unknown),
            (status(503), State::Unknown),
            (status(429), State::Unknown),
            (status(302), State::Unknown),
            (status(500), State::Unknown),
            (failed(Failure::Reset), State::Unknown),
        ] {
            let mut bench = repeat();
            bench.ended(first);
            bench.ended(second);
            assert_eq!(bench.state(), Some(state), "{first:?}, {second:?}");
            let standing = &bench.row().standing;
            if state == State::Unknown {
                assert_eq!(standing.effect, Effect::Unknown);
                assert_eq!(standing.answer, Answer::None, "passed on, not stored");
            }
        }
    }
}

#[test]
fn a_lost_lease_counts_as_an_attempt_that_may_have_executed() {
    let mut bench = repeat();
    bench.lost();
    bench.ended(status(503));
    assert_eq!(bench.state(), Some(State::Unknown));
}

#[test]
fn a_released_attempt_leaves_nothing_to_settle() {
    let mut bench = hold();
    bench.ended(status(503));
    bench.ended(status(422));
    assert_eq!(bench.state(), Some(State::Completed));
    assert_eq!(bench.row().standing.effect, Effect::None);
}
