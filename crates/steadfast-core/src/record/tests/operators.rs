//! What a person may decide.

use super::*;

// rule: an-operator-settles-only-unknown-and-deferred
#[test]
fn an_operator_settles_unknown_and_deferred_records_and_no_others() {
    for (name, bench) in in_every_state() {
        let state = bench.state().unwrap();
        let settleable = matches!(state, State::Unknown | State::Deferred);
        let refused = Err(NotSettleable(state));
        let expected = if settleable { Ok(()) } else { refused };
        assert_eq!(bench.clone().release(), expected, "{name}");
        assert_eq!(bench.clone().resolve(201), expected, "{name}");
    }
}

// rule: an-operator-s-word-is-never-overwritten-by-a-holder
#[test]
fn a_late_holder_writes_nothing_over_what_an_operator_settled() {
    for end in [
        status(201),
        status(422),
        status(503),
        status(500),
        failed(Failure::NotWritten),
    ] {
        let mut released = hold();
        let mine = released.lost();
        released.release().unwrap();
        assert_eq!(released.end(mine, end), Settle::Lost, "{end:?}");
        assert!(!released.withdraw(mine));
        let mut resolved = hold();
        let mine = resolved.lost();
        resolved.resolve(200).unwrap();
        assert_eq!(resolved.end(mine, end), Settle::Lost, "{end:?}");
        assert!(!resolved.withdraw(mine));
    }
}

// rule: an-operator-s-release-counts-attempts-as-none
#[test]
fn after_an_operator_s_release_a_later_4xx_is_final_and_a_later_503_releases_again() {
    for first in [failed(Failure::Reset), status(500), unsure()] {
        for (second, state) in [
            (status(422), State::Completed),
            (status(503), State::Released),
            (failed(Failure::Reset), State::Unknown),
        ] {
            let mut bench = hold();
            bench.ended(first);
            bench.release().unwrap();
            assert_eq!(bench.row().standing.answer, Answer::None);
            assert_eq!(bench.row().standing.effect, Effect::None);
            assert_eq!(bench.meet(Sameness::Different), Admission::Mismatch);
            bench.ended(second);
            assert_eq!(bench.state(), Some(state), "{first:?}, {second:?}");
        }
    }
    // That the upstream honours the key was said of the attempts that count as none.
    let mut bench = hold();
    bench.ended(unsure());
    bench.release().unwrap();
    bench.ended(failed(Failure::Reset));
    assert_eq!(bench.meet(Sameness::Same), Admission::Unknown);
}

// rule: an-operator-s-answer-is-everybody-s
#[test]
fn an_operator_s_answer_is_what_every_duplicate_is_given() {
    for (code, effect) in [
        (201, Effect::Applied),
        (204, Effect::Applied),
        (303, Effect::Applied),
        (404, Effect::None),
        (422, Effect::None),
    ] {
        let mut bench = hold();
        let waited = bench.ended(status(500));
        bench.later(LEASE).resolve(code).unwrap();
        let row = bench.row();
        assert_eq!(row.standing.answer, Answer::Stored(kept(code)));
        assert_eq!(row.standing.effect, effect, "{code}");
        assert_eq!(row.standing.final_at, Some(bench.now));
        assert_eq!(row.standing.expires_at, Some(bench.now.plus(RETENTION)));
        let last = row.history.last().unwrap();
        assert_eq!((last.event, last.by.as_str()), ("resolved", "ann"));
        assert_eq!(bench.meet(Sameness::Same), Admission::Replay);
        assert_eq!(
            bench.join(waited),
            Joining::Settled(Box::new(row.standing.clone()))
        );
    }
}

#[test]
fn an_operator_s_decision_is_under_a_new_owner_and_the_version_seen() {
    let mut bench = hold();
    let mine = bench.lost();
    let seen = bench.row().guard();
    bench.end(mine, status(500));
    assert_ne!(
        seen,
        bench.row().guard(),
        "what was seen has changed: refused"
    );
    bench.release().unwrap();
    assert_ne!(bench.row().standing.owner, mine.owner);
    assert_eq!(bench.row().standing.fence, mine.fence);
}
