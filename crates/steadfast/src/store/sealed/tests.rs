//! What was sealed opens where it was put and nowhere else.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::StatusCode;
use proptest::prelude::*;
use steadfast_core::record::State;

use super::*;
use crate::store::conformance::rows;
use crate::store::memory::Memory;

fn key(id: &str, byte: u8) -> SealingKey {
    SealingKey::new(id, &[byte; KEY_BYTES]).expect("a name of a key")
}

fn keys(list: &[(&str, u8)]) -> Keys {
    let list = list.iter().map(|(id, byte)| key(id, *byte));
    Keys::new(list.collect()).expect("names that differ")
}

/// A row with an answer that stands and another that stood before.
fn full(n: u64) -> Record {
    let mut row = rows::completed(n);
    let mut before = row.standing.clone();
    before.answer = Answer::Stored(StoredAnswer {
        status: StatusCode::BAD_GATEWAY,
        ..rows::answer(3)
    });
    row.before = Some(Box::new(before));
    row
}

fn stored(answer: &mut Answer) -> &mut StoredAnswer {
    match answer {
        Answer::Stored(answer) => answer,
        other => panic!("no answer is stored: {other:?}"),
    }
}

fn refusal(keys: &Keys, row: Record) -> String {
    match open(keys, row) {
        Err(StoreError::Unreadable(why)) => why,
        other => panic!("it should not open: {other:?}"),
    }
}

/// Everything of a row below that a reader of the file finds as bytes.
fn shows(row: &Record, text: &[u8]) -> bool {
    let kept = |standing: &Standing| match &standing.answer {
        Answer::Stored(answer) => {
            let headers = answer.headers.iter();
            let named = |(n, v): (&HeaderName, &HeaderValue)| {
                [n.as_str().as_bytes(), b": ", v.as_bytes()].concat()
            };
            [
                &answer.body[..],
                &headers.map(named).collect::<Vec<_>>().concat(),
            ]
            .concat()
        }
        _ => Vec::new(),
    };
    let before = row.before.as_deref().map(kept).unwrap_or_default();
    let bytes = [kept(&row.standing), before].concat();
    bytes.windows(text.len()).any(|window| window == text)
}

#[test]
fn every_row_opens_as_it_was_and_shows_nothing_of_its_answers() {
    let keys = keys(&[("k1", 1)]);
    for row in rows::all().into_iter().chain([full(900)]) {
        let sealed = seal(&keys, row.clone());
        let status = |row: &Record| (row.standing.answer.status(), row.standing.state);
        assert_eq!(status(&sealed), status(&row));
        for secret in [
            &b"application/json"[..],
            b"x-repeated",
            &[0, 1, 2, 3, 4, 5, 6],
        ] {
            assert!(!shows(&sealed, secret), "{secret:?} of {sealed:?}");
        }
        assert_eq!(open(&keys, sealed), Ok(row));
    }
}

// rule: the-first-key-seals-and-all-open
#[test]
fn after_a_rotation_old_rows_open_and_new_ones_are_under_the_new_key() {
    let (old, both) = (keys(&[("k1", 1)]), keys(&[("k2", 2), ("k1", 1)]));
    let before = seal(&old, full(1));
    assert_eq!(open(&both, before.clone()), Ok(full(1)));
    let after = seal(&both, full(1));
    assert_eq!(open(&keys(&[("k2", 2)]), after.clone()), Ok(full(1)));
    let why = refusal(&old, after);
    assert!(why.contains("`k2`") && why.contains("(k1)"), "{why}");
    let why = refusal(&keys(&[("k2", 2)]), before);
    assert!(why.contains("`k1`") && why.contains("(k2)"), "{why}");
}

#[test]
fn without_a_key_the_message_names_the_one_that_is_missing() {
    let sealed = seal(&keys(&[("k1", 1)]), full(1));
    let why = refusal(&Keys::default(), sealed.clone());
    assert!(why.contains("`k1`") && why.contains("--config"), "{why}");
    assert!(why.contains(&sealed.id.to_string()), "{why}");
}

