//! Looking an unknown outcome up, and undoing it.

use super::*;

pub(super) use crate::lookup::SETTLE;
const PAUSE: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_secs(20);

/// A bench whose route looks an unknown outcome up.
pub(super) fn asking() -> Bench {
    Bench {
        way_out: OnUnknown::Lookup,
        ..hold()
    }
}

fn token(n: u64) -> Owner {
    Owner::new(5, u128::from(n))
}

impl Bench {
    pub(super) fn takes_turn(&mut self, n: u64) -> bool {
        let Some(next) = ask(self.row(), token(n), TURN, self.now) else {
            return false;
        };
        self.put(next, self.row().guard());
        true
    }

    pub(super) fn saw(&mut self, n: u64, seen: Seen) -> bool {
        let end = Looked {
            seen,
            detail: "status 200".to_owned(),
            by: "sweeper".to_owned(),
            settle: SETTLE,
            pause: PAUSE,
        };
        let Some(next) = looked(self.row(), token(n), &end, self.now) else {
            return false;
        };
        self.put(next, self.row().guard());
        true
    }

    fn looks(&mut self, n: u64, seen: Seen) {
        assert!(self.takes_turn(n) && self.saw(n, seen));
    }

    fn begins_undoing(&mut self, n: u64) -> bool {
        let Some(next) = compensate(self.row(), token(n), TURN, self.now) else {
            return false;
        };
        self.put(next, self.row().guard());
        true
    }

    fn undone(&mut self, n: u64, code: Option<u16>) -> bool {
        let end = Compensated {
            done: code.map(|code| StatusCode::from_u16(code).unwrap()),
            detail: "seen".to_owned(),
            pause: PAUSE,
        };
        let Some(next) = compensated(self.row(), token(n), &end, self.now) else {
            return false;
        };
        self.put(next, self.row().guard());
        true
    }

    fn standing(&self) -> &Standing {
        &self.row().standing
    }
}

fn can(on_unknown: OnUnknown) -> Ways {
    Ways {
        on_unknown,
        can_look: true,
        compensates_after: None,
        can_run: false,
    }
}

fn unknown(mut bench: Bench) -> (Bench, Hold) {
    let mine = bench.ended(failed(Failure::ReadTimeout));
    assert_eq!(bench.state(), Some(State::Unknown));
    (bench, mine)
}

// rule: one-look-up-at-a-time-under-a-lease
#[test]
fn one_asks_at_a_time_and_its_turn_ends_with_its_lease() {
    let (mut bench, _) = unknown(asking());
    assert_eq!(
        step(bench.row(), can(OnUnknown::Lookup), bench.now),
        Step::Look
    );
    assert!(bench.takes_turn(1));
    assert!(!bench.takes_turn(2), "somebody asks already");
    let until = bench.now.plus(TURN);
    assert_eq!(
        step(bench.row(), can(OnUnknown::Lookup), bench.now),
        Step::Wait(until)
    );
    assert_eq!(bench.row().due_at(), Some(until));
    bench.later(TURN);
    assert_eq!(asker(bench.row(), bench.now), None);
    assert!(bench.takes_turn(2));
    assert!(
        !bench.saw(1, Seen::Found(kept(200))),
        "its turn is another's"
    );
    assert!(bench.saw(2, Seen::Unclear));
    assert!(!bench.saw(2, Seen::Absent), "a turn brings one answer");
}

// rule: a-found-outcome-completes
#[test]
fn what_is_found_completes_the_record_and_a_late_holder_takes_what_stands() {
    let (mut bench, mine) = unknown(asking());
    bench.looks(1, Seen::Found(kept(200)));
    let standing = bench.standing();
    assert_eq!(
        (standing.state, standing.effect),
        (State::Completed, Effect::Applied)
    );
    assert_eq!(standing.answer, Answer::Stored(kept(200)));
    assert_eq!(standing.expires_at, Some(bench.now.plus(RETENTION)));
    assert_eq!(bench.row().kept, None);
    let last = bench.row().history.last().expect("a history");
    assert_eq!(
        (last.event, &*last.by, &*last.detail),
        ("looked-up", "sweeper", "status 200: found")
    );
    assert_eq!(bench.end(mine, status(201)), Settle::Lost);
    assert_eq!(bench.standing().answer, Answer::Stored(kept(200)));
}

