//! Attempts, fences, history, and the names of owners.

use super::*;

// rule: attempts-count-dispatches-and-each-hold-has-its-own-fence
#[test]
fn attempts_count_dispatches_and_every_hold_has_a_fence_of_its_own() {
    let mut bench = repeat();
    let first = bench.reserved();
    assert_eq!(bench.row().standing.attempts, 0);
    assert!(bench.mark(first));
    assert_eq!(bench.row().standing.attempts, 1);
    assert_eq!(bench.row().standing.fence, first.fence);
    bench.end(first, failed(Failure::Reset));
    let second = bench.dispatched();
    assert_eq!(bench.row().standing.attempts, 2);
    assert!(second.fence > first.fence && second.owner != first.owner);
    bench.end(second, failed(Failure::NotWritten));
    let standing = &bench.row().standing;
    assert_eq!((standing.attempts, standing.fence), (1, first.fence));
    let third = bench.dispatched();
    assert!(
        third.fence > second.fence,
        "a drawn fence is never drawn again"
    );
}

// rule: history-is-bounded-and-keeps-the-first
#[test]
fn a_history_is_bounded_and_keeps_the_first_and_the_latest() {
    let mut bench = repeat();
    bench.reserved();
    let first = bench.row().history[0].clone();
    assert!(bench.later(LEASE).sweep());
    bench.row = None;
    bench.lost();
    let first = Event {
        by: bench.row().standing.owner.to_string(),
        ..first
    };
    for _ in 0..2 * HISTORY_MAX {
        bench.later(LEASE).ended(failed(Failure::Reset));
        assert!(bench.row().history.len() <= HISTORY_MAX);
        let row = bench.row();
        assert_eq!(row.history[0].by, first.by);
        assert_eq!(row.history.last().unwrap().at, bench.now);
    }
    assert_eq!(bench.row().history.len(), HISTORY_MAX);
}

#[test]
fn every_event_is_a_known_word() {
    let mut bench = repeat();
    bench.ended(status(503));
    let mine = bench.reserved();
    bench.mark(mine);
    bench.withdraw(mine);
    bench.lost();
    bench.ended(failed(Failure::Reset));
    bench.release().unwrap();
    bench.ended(status(500));
    bench.resolve(201).unwrap();
    for event in &bench.row().history {
        assert!(EVENTS.contains(&event.event), "{}", event.event);
        assert!(!event.by.is_empty());
    }
}

#[test]
fn owners_and_ids_are_read_back_as_written_and_nothing_else_is_read() {
    let owner = Owner::new(0xabcd, 42);
    assert_eq!(owner.to_string(), "00000000abcd-0000000000000000002a");
    assert_eq!(Owner::parse(&owner.to_string()), Some(owner));
    assert_eq!(owner.instance(), "00000000abcd");
    for wrong in [
        "",
        "-",
        "00000000ABCD-0000000000000000002a",
        "abcd-2a",
        "00000000abcd",
    ] {
        assert_eq!(Owner::parse(wrong), None, "{wrong}");
    }
    let scope = ScopeHash::from_bytes([0xab; 32]);
    for (id, digits) in [
        (OperationId::from_bits(7), 32),
        (OperationId::new(&scope, 7), 48),
        (OperationId::new(&scope, u128::MAX), 48),
    ] {
        assert_eq!(id.to_string().len(), digits);
        assert_eq!(OperationId::parse(&id.to_string()), Some(id));
        assert_eq!(OperationId::from_bytes(&id.to_bytes()), Some(id));
    }
    for wrong in [&[0; 15][..], &[0; 17], &[0; 25]] {
        assert_eq!(OperationId::from_bytes(wrong), None);
    }
    assert_eq!(OperationId::parse("7"), None);
    assert_eq!(OperationId::parse(&"G".repeat(32)), None);
    for state in State::ALL {
        assert_eq!(State::parse(state.as_str()), Some(state));
    }
    assert_eq!(State::parse("done"), None);
}

#[test]
fn an_answer_shows_no_body_and_no_header_value_in_a_log() {
    let mut answer = kept(201);
    answer
        .headers
        .insert("x-secret", http::HeaderValue::from_static("s3cret"));
    answer.body = Bytes::from_static(b"s3cret");
    let shown = format!("{answer:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("201") && shown.contains('6'));
}