#[test]
fn another_key_of_the_same_name_opens_nothing() {
    let why = refusal(&keys(&[("k1", 2)]), seal(&keys(&[("k1", 1)]), full(1)));
    assert!(why.contains("does not open with the key `k1`"), "{why}");
}

// rule: a-sealed-answer-opens-only-where-it-was-put
#[test]
fn what_was_moved_or_changed_does_not_open() {
    let keys = keys(&[("k1", 1), ("k2", 1)]);
    type Change = fn(&mut Record);
    let table: [(&str, Change); 10] = [
        ("another scope", |row| row.scope = rows::scope(2)),
        ("another id", |row| row.id = rows::completed(2).id),
        ("another status", |row| {
            stored(&mut row.standing.answer).status = StatusCode::IM_A_TEAPOT;
        }),
        ("from before to standing", |row| {
            let before = row.before.as_ref().expect("it stood");
            row.standing.answer = before.answer.clone();
        }),
        ("from standing to before", |row| {
            let standing = row.standing.answer.clone();
            row.before.as_mut().expect("it stood").answer = standing;
        }),
        ("under the name of another key", |row| {
            let headers = &mut stored(&mut row.standing.answer).headers;
            headers.insert(MARKER, HeaderValue::from_static("k2"));
        }),
        ("cut", |row| {
            let answer = stored(&mut row.standing.answer);
            answer.body.truncate(answer.body.len() - 1);
        }),
        ("cut to a nonce", |row| {
            stored(&mut row.standing.answer).body.truncate(13);
        }),
        ("emptied", |row| {
            stored(&mut row.standing.answer).body.clear()
        }),
        ("named by no key", |row| {
            let headers = &mut stored(&mut row.standing.answer).headers;
            headers.insert(MARKER, HeaderValue::from_static("no key"));
        }),
    ];
    for (what, change) in table {
        let mut sealed = seal(&keys, full(1));
        change(&mut sealed);
        let why = refusal(&keys, sealed);
        assert!(why.starts_with("record "), "{what}: {why}");
    }
}

#[test]
fn no_byte_of_a_sealed_answer_can_be_changed() {
    let keys = keys(&[("k1", 1)]);
    let sealed = seal(&keys, full(1));
    let Answer::Stored(answer) = &sealed.standing.answer else {
        panic!("it is stored");
    };
    for at in 0..answer.body.len() {
        let mut bytes = answer.body.to_vec();
        bytes[at] ^= 1;
        let mut spoilt = sealed.clone();
        stored(&mut spoilt.standing.answer).body = Bytes::from(bytes);
        refusal(&keys, spoilt);
    }
}

#[test]
fn a_nonce_is_never_used_twice() {
    let keys = keys(&[("k1", 1)]);
    let nonce = || {
        let mut sealed = seal(&keys, full(1));
        stored(&mut sealed.standing.answer).body.slice(1..13)
    };
    let nonces: std::collections::HashSet<Bytes> = (0..1000).map(|_| nonce()).collect();
    assert_eq!(nonces.len(), 1000);
}

// rule: no-answer-is-taken-for-a-sealed-one
#[test]
fn an_answer_with_the_marker_s_header_is_never_taken_for_a_sealed_one() {
    let mut row = full(1);
    let forged = HeaderValue::from_static("k1");
    let plain = row.clone();
    stored(&mut row.standing.answer)
        .headers
        .insert(MARKER, forged);
    let none = Keys::default();
    assert_eq!(open(&none, seal(&none, row.clone())), Ok(plain));
    let keys = keys(&[("k1", 1)]);
    assert_eq!(open(&keys, seal(&keys, row.clone())), Ok(row));
}

#[test]
fn rows_from_before_there_was_a_key_are_read_as_they_are() {
    let plain = seal(&Keys::default(), full(1));
    assert_eq!(open(&keys(&[("k1", 1)]), plain), Ok(full(1)));
}

#[test]
fn names_of_keys_are_short_and_plain_and_differ() {
    let id = |id: &str| SealingKey::new(id, &[0; KEY_BYTES]).map(|key| key.id().to_owned());
    for sound in ["k1", "2026-01.main_A", &"k".repeat(LONGEST_ID)] {
        assert_eq!(id(sound).as_deref(), Ok(sound));
    }
    for wrong in ["", "a b", "k\n", "größe", &"k".repeat(LONGEST_ID + 1)] {
        assert_eq!(id(wrong), Err(KeyError::Id(wrong.to_owned())));
    }
    let twice = Keys::new(vec![key("a", 1), key("b", 2), key("a", 3)]);
    assert_eq!(twice.err(), Some(KeyError::Twice("a".to_owned())));
}