// rule: absence-counts-once-it-settled-and-twice-in-a-row
#[test]
fn absence_counts_once_it_has_settled_and_twice_in_a_row() {
    let (mut bench, _) = unknown(asking());
    for n in 0..5 {
        bench.looks(n, Seen::Absent);
        assert_eq!(bench.standing().pending.absent, 0, "too early to count");
    }
    bench
        .later(SETTLE - Duration::from_millis(1))
        .looks(10, Seen::Absent);
    assert_eq!(bench.standing().pending.absent, 0);
    bench
        .later(Duration::from_millis(1))
        .looks(11, Seen::Absent);
    assert_eq!(
        (bench.state(), bench.standing().pending.absent),
        (Some(State::Unknown), 1)
    );
    bench.looks(12, Seen::Unclear);
    assert_eq!(bench.standing().pending.absent, 0, "not in a row");
    bench.looks(13, Seen::Absent);
    assert_eq!(bench.state(), Some(State::Unknown));
    bench.looks(14, Seen::Absent);
    let standing = bench.standing();
    assert_eq!(
        (standing.state, standing.effect),
        (State::Released, Effect::None)
    );
    assert!(!standing.ambiguous, "the attempts so far count as none");
}

// rule: a-look-up-s-release-keeps-owner-and-fence
#[test]
fn a_late_success_completes_what_a_look_up_released_while_nobody_newer_stands() {
    let released = || {
        let (mut bench, mine) = unknown(asking());
        bench.later(SETTLE).looks(1, Seen::Absent);
        bench.looks(2, Seen::Absent);
        assert_eq!(bench.row().hold(), mine);
        (bench, mine)
    };
    let (mut late, mine) = released();
    late.end(mine, status(201));
    assert_eq!(late.state(), Some(State::Completed));
    let (mut newer, mine) = released();
    let next = newer.dispatched();
    assert!(next.fence > mine.fence);
    assert_eq!(newer.end(mine, status(201)), Settle::Lost);
    newer.end(next, status(422));
    assert_eq!(
        newer.standing().effect,
        Effect::None,
        "its own end alone counts"
    );
}

#[test]
fn what_is_not_clear_is_asked_again_after_its_pause() {
    let (mut bench, _) = unknown(asking());
    bench.looks(1, Seen::Unclear);
    let due = bench.now.plus(PAUSE);
    assert_eq!(bench.row().due_at(), Some(due));
    assert_eq!(
        step(bench.row(), can(OnUnknown::Lookup), bench.now),
        Step::Wait(due)
    );
    assert!(bench.takes_turn(2), "a caller asks at once");
    bench.saw(2, Seen::Unclear);
    assert_eq!(bench.standing().pending.steps, 2);
    assert_eq!(bench.standing().effect, Effect::Unknown);
}

// rule: the-stricter-way-out-holds
#[test]
fn the_stricter_of_the_record_s_and_the_present_way_out_holds() {
    use OnUnknown::{Hold, Lookup, Repeat};
    let table = [
        (Hold, Hold, Step::Nothing, false),
        (Hold, Lookup, Step::Nothing, false),
        (Lookup, Hold, Step::Nothing, false),
        (Lookup, Lookup, Step::Look, true),
        (Lookup, Repeat, Step::Look, true),
        (Repeat, Lookup, Step::Look, true),
        (Repeat, Repeat, Step::Nothing, false),
    ];
    for (made, present, expected, first) in table {
        let (bench, _) = unknown(Bench {
            way_out: made,
            ..hold()
        });
        let found = step(bench.row(), can(present), bench.now);
        assert_eq!(found, expected, "{made:?} {present:?}");
        assert_eq!(
            asks_first(bench.standing(), present),
            first,
            "{made:?} {present:?}"
        );
    }
    let (bench, _) = unknown(asking());
    let cannot = Ways {
        can_look: false,
        ..can(Lookup)
    };
    assert_eq!(step(bench.row(), cannot, bench.now), Step::Nothing);
}

