//! Fingerprints beside the least that one has to do: parsing and writing a JSON body again with its
//! members sorted; one keyed digest over the same framed bytes.

use std::hint::black_box;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderValue, Method, header};
use sha2::Sha256;
use steadfast::clock;
use steadfast_core::fingerprint::{
    BodyMode, Fingerprint, FingerprintOptions, FingerprintSecret, RequestView,
};

use crate::{Failure, Window, measured, rows};

/// Bytes of the JSON body.
const JSON_BYTES: usize = 1024;

/// Bodies that are read by their bytes.
const BYTES: [usize; 2] = [1024, 16 * 1024];

/// Slices of one window: what is compared takes turns this often.
const SLICES: u32 = 20;

/// One window, shared by all.
pub fn measure(window: Window) -> Result<(), Failure> {
    let secret = clock::random();
    let body = rows::json_body(JSON_BYTES);
    let json = HeaderValue::from_static("application/json");
    let ours = of(body.as_bytes(), BodyMode::Meaning, &secret, json)?;
    let sorted = || {
        let value: serde_json::Value = serde_json::from_str(black_box(&body)).unwrap_or_default();
        black_box(serde_json::to_vec(&value).unwrap_or_default());
    };
    let part = window.length() / 3;
    compare(window.round, part, "json", &ours, &sorted);
    for bytes in BYTES {
        let mut random = rows::Random::new();
        let body: Vec<u8> = (0..bytes / 8)
            .flat_map(|_| random.bits().to_le_bytes())
            .collect();
        let octets = HeaderValue::from_static("application/octet-stream");
        let ours = of(&body, BodyMode::Bytes, &secret, octets)?;
        let keyed = Hmac::<Sha256>::new_from_slice(&secret)?;
        let framed = framed(&body);
        let digest = || {
            let mac = keyed.clone().chain_update(black_box(&framed));
            black_box(mac.finalize().into_bytes());
        };
        compare(
            window.round,
            part,
            &format!("bytes.{bytes}"),
            &ours,
            &digest,
        );
    }
    Ok(())
}

/// A closure that makes one fingerprint.
fn of(
    body: &[u8],
    mode: BodyMode,
    secret: &[u8; 32],
    content_type: HeaderValue,
) -> Result<impl Fn(), Failure> {
    let secret = FingerprintSecret::new(1, secret);
    let options = FingerprintOptions::new(mode, [])?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, content_type);
    Ok(move || {
        let request = RequestView {
            method: &Method::POST,
            path_and_query: b"/orders?dry=no",
            headers: black_box(&headers),
            body: black_box(body),
        };
        black_box(Fingerprint::of(&request, &options, &secret));
    })
}

/// As many bytes as a fingerprint puts before the body, and the body.
fn framed(body: &[u8]) -> Vec<u8> {
    let head = "steadfast fingerprint v1POST/orders?dry=noapplication/octet-stream".len() + 4 + 6;
    let mut framed = vec![0x2a; head];
    framed.extend_from_slice(body);
    framed
}

/// Writes what one call of each costs, taking turns.
fn compare(round: u32, length: Duration, name: &str, ours: &impl Fn(), reference: &impl Fn()) {
    let slice = length / (2 * SLICES);
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..SLICES {
        own.push(nanos(slice, ours));
        other.push(nanos(slice, reference));
    }
    for (whose, nanos) in [("ours", &mut own), ("reference", &mut other)] {
        nanos.sort_by(f64::total_cmp);
        let median = nanos[nanos.len() / 2];
        measured::write(round, &format!("fingerprint.{name}.{whose}_ns"), median);
    }
}

fn nanos(length: Duration, one: &impl Fn()) -> f64 {
    const BETWEEN: u32 = 50;
    let began = clock::mono_now();
    let mut calls = 0;
    loop {
        for _ in 0..BETWEEN {
            one();
        }
        calls += BETWEEN;
        let spent = clock::mono_now().since(began);
        if spent >= length {
            return spent.as_nanos() as f64 / f64::from(calls);
        }
    }
}