#[test]
fn no_debug_form_shows_a_key() {
    let text = format!("{:?}", keys(&[("k1", b'x'), ("k2", b'y')]));
    assert_eq!(text, "Keys([SealingKey(k1), SealingKey(k2)])");
}

/// Through every call that gives rows: each opens them, or says that it cannot.
#[test]
fn every_call_of_the_store_opens_or_refuses() {
    let memory: Arc<dyn Store> = Arc::new(Memory::new());
    let over = |list| Sealed::new(Arc::clone(&memory), keys(list));
    let (right, wrong) = (over(&[("k1", 1)]), over(&[("k2", 2)]));
    let mut row = full(1);
    row.standing.locked_until = Some(rows::DATE);
    let insert = |row: &Record| Op::Insert(Box::new(row.clone()));
    let now = |future: StoreFuture<'_, OpEnd>| future.now_or_never().expect("memory is at hand");
    let Ok(OpEnd::Done(Some(stands))) = now(right.apply(insert(&row))) else {
        panic!("it is inserted, and given back open");
    };
    row.standing.fence = stands.standing.fence;
    assert_eq!(*stands, row);
    let below = memory.get(row.scope).now_or_never().expect("at hand");
    assert!(below.is_ok_and(|kept| kept.is_some_and(|kept| kept != row)));

    let unseen = Guard {
        owner: rows::owner(77),
        version: 77,
    };
    let single = |store: &Sealed| {
        let stands = match now(store.apply(insert(&row))) {
            Ok(OpEnd::Stands(row)) => Ok(row.map(|row| *row)),
            Ok(other) => panic!("another row stands: {other:?}"),
            Err(error) => Err(error),
        };
        let get = store.get(row.scope).now_or_never().expect("at hand");
        let by_id = store.by_id(row.id).now_or_never().expect("at hand");
        let changed = store.changed(row.scope, unseen).now_or_never();
        [stands, get, by_id, changed.expect("at hand")]
    };
    let page = |store: &Sealed| {
        let all = Scan {
            limit: 9,
            ..Scan::default()
        };
        let scan = store.scan(all).now_or_never().expect("at hand");
        let due = store.due(rows::DATE, 9).now_or_never().expect("at hand");
        [scan, due].map(|page| page.expect("a page"))
    };
    for found in single(&right) {
        assert_eq!(found, Ok(Some(row.clone())));
    }
    for found in single(&wrong) {
        assert!(matches!(found, Err(StoreError::Unreadable(_))), "{found:?}");
    }
    for found in page(&right) {
        assert_eq!((found.rows, found.unreadable.len()), (vec![row.clone()], 0));
    }
    for found in page(&wrong) {
        assert_eq!((found.rows.len(), found.unreadable.len()), (0, 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_answer_opens_as_it_was(
        status in 200..600u16,
        headers in proptest::collection::vec(
            ("[a-z][a-z0-9-]{0,20}", "[ -~\u{80}-\u{ff}]{0,40}"), 0..12),
        body in proptest::collection::vec(any::<u8>(), 0..3000),
        state in 0..State::ALL.len(),
        n in 0..100u64,
    ) {
        let mut row = rows::completed(n);
        row.standing.state = State::ALL[state];
        let mut map = HeaderMap::new();
        for (name, value) in &headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        row.standing.answer = Answer::Stored(StoredAnswer {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: map,
            body: Bytes::from(body),
        });
        let keys = keys(&[("k1", 1)]);
        prop_assert_eq!(open(&keys, seal(&keys, row.clone())), Ok(row));
    }

    #[test]
    fn no_bytes_are_read_as_a_frame_that_was_not_written(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Some((headers, body)) = frame::read(bytes.clone()) {
            prop_assert_eq!(frame::write(&headers, &body).len(), bytes.len());
        }
    }
}
