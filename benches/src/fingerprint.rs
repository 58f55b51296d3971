//! Fingerprints beside the least that one has to do: parsing and writing a JSON body again with its
//! members sorted; one keyed digest over the same framed bytes.

use std::hint::black_box;

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderValue, Method, header};
use sha2::Sha256;
use steadfast::clock;
use steadfast_core::fingerprint::{
    BodyMode, Fingerprint, FingerprintOptions, FingerprintSecret, RequestView,
};

use crate::{Failure, Window, rows, turns};

/// Bytes of the JSON body.
const JSON_BYTES: usize = 1024;

/// Bodies that are read by their bytes.
const BYTES: [usize; 2] = [1024, 16 * 1024];

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
    turns::compare(window.round, part, ("fingerprint.json", 1), &ours, &sorted);
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
        turns::compare(
            window.round,
            part,
            (&format!("fingerprint.bytes.{bytes}"), 1),
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
