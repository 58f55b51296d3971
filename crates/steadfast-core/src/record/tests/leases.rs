//! What time does to a hold.

use super::*;

/// Every row that a hold can stand over; `None` is no row.
fn befores() -> Vec<(&'static str, Bench)> {
    let mut all = vec![("no row", repeat())];
    for (name, end) in [
        ("released", status(503)),
        ("unknown", failed(Failure::Reset)),
        ("unknown with answer", status(500)),
    ] {
        let mut bench = repeat();
        bench.ended(end);
        all.push((name, bench));
    }
    all
}

// rule: lost-reservation-puts-back-what-stood-before
#[test]
fn when_a_lease_ends_in_reserved_what_stood_before_stands_again() {
    for (name, mut bench) in befores() {
        let before = bench.row.clone();
        bench.reserved();
        assert!(!bench.sweep(), "{name}: the lease runs");
        assert!(bench.later(LEASE).sweep(), "{name}");
        let (stands, before) = (bench.row, before);
        assert_eq!(
            stands.as_ref().map(|row| &row.standing),
            before.as_ref().map(|row| &row.standing),
            "{name}"
        );
        if let (Some(stands), Some(before)) = (stands, before) {
            assert_eq!((stands.id, stands.before), (before.id, None));
            let last = stands.history.last().unwrap();
            assert_eq!((last.event, last.by.as_str()), ("lease-over", "sweeper"));
        }
    }
}

#[test]
fn a_deferred_row_is_put_back_as_it_was() {
    let mut bench = hold();
    let row = deferred(&mut bench);
    bench.row = Some(row.clone());
    let run = Owner::new(4, 4);
    let mut taken = row.clone();
    taken.before = Some(Box::new(row.standing.clone()));
    taken.standing.state = State::Reserved;
    taken.standing.owner = run;
    taken.standing.locked_until = Some(bench.now.plus(LEASE));
    bench.row = Some(taken.clone());
    assert!(bench.later(LEASE).sweep());
    assert_eq!(bench.row().standing, row.standing);
    bench.row = Some(taken);
    assert!(bench.withdraw(Hold {
        owner: run,
        ..row.hold()
    }));
    assert_eq!(bench.row().standing, row.standing);
}

// rule: whoever-meets-a-lost-lease-writes-it-down
#[test]
fn whoever_meets_a_lost_lease_writes_it_down_first() {
    let mut bench = hold();
    bench.reserved();
    bench.later(LEASE);
    // Another request too: nothing was sent for the lost one, so the key is not taken.
    for same in [Sameness::Same, Sameness::Different, Sameness::Unreadable] {
        let removed = Admission::Recover(Change::Remove(bench.row().guard()));
        assert_eq!(bench.meet(same), removed, "{same:?}");
    }
    let mut bench = hold();
    let mine = bench.dispatched();
    bench.later(LEASE);
    let Joining::Recover(Change::Put(next, guard)) = bench.join(mine) else {
        panic!("the lease is over");
    };
    assert_eq!(guard, bench.row().guard());
    assert_eq!(next.standing.state, State::Unknown);
}

// rule: lost-dispatch-is-unknown
#[test]
fn when_a_lease_ends_in_dispatched_the_outcome_is_unknown_under_the_same_owner_and_fence() {
    for (name, mut bench) in befores() {
        let mine = bench.lost();
        let standing = &bench.row().standing;
        assert_eq!(standing.state, State::Unknown, "{name}");
        assert_eq!(standing.effect, Effect::Unknown);
        assert_eq!((standing.owner, standing.fence), (mine.owner, mine.fence));
        assert_eq!((standing.locked_until, standing.expires_at), (None, None));
        assert_eq!(bench.row().standing.locked_until, None);
    }
}

// rule: an-unrenewed-lease-ends-by-the-observer-s-clock
#[test]
fn a_lease_that_was_not_renewed_for_its_own_length_is_over_whatever_the_store_s_clock() {
    let mut bench = hold();
    bench.dispatched();
    let stopped = bench.now;
    let just = LEASE - Duration::from_millis(1);
    assert_eq!(recover(bench.row(), stopped, just), None);
    assert!(recover(bench.row(), stopped, LEASE).is_some());
    let back = WallTime::from_unix_ms(0);
    assert_eq!(recover(bench.row(), back, just), None);
    assert!(recover(bench.row(), back, LEASE).is_some());
}

