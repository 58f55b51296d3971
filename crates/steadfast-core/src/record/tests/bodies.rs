//! Bodies that go before their records.

use super::*;

const BODY: Duration = Duration::from_secs(60);

/// A record that ended so, whose body is kept for a minute.
fn ended(way_out: OnUnknown, end: AttemptEnd) -> Bench {
    let mut bench = Bench {
        body_retention: BODY,
        way_out,
        ..hold()
    };
    bench.ended(end);
    bench
}

// rule: a-body-past-its-retention-counts-as-not-stored
#[test]
fn a_body_past_its_retention_counts_as_not_stored_swept_or_not() {
    for end in [status(201), status(422), status(500)] {
        let mut bench = ended(OnUnknown::Hold, end);
        let moment = Duration::from_millis(1);
        let same = |bench: &Bench| bench.meet(Sameness::Same);
        assert_eq!(bench.row().body_ends_at(), Some(bench.now.plus(BODY)));
        bench.later(BODY - moment);
        assert_eq!(same(&bench), Admission::Replay, "{end:?}");
        assert_eq!(forget_body(bench.row(), bench.now), None);
        bench.later(moment);
        assert_eq!(same(&bench), Admission::NotStored, "{end:?}");
        assert_eq!(bench.meet(Sameness::Different), Admission::Mismatch);

        let before = bench.row().clone();
        let next = forget_body(&before, bench.now).expect("its body goes");
        assert_eq!(next.standing, before.standing.without_body());
        let status = before.standing.answer.status().expect("a status");
        assert_eq!(next.standing.answer, Answer::NotStored(status));
        assert_eq!(
            (next.version, next.updated_at),
            (before.version + 1, bench.now)
        );
        assert_eq!((&next.history, &next.before), (&before.history, &None));
        bench.put(next, before.guard());
        assert_eq!(same(&bench), Admission::NotStored, "{end:?}");
        assert_eq!(forget_body(bench.row(), bench.now), None);
        bench.later(RETENTION);
        assert!(matches!(same(&bench), Admission::TakeOver(..)), "{end:?}");
    }
}

#[test]
fn a_body_stays_while_the_clock_is_not_to_be_trusted() {
    let mut bench = ended(OnUnknown::Hold, status(201));
    bench.later(BODY);
    let (request, fresh) = (bench.request(7), Duration::ZERO);
    let same = Sameness::Same;
    let met = |expiry| {
        let (row, now) = (bench.row(), bench.now);
        admit(row, &request, same, Start::Dispatched, now, fresh, expiry)
    };
    assert_eq!(
        [met(false), met(true)],
        [Admission::Replay, Admission::NotStored]
    );
}

#[test]
fn those_who_waited_are_given_the_body_whatever_its_retention() {
    let mut bench = Bench {
        body_retention: Duration::from_millis(1),
        ..hold()
    };
    let mine = bench.dispatched();
    bench.end(mine, status(201));
    bench.later(BODY);
    let joined = join(Some(bench.row()), mine, bench.now, Duration::ZERO);
    let Joining::Settled(standing) = joined else {
        panic!("it is settled: {joined:?}");
    };
    assert_eq!(standing.answer, Answer::Stored(kept(201)));
}

#[test]
fn without_a_shorter_retention_a_body_goes_with_its_record() {
    for body_retention in [RETENTION, RETENTION * 2] {
        let mut bench = Bench {
            body_retention,
            ..hold()
        };
        bench.ended(status(201));
        assert_eq!(bench.row().body_ends_at(), None);
        bench.later(RETENTION - Duration::from_millis(1));
        assert_eq!(bench.meet(Sameness::Same), Admission::Replay);
        assert_eq!(forget_body(bench.row(), bench.now), None);
    }
}

#[test]
fn an_answer_that_stood_before_loses_its_body_as_well() {
    let mut bench = ended(OnUnknown::Repeat, status(500));
    let mine = bench.dispatched();
    bench.later(BODY);
    assert_eq!(forget_body(bench.row(), bench.now), None, "it is held");
    assert!(bench.later(LEASE).sweep(), "its lease is over");
    let next = forget_body(bench.row(), bench.now).expect("the body before goes");
    let before = next.before.as_deref().expect("it stood before");
    assert!(matches!(before.answer, Answer::NotStored(_)), "{before:?}");
    assert_eq!(next.standing, bench.row().standing);
    assert_eq!(next.hold(), mine);
}

#[test]
fn what_has_no_body_has_none_to_lose() {
    for end in [failed(Failure::Connect), failed(Failure::Reset)] {
        let mut bench = ended(OnUnknown::Hold, end);
        assert_eq!(bench.row().body_ends_at(), None);
        bench.later(BODY);
        assert_eq!(forget_body(bench.row(), bench.now), None);
    }
}
