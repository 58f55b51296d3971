//! Who may start, who is refused, and when a row counts as absent.

use super::*;

// rule: another-request-is-a-mismatch-at-any-state
#[test]
fn the_same_key_with_another_request_is_a_mismatch_at_any_state() {
    for (name, mut bench) in in_every_state() {
        assert_eq!(
            bench.meet(Sameness::Different),
            Admission::Mismatch,
            "{name}"
        );
        if bench.state() != Some(State::Reserved) {
            bench.later(LEASE);
            let met = bench.meet(Sameness::Different);
            assert_eq!(met, Admission::Mismatch, "{name}, any lease being over");
        }
    }
}

// rule: unreadable-fingerprint-never-executes
#[test]
fn a_row_whose_fingerprint_cannot_be_read_executes_nothing() {
    for (name, bench) in in_every_state() {
        let met = bench.meet(Sameness::Unreadable);
        assert_eq!(met, Admission::Unreadable, "{name}");
    }
}

#[test]
fn the_same_request_meets_what_its_row_s_state_says() {
    for (name, mut bench) in in_every_state() {
        let expected = match name {
            "reserved" | "dispatched" => Admission::InFlight,
            "completed" | "unknown with answer" => Admission::Replay,
            "unknown" => Admission::Unknown,
            "deferred" => Admission::Deferred,
            _ => {
                bench
                    .ask(Start::Dispatched)
                    .expect("a released row is free");
                continue;
            }
        };
        assert_eq!(bench.meet(Sameness::Same), expected, "{name}");
    }
}

#[test]
fn an_answer_that_was_not_kept_is_said_to_be_not_kept() {
    let mut bench = hold();
    bench.ended(status(201));
    let mut row = bench.row().clone();
    for answer in [Answer::None, Answer::NotStored(StatusCode::CREATED)] {
        row.standing.answer = answer;
        bench.row = Some(row.clone());
        assert_eq!(bench.meet(Sameness::Same), Admission::NotStored);
    }
}

// rule: released-only-for-the-same-request
#[test]
fn only_the_same_request_may_reserve_a_released_row_again() {
    let mut bench = hold();
    bench.ended(status(503));
    let before = bench.row().clone();
    assert_eq!(bench.meet(Sameness::Different), Admission::Mismatch);
    bench.dispatched();
    assert_eq!(bench.row().id, before.id);
    assert_eq!(
        bench.row().standing.fingerprint,
        before.standing.fingerprint
    );
    assert!(bench.row().history.starts_with(&before.history));
}

// rule: expired-counts-as-absent
#[test]
fn a_row_past_its_expiry_is_another_operation_s_place_and_its_version_goes_on() {
    for code in [201, 503, 500] {
        for same in [Sameness::Same, Sameness::Different, Sameness::Unreadable] {
            let mut bench = hold();
            bench.ended(status(code));
            bench.later(RETENTION);
            let old = bench.row().clone();
            let Admission::TakeOver(next, guard) = bench.meet(same) else {
                panic!("{code}, {same:?}: an expired row hindered a request");
            };
            assert_eq!((guard, next.version), (old.guard(), old.version + 1));
            assert_ne!(next.id, old.id);
            assert_eq!(next.created_at, bench.now);
            assert_eq!((next.before, next.history.len()), (None, 1));
            assert_eq!(
                (next.standing.attempts, next.standing.ambiguous),
                (1, false)
            );
        }
    }
}

#[test]
fn nothing_counts_as_expired_while_the_store_s_clock_is_not_trusted() {
    let mut bench = hold();
    bench.ended(status(201));
    bench.later(RETENTION);
    let request = bench.request(99);
    let (same, start) = (Sameness::Same, Start::Dispatched);
    let met = admit(
        bench.row(),
        &request,
        same,
        start,
        bench.now,
        Duration::ZERO,
        false,
    );
    assert_eq!(met, Admission::Replay);
}

// rule: open-records-never-expire
#[test]
fn only_what_is_final_expires() {
    for (name, bench) in in_every_state() {
        let late = bench.now.plus(Duration::from_secs(u64::from(u32::MAX)));
        let is_final = matches!(name, "completed" | "released" | "unknown with answer");
        assert_eq!(bench.row().is_expired(late), is_final, "{name}");
    }
}

