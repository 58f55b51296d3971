//! What is sent and stored: random keys, JSON bodies, and records as the server layer makes them.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use steadfast::clock;
use steadfast_core::effect::{Effect, Verdict};
use steadfast_core::fingerprint::{
    Fingerprint, FingerprintOptions, FingerprintSecret, RequestView,
};
use steadfast_core::key::{Key, Operation, ScopeHash, ScopeSecret, Tenant};
use steadfast_core::policy::{Meaning, OnUnknown};
use steadfast_core::record::{
    self, Answer, Ended, OperationId, Owner, Record, Request, Settle, Start, StoredAnswer,
};
use steadfast_core::time::WallTime;

use crate::Failure;

/// Bytes of a stored answer's body.
const ANSWER_BYTES: usize = 512;

/// Random bits, quickly: SplitMix64 from a seed of the operating system.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        Random(u64::from_le_bytes(clock::random()))
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn wide(&mut self) -> u128 {
        (u128::from(self.bits()) << 64) | u128::from(self.bits())
    }
}

/// Makes records of unlike keys. The hashes of a request are made once, outside what is timed:
/// they are measured by themselves.
pub struct Rows {
    like: Request,
    ended: Ended,
    random: Random,
}

impl Rows {
    /// Records that are kept for `retention` from their end.
    pub fn new(retention: Duration) -> Result<Rows, Failure> {
        let mut random = Random::new();
        let (method, path) = (Method::POST, "/orders");
        let body = json_body(200);
        let request = RequestView {
            method: &method,
            path_and_query: path.as_bytes(),
            headers: &HeaderMap::new(),
            body: body.as_bytes(),
        };
        let secret = FingerprintSecret::new(1, &clock::random());
        let tenant = Tenant::of(
            &ScopeSecret::new(clock::random()),
            "authorization",
            b"someone",
        );
        let like = Request {
            scope: ScopeHash::from_bytes([0; 32]),
            id: OperationId::from_bits(0),
            tenant,
            principal_rule: "authorization".to_owned(),
            operation: Operation::new(&method, path),
            key: Key::from_stored("0").ok_or("a key")?,
            fingerprint: Fingerprint::of(&request, &FingerprintOptions::default(), &secret),
            on_unknown: OnUnknown::Hold,
            lease: Duration::from_secs(30),
            retention,
            body_retention: retention,
            owner: Owner::new(0, 0),
        };
        let ended = Ended {
            verdict: Verdict {
                effect: Effect::Applied,
                meaning: Meaning::Final,
                keep_answer: true,
                honours_key: false,
            },
            answer: Answer::Stored(answer(&mut random)),
            reason: "201".to_owned(),
            nothing_sent: false,
        };
        Ok(Rows {
            like,
            ended,
            random,
        })
    }

    /// The next record, as a keyed request inserts it with a connection in hand.
    pub fn reserved(&mut self, now: WallTime) -> Record {
        let mut scope = [0; 32];
        for part in scope.chunks_exact_mut(8) {
            part.copy_from_slice(&self.random.bits().to_le_bytes());
        }
        let key = format!("{:032x}", self.random.wide());
        let request = Request {
            scope: ScopeHash::from_bytes(scope),
            id: OperationId::from_bits(self.random.wide()),
            key: Key::from_stored(&key).unwrap_or_else(|| self.like.key.clone()),
            owner: Owner::new(1, self.random.wide()),
            ..self.like.clone()
        };
        record::reserve(&request, Start::Dispatched, now)
    }

    /// The record that replaces `row` once its answer is there.
    pub fn completed(&self, row: &Record, now: WallTime) -> Result<Box<Record>, Failure> {
        match record::settle(row, row.hold(), &self.ended, now) {
            Settle::Put(next, _) => Ok(next),
            Settle::Already | Settle::Lost => Err("a record was lost to somebody else".into()),
        }
    }
}

fn answer(random: &mut Random) -> StoredAnswer {
    let mut headers = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    let body: Vec<u8> = (0..ANSWER_BYTES / 8)
        .flat_map(|_| random.bits().to_le_bytes())
        .collect();
    StoredAnswer {
        status: StatusCode::CREATED,
        headers,
        body: Bytes::from(body),
    }
}

/// A JSON object of `bytes` bytes (at least 40), its members of some 25 bytes in no order.
pub fn json_body(bytes: usize) -> String {
    let mut body = String::from("{\"amount\":4200");
    let mut n: u64 = 0;
    while body.len() + 27 + 12 <= bytes {
        let name = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
        body.push_str(&format!(",\"m{name:04x}\":\"value {:08}\"", n * 37));
        n += 1;
    }
    let rest = bytes.saturating_sub(body.len() + ",\"note\":\"\"}".len());
    body.push_str(&format!(",\"note\":\"{}\"}}", "x".repeat(rest)));
    body
}

/// Writes `count` random keys, one a line.
pub fn write_keys(count: usize) {
    let mut random = Random::new();
    for _ in 0..count {
        println!("{:032x}", random.wide());
    }
}