#[test]
fn nothing_is_recovered_that_nobody_holds() {
    for (name, mut bench) in in_every_state() {
        bench.later(RETENTION);
        let held = bench.row().is_held();
        assert_eq!(bench.sweep(), held, "{name}");
    }
}

// rule: renewal-extends-the-hold
#[test]
fn a_renewal_extends_the_hold_by_a_lease_and_changes_nothing_else() {
    let mut bench = hold();
    let mine = bench.dispatched();
    let old = bench.row().clone();
    assert!(bench.later(LEASE / 3).renew(mine));
    let mut expected = old;
    expected.version += 1;
    expected.updated_at = bench.now;
    expected.standing.locked_until = Some(bench.now.plus(LEASE));
    assert_eq!(bench.row(), &expected);
    bench.later(LEASE - Duration::from_millis(1));
    assert!(!bench.sweep());
    assert!(bench.later(Duration::from_millis(1)).sweep());
}

// rule: an-uncertain-holder-starts-nothing
#[test]
fn a_holder_starts_nothing_from_two_thirds_of_its_lease_on() {
    let ms = Duration::from_millis;
    for (since, lease, may) in [
        (0, 30_000, true),
        (19_999, 30_000, true),
        (20_000, 30_000, false),
        (30_000, 30_000, false),
        (0, 0, false),
    ] {
        assert_eq!(may_start(ms(since), ms(lease)), may, "{since} of {lease}");
    }
    assert!(!may_start(Duration::MAX, Duration::MAX));
}

// rule: only-the-holder-marks-its-reservation
#[test]
fn a_dispatch_mark_is_its_reservation_s_holder_s_alone() {
    let mut bench = hold();
    bench.ended(status(503));
    let stale = bench.reserved();
    assert!(bench.later(LEASE).sweep());
    assert!(!bench.mark(stale), "a released row is nobody's to mark");
    assert!(!bench.renew(stale));
    let newer = bench.reserved();
    assert!(!bench.mark(stale), "a newer holder's row is not marked");
    assert!(!bench.renew(stale));
    assert!(bench.mark(newer));
    assert!(!bench.mark(newer), "what is dispatched is not marked twice");
    let impostor = Hold {
        fence: newer.fence - 1,
        ..newer
    };
    assert!(!bench.row().is_held_by(impostor));
}

// rule: a-doubted-write-is-recognised-as-one-s-own
#[test]
fn a_standing_row_is_one_s_own_write_only_if_it_is_that_very_write() {
    let mut bench = hold();
    let mine = bench.reserved();
    let mut sent = bench.row().clone();
    sent.standing.fence = 0;
    assert!(read_back(&sent, bench.row()), "the fence is the store's");
    let old = bench.row().clone();
    // A renewal landed and its reply was lost: the mark from the old row must not count as written.
    let renewed = renew(&old, bench.now);
    let marked = dispatch(&old, mine, bench.now).unwrap();
    assert_eq!(renewed.guard(), marked.guard());
    assert!(read_back(&marked, &marked) && read_back(&renewed, &renewed));
    assert!(!read_back(&marked, &renewed) && !read_back(&renewed, &marked));
    // Nor the sweeper's row as the holder's renewal, nor one end as another.
    bench.put(marked, old.guard());
    let held = bench.row().clone();
    let renewed = renew(&held, bench.now);
    assert!(bench.later(LEASE).sweep());
    assert!(!read_back(&renewed, bench.row()));
    let ends = [status(201), status(200), status(500), status(503)].map(|end| {
        let mut fork = bench.clone();
        fork.row = Some(held.clone());
        fork.end(mine, end);
        fork.row().clone()
    });
    for (at, one) in ends.iter().enumerate() {
        for (other_at, other) in ends.iter().enumerate() {
            assert_eq!(read_back(one, other), at == other_at);
        }
    }
}