#[test]
fn nobody_asks_for_what_is_known_or_at_work() {
    for (name, mut bench) in in_every_state() {
        bench.way_out = OnUnknown::Lookup;
        let is_unknown = name.starts_with("unknown");
        assert_eq!(bench.takes_turn(1), is_unknown, "{name}");
        assert!(is_unknown || !bench.begins_undoing(2), "{name}");
    }
}

#[test]
fn an_operator_and_a_late_holder_are_not_hindered_by_a_look_up_and_end_it() {
    let (mut by_hand, _) = unknown(asking());
    by_hand.takes_turn(1);
    by_hand.resolve(201).expect("it is unknown");
    assert!(!by_hand.saw(1, Seen::Absent));
    let (mut late, mine) = unknown(asking());
    late.takes_turn(1);
    late.end(mine, status(201));
    assert_eq!(late.state(), Some(State::Completed));
    assert!(!late.saw(1, Seen::Found(kept(200))));
}

fn undoing() -> (Bench, Hold) {
    let mut bench = hold();
    bench.compensates = true;
    unknown(bench)
}

// rule: what-is-undone-is-completed-without-effect
#[test]
fn a_compensation_waits_until_it_settled_and_ends_without_effect() {
    let (mut bench, mine) = undoing();
    let ways = Ways {
        compensates_after: Some(SETTLE),
        ..can(OnUnknown::Hold)
    };
    let settled = bench.now.plus(SETTLE);
    assert_eq!(step(bench.row(), ways, bench.now), Step::Wait(settled));
    assert_eq!(
        step(bench.row(), can(OnUnknown::Hold), settled),
        Step::Nothing
    );
    bench.later(SETTLE);
    assert_eq!(step(bench.row(), ways, bench.now), Step::Compensate);
    assert!(bench.begins_undoing(1) && !bench.begins_undoing(2));
    assert!(bench.undone(1, None), "one that failed is tried again");
    assert_eq!(bench.state(), Some(State::Unknown));
    assert!(bench.begins_undoing(2) && bench.undone(2, Some(204)));
    let standing = bench.standing();
    assert_eq!(
        (standing.state, standing.effect),
        (State::Completed, Effect::None)
    );
    assert_eq!(standing.answer, Answer::NotStored(StatusCode::NO_CONTENT));
    assert_eq!(bench.end(mine, status(201)), Settle::Lost);
    let events: Vec<_> = bench.row().history.iter().map(|e| e.event).collect();
    let expected = [
        "dispatched",
        "unknown",
        "compensating",
        "compensation-failed",
        "compensating",
        "compensated",
    ];
    assert_eq!(events, expected);
}

// rule: what-is-being-undone-is-not-taken-for-done
#[test]
fn from_the_begin_of_a_compensation_on_a_late_success_is_not_the_outcome() {
    let (mut before, mine) = undoing();
    before.end(mine, status(201));
    assert_eq!(
        before.state(),
        Some(State::Completed),
        "nothing was begun yet"
    );
    let (mut bench, mine) = undoing();
    bench.begins_undoing(1);
    for end in [status(201), status(422), status(500), unsure()] {
        assert_eq!(bench.end(mine, end), Settle::Lost);
    }
    // Also once its process is gone, until another sends it again.
    bench.later(TURN);
    assert_eq!(bench.end(mine, status(201)), Settle::Lost);
    bench.row.as_mut().expect("a row").standing.honours_key = true;
    assert_eq!(bench.ask(Start::Dispatched), Err(Admission::Unknown));
    assert!(bench.begins_undoing(2) && bench.undone(2, Some(200)));
    bench.resolve(201).expect_err("it is completed");
}
