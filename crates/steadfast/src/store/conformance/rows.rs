//! Rows to drive a store with.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use steadfast_core::effect::Effect;
use steadfast_core::key::ScopeHash;
use steadfast_core::policy::OnUnknown;
use steadfast_core::record::{
    self, Answer, Event, HISTORY_MAX, OperationId, Owner, Record, Request, Standing, Start, State,
    StoredAnswer,
};
use steadfast_core::time::WallTime;

use crate::store::codec;

/// The date on which all rows here are made: long ago, so that no clock is behind it.
pub const DATE: WallTime = WallTime::from_unix_ms(1_000_000_000_000);

/// The scope of row `n`. Different from its first byte on, and in no order.
pub fn scope(n: u64) -> ScopeHash {
    let mut bytes = [0; 32];
    let spread = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bytes[..8].copy_from_slice(&spread.to_be_bytes());
    bytes[24..].copy_from_slice(&n.to_be_bytes());
    codec::scope(&bytes).expect("32 bytes are a scope hash")
}

/// Owner `n`.
pub fn owner(n: u64) -> Owner {
    Owner::new(0x00c0_ffee, u128::from(n))
}

/// Row `n` as a first caller inserts it, by holder `n`.
pub fn reserved(n: u64) -> Record {
    started(n, n, Start::Reserved, DATE)
}

/// Row `n` as holder `by` inserts it on date `at`.
pub fn started(n: u64, by: u64, start: Start, at: WallTime) -> Record {
    let hex = format!("{n:064x}");
    // Both kinds of id, the one without a place being older.
    let bits = (u128::from(n) << 64) | u128::from(by);
    let id = match n % 4 {
        3 => OperationId::from_bits(bits),
        _ => OperationId::new(&scope(n), bits),
    };
    let request = Request {
        scope: scope(n),
        id,
        tenant: codec::tenant(&hex[..32]).expect("a hash is a tenant"),
        principal_rule: "authorization".to_owned(),
        operation: codec::operation(&format!("POST /orders/{n}")).expect("an operation"),
        key: codec::key(&format!("0f8fad5b-d9cb-469f-a165-{n:012}")).expect("a key"),
        fingerprint: codec::sample_fingerprint(n),
        on_unknown: OnUnknown::Hold,
        lease: Duration::from_secs(30),
        retention: Duration::from_secs(3600),
        body_retention: Duration::from_secs(3600),
        owner: owner(by),
    };
    record::reserve(&request, start, at)
}

/// An answer with repeated and non-UTF-8 header values and `length` bytes of body.
pub fn answer(length: usize) -> StoredAnswer {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", &b"application/json"[..]),
        ("x-repeated", b"second to none"),
        ("x-repeated", b""),
        ("x-repeated", b"caf\xe9 \xff\tx"),
        ("x-utf8", "größer \"quoted\" \\".as_bytes()),
        ("link", b"<a>, <b>"),
    ] {
        let value = HeaderValue::from_bytes(value).expect("a header value");
        headers.append(HeaderName::from_static(name), value);
    }
    let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    StoredAnswer {
        status: StatusCode::CREATED,
        headers,
        body: Bytes::from(body),
    }
}

/// Row `n`, finished with a small answer, expiring a second after [`DATE`].
pub fn completed(n: u64) -> Record {
    let mut row = started(n, n, Start::Dispatched, DATE);
    row.standing = finished(&row.standing, Answer::Stored(answer(64)));
    row
}

fn finished(standing: &Standing, answer: Answer) -> Standing {
    Standing {
        state: State::Completed,
        effect: Effect::Applied,
        answer,
        reason: "201".to_owned(),
        locked_until: None,
        final_at: Some(DATE),
        expires_at: Some(DATE.plus(Duration::from_secs(1))),
        ..standing.clone()
    }
}

/// Rows that together use every part of a record in every form.
pub fn all() -> Vec<Record> {
    let mut rows = Vec::new();
    for (n, state) in (100..).zip(State::ALL) {
        let mut row = started(n, n, Start::Reserved, DATE);
        row.standing.state = state;
        rows.push(row.clone());
        // The same above each kind of standing that a hold puts aside.
        for (m, answer) in (1..).zip(answers()) {
            let mut held = started(n * 10 + m, n, Start::Dispatched, DATE);
            let mut before = finished(&row.standing, answer);
            before.state = state;
            before.owner = owner(n * 10 + m + 5000);
            before.fence = 7;
            before.on_unknown = OnUnknown::Repeat;
            held.before = Some(Box::new(before));
            rows.push(held);
        }
    }
    for (n, answer) in (2000..).zip(answers()) {
        let mut row = completed(n);
        row.standing.answer = answer.clone();
        row.standing.body_retention = Duration::from_secs(n);
        row.before = Some(Box::new(Standing {
            effect: Effect::Unknown,
            ambiguous: true,
            honours_key: true,
            on_unknown: OnUnknown::Lookup,
            lease: Duration::from_millis(1),
            retention: Duration::from_millis(2),
            body_retention: Duration::from_millis(1),
            ..finished(&row.standing, answer)
        }));
        rows.push(row);
    }
    rows.push(with_long_history());
    rows
}

fn answers() -> [Answer; 5] {
    [
        Answer::None,
        Answer::NotStored(StatusCode::IM_A_TEAPOT),
        Answer::Stored(answer(0)),
        Answer::Stored(answer(300)),
        Answer::Stored(answer(3 * 1024 * 1024)),
    ]
}

fn with_long_history() -> Record {
    let mut row = completed(3000);
    row.standing.reason = "line\nbreak \u{1F600} \0".to_owned();
    row.standing.attempts = u32::MAX;
    row.version = 1 << 40;
    row.history = (0..HISTORY_MAX)
        .map(|n| Event {
            at: DATE.plus(Duration::from_millis(n as u64)),
            event: record::EVENTS[n % record::EVENTS.len()],
            by: format!("operator {n} \"ü\""),
            detail: "x".repeat(n),
        })
        .collect();
    row
}
