//! What is written is read back, and wrong bytes are never taken for anything else.

use super::*;
use crate::store::conformance::rows;

#[test]
fn what_is_decoded_equals_what_was_encoded() {
    for row in rows::all() {
        assert_eq!(decode(encode(&row)), Ok(row));
    }
}

/// A row that uses all columns.
fn full() -> Record {
    let mut row = rows::completed(1);
    row.standing.locked_until = Some(rows::DATE);
    row.before = Some(Box::new(row.standing.clone()));
    row
}

#[test]
fn a_column_that_no_store_writes_is_unreadable() {
    type Spoil = fn(&mut Columns<'_>);
    let table: [(&str, Spoil); 26] = [
        ("scope", |c| c.scope = Cow::Borrowed(b"short")),
        ("id", |c| c.id = Cow::Borrowed(&[0; 17])),
        ("created_at", |c| c.created_at = -1),
        ("updated_at", |c| c.updated_at = i64::MIN),
        ("version", |c| c.version = -1),
        ("state", |c| c.state = Cow::Borrowed("finished")),
        ("effect", |c| c.effect = Cow::Borrowed("")),
        ("ambiguous", |c| c.ambiguous = 2),
        ("honours_key", |c| c.honours_key = -1),
        ("attempts", |c| c.attempts = 1 << 32),
        ("owner", |c| {
            c.owner = Cow::Borrowed("00000000000g-00000000000000000000")
        }),
        ("fence", |c| c.fence = -1),
        ("fingerprint", |c| c.fingerprint = Cow::Borrowed("zz")),
        ("answer", |c| c.answer = Cow::Borrowed("kept")),
        ("answer", |c| c.answer = Cow::Borrowed("none")),
        ("answer", |c| c.status = None),
        ("answer", |c| c.status = Some(99)),
        ("answer", |c| c.status = Some(1 << 40)),
        ("answer", |c| c.body = None),
        ("details", |c| c.body_before = None),
        ("on_unknown", |c| c.on_unknown = Cow::Borrowed("ask")),
        ("lease_ms", |c| c.lease = -5),
        ("locked_until", |c| c.locked_until = Some(-5)),
        ("final_at", |c| c.final_at = Some(-5)),
        ("expires_at", |c| c.expires_at = Some(-5)),
        ("details", |c| c.details = Cow::Borrowed("{\"v\":1}")),
    ];
    for (part, spoil) in table {
        let row = full();
        let mut columns = encode(&row);
        spoil(&mut columns);
        assert_eq!(decode(columns), Err(Unreadable::part(part)));
    }
}

#[test]
fn details_of_another_version_are_unreadable_and_say_so() {
    let row = full();
    let mut columns = encode(&row);
    columns.details = Cow::Owned(columns.details.replacen("\"v\":1", "\"v\":2", 1));
    let error = decode(columns).expect_err("another version").to_string();
    assert!(error.contains("does not know"), "{error}");
}

/// Every truncation and every single changed byte of the details: read as the same, or unreadable,
/// and never a panic.
#[test]
fn damaged_details_never_panic() {
    let row = full();
    let columns = encode(&row);
    let read = |bytes: &[u8]| {
        let details = String::from_utf8_lossy(bytes);
        decode(Columns {
            details,
            ..columns.clone()
        })
    };
    let whole = columns.details.as_bytes();
    assert_eq!(read(whole), Ok(row.clone()));
    for at in 0..whole.len() {
        assert!(read(&whole[..at]).is_err(), "cut at {at}");
        for byte in [b'0', b'"', b'}', b'x', 0] {
            let mut bytes = whole.to_vec();
            bytes[at] = byte;
            let _ = read(&bytes);
        }
    }
}

#[test]
fn a_date_beyond_the_store_s_integers_stays_far_away() {
    let mut row = rows::completed(1);
    row.standing.expires_at = Some(WallTime::from_unix_ms(u64::MAX));
    let read = decode(encode(&row)).expect("a sound row");
    let far = WallTime::from_unix_ms(i64::MAX.unsigned_abs());
    assert_eq!(read.standing.expires_at, Some(far));
}

#[test]
fn a_row_without_a_retention_of_its_body_keeps_it_as_long_as_its_record() {
    let mut row = full();
    let before = row.before.as_mut().expect("it stood");
    before.retention = Duration::from_secs(7);
    before.body_retention = before.retention;
    row.standing.body_retention = row.standing.retention;
    let columns = encode(&row);
    assert!(!columns.details.contains("body_retention"), "as old rows");
    assert_eq!(decode(columns), Ok(row.clone()));
    row.standing.body_retention = Duration::from_millis(5);
    let mut columns = encode(&row);
    assert_eq!(decode(columns.clone()), Ok(row.clone()));
    let text = columns.details.replace("_ms\":5", "_ms\":\"5\"");
    columns.details = Cow::Owned(text);
    assert_eq!(decode(columns), Err(Unreadable::part("details")));
}