// rule: stricter-way-out-holds
#[test]
fn of_the_record_s_and_the_route_s_way_out_the_stricter_holds() {
    use OnUnknown::{Hold, Lookup, Repeat};
    for stored in [Hold, Lookup, Repeat] {
        for current in [Hold, Lookup, Repeat] {
            for end in [failed(Failure::Reset), status(500)] {
                let mut bench = Bench {
                    way_out: stored,
                    ..hold()
                };
                bench.ended(end);
                bench.way_out = current;
                let repeats = bench.ask(Start::Dispatched).is_ok();
                let both = stored == Repeat && current == Repeat;
                assert_eq!(repeats, both, "{stored:?}, {current:?}, {end:?}");
            }
        }
    }
    let mut loosened = hold();
    loosened.ended(status(503));
    loosened.way_out = Repeat;
    loosened.dispatched();
    assert_eq!(loosened.row().standing.on_unknown, Hold);
}

// rule: an-upstream-that-honours-the-key-may-be-asked-again
#[test]
fn after_an_answer_that_shows_the_key_is_honoured_a_duplicate_asks_again_whatever_the_way_out() {
    for way_out in [OnUnknown::Hold, OnUnknown::Lookup, OnUnknown::Repeat] {
        let mut bench = Bench { way_out, ..hold() };
        bench.ended(unsure());
        assert_eq!(bench.row().standing.answer, Answer::None);
        bench.dispatched();
        let earlier = bench.row().earlier();
        assert!(earlier.ambiguous && earlier.key_honoured);
    }
}

#[test]
fn that_the_key_is_honoured_stays_known_when_the_next_attempt_ends_unknown_too() {
    let mut bench = hold();
    bench.ended(unsure());
    bench.ended(failed(Failure::ReadTimeout));
    bench.lost();
    bench.ask(Start::Dispatched).expect("it is still honoured");
    // A late holder may be the one to learn it.
    let mut bench = hold();
    let mine = bench.lost();
    assert_eq!(bench.meet(Sameness::Same), Admission::Unknown);
    assert!(matches!(bench.end(mine, unsure()), Settle::Put(..)));
    assert_eq!(bench.end(mine, unsure()), Settle::Already);
    bench.ask(Start::Dispatched).expect("it is honoured");
}

// rule: unknown-with-answer-replays-under-hold-and-repeats-under-repeat
#[test]
fn an_unknown_outcome_with_an_answer_is_replayed_under_hold_and_taken_over_under_repeat() {
    let mut held = hold();
    held.ended(status(500));
    assert_eq!(held.ask(Start::Dispatched), Err(Admission::Replay));
    assert_eq!(held.row().standing.effect, Effect::Unknown);
    let mut repeated = repeat();
    repeated.ended(status(500));
    repeated.dispatched();
    assert_eq!(repeated.row().history.last().unwrap().event, "taken-over");
}

// rule: exactly-one-takes-over
#[test]
fn exactly_one_takes_an_unknown_outcome_over() {
    let mut bench = repeat();
    bench.ended(failed(Failure::Reset));
    let Admission::TakeOver(_, first) = bench.meet(Sameness::Same) else {
        panic!("it may be repeated");
    };
    bench.dispatched();
    assert_ne!(first, bench.row().guard(), "a second replace is refused");
    assert_eq!(bench.meet(Sameness::Same), Admission::InFlight);
}

#[test]
fn an_unknown_outcome_may_be_learnt_unless_either_way_out_holds_it_and_no_key_is_honoured() {
    use OnUnknown::{Hold, Lookup, Repeat};
    let mut bench = hold();
    bench.reserved();
    let mut standing = bench.row().standing.clone();
    for (own, present, honours_key, learnt) in [
        (Hold, Hold, false, false),
        (Hold, Repeat, false, false),
        (Repeat, Hold, false, false),
        (Lookup, Repeat, false, true),
        (Repeat, Lookup, false, true),
        (Repeat, Repeat, false, true),
        (Hold, Hold, true, true),
    ] {
        (standing.on_unknown, standing.honours_key) = (own, honours_key);
        let row = (own, present, honours_key);
        assert_eq!(may_be_learnt(&standing, present), learnt, "{row:?}");
    }
}
