//! Whether a request that carries a known key is the request that the key was first used for.
//!
//! Decides equality of requests, and keeps of a request only an HMAC. It refuses to know records
//! and keys. Rule: what a caller's library may change between two sends of one request does not
//! count (the order of JSON members, a multipart boundary), everything else does; in doubt the
//! bytes count. A record keeps version, secret and options of its fingerprint, and a comparison
//! uses these, so that an upgrade, a new secret or a changed route never makes a repeat look like
//! another request. Sources: docs/keyed-requests.md, "Fingerprint"; I2, I5; RFC 8259, RFC 7578,
//! RFC 2104.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, Method, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

mod body;
mod form;
pub(crate) mod frame;
mod json;
mod multipart;
mod options;
#[cfg(test)]
mod tests;
mod text;

pub use options::{BodyMode, FingerprintOptions, JsonPointer, MAX_IGNORED, OptionsError};
pub use text::TextError;

pub(crate) use body::essence;
use frame::{put_length, put_part};

/// The version that new fingerprints have. Any change to what goes into a digest raises it, and
/// keeps the code of the old one for the retention.
pub const VERSION: u8 = 1;

const LABEL: &[u8] = b"steadfast fingerprint v1";

/// The conditions that change what a request does. Their order is part of version 1.
const CONDITIONS: [HeaderName; 3] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_UNMODIFIED_SINCE,
];

/// A secret that fingerprints are made with, and its number. Rotated by making new fingerprints
/// with a new one and keeping the old one readable for the retention.
#[derive(Clone)]
pub struct FingerprintSecret {
    id: u32,
    /// Keyed once: two of the compressions of every digest are already done.
    keyed: Hmac<Sha256>,
}

impl FingerprintSecret {
    /// The secret of 32 random bytes, named `id` in records.
    pub fn new(id: u32, bytes: &[u8; 32]) -> Self {
        let keyed = Hmac::new_from_slice(bytes).expect("HMAC takes a key of any length");
        FingerprintSecret { id, keyed }
    }

    /// The number that records name it by.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The number and the bytes of a secret that an operator wrote as text. The number tells two
    /// texts apart and nothing of either; it is never the small one that stores give their own
    /// secret.
    pub fn of_text(text: &str) -> (u32, [u8; 32]) {
        let bytes: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let named = Sha256::new_with_prefix(b"steadfast secret id v1");
        let name: [u8; 32] = named.chain_update(bytes).finalize().into();
        let id = u32::from_be_bytes([name[0], name[1], name[2], name[3]]);
        (id | 1 << 31, bytes)
    }
}

impl fmt::Debug for FingerprintSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FingerprintSecret({})", self.id)
    }
}

/// The parts of a request that a fingerprint may look at.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The method.
    pub method: &'a Method,
    /// Path and query as the caller sent them.
    pub path_and_query: &'a [u8],
    /// The header fields; the content type, the content encoding and the conditions are read.
    pub headers: &'a HeaderMap,
    /// The whole body, as sent; empty where there is none.
    pub body: &'a [u8],
}

/// What is kept of a request to know it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    version: u8,
    secret_id: u32,
    options: FingerprintOptions,
    digest: [u8; 32],
}

/// A stored fingerprint that cannot be compared. The record must not be executed again on its
/// account: the answer is 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Made by a newer program.
    Version(u8),
    /// Made with a secret that is not among the given ones.
    Secret(u32),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Version(version) => write!(
                f,
                "The record's fingerprint has version {version}, and this program reads up to \
                 {VERSION}; run the newer program until the record has expired.",
            ),
            Unreadable::Secret(id) => write!(
                f,
                "The record's fingerprint was made with secret {id}, which is not configured; keep \
                 old secrets for as long as records are retained.",
            ),
        }
    }
}

impl std::error::Error for Unreadable {}

impl Fingerprint {
    /// The fingerprint of a request, by the route's options and the newest secret. The time is
    /// linear in the body, which the caller bounds, times the bounded depth of a JSON text.
    pub fn of(
        request: &RequestView<'_>,
        options: &FingerprintOptions,
        secret: &FingerprintSecret,
    ) -> Fingerprint {
        let digest = digest(request, options, secret);
        Fingerprint {
            version: VERSION,
            secret_id: secret.id,
            options: options.clone(),
            digest,
        }
    }

    /// Whether `request` is the request that this was made of, by the version, secret and options
    /// of this one. Compares in constant time.
    pub fn matches(
        &self,
        request: &RequestView<'_>,
        secrets: &[FingerprintSecret],
    ) -> Result<bool, Unreadable> {
        if self.version != VERSION {
            return Err(Unreadable::Version(self.version));
        }
        let secret = secrets.iter().find(|secret| secret.id == self.secret_id);
        let secret = secret.ok_or(Unreadable::Secret(self.secret_id))?;
        Ok(digest(request, &self.options, secret)
            .ct_eq(&self.digest)
            .into())
    }

    /// The version of its making.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The number of the secret that it was made with.
    pub fn secret_id(&self) -> u32 {
        self.secret_id
    }

    /// The options that it was made by.
    pub fn options(&self) -> &FingerprintOptions {
        &self.options
    }
}

/// Version 1. Every part is framed by its length, a field that may come in several lines by their
/// number as well, so that no two different requests give the same input.
fn digest(
    request: &RequestView<'_>,
    options: &FingerprintOptions,
    secret: &FingerprintSecret,
) -> [u8; 32] {
    let mut head = Vec::with_capacity(128 + request.path_and_query.len());
    put_part(&mut head, LABEL);
    put_part(&mut head, request.method.as_str().as_bytes());
    put_part(&mut head, request.path_and_query);
    put_length(
        &mut head,
        request.headers.get_all(header::CONTENT_TYPE).iter().count(),
    );
    for value in request.headers.get_all(header::CONTENT_TYPE) {
        put_part(
            &mut head,
            essence(value.as_bytes()).to_ascii_lowercase().as_slice(),
        );
    }
    for name in &CONDITIONS {
        put_length(&mut head, request.headers.get_all(name).iter().count());
        for value in request.headers.get_all(name) {
            put_part(&mut head, value.as_bytes());
        }
    }
    let content = body::content(request.headers, request.body, options);
    head.push(content.reading);
    put_length(&mut head, content.bytes.len());
    let mac = secret
        .keyed
        .clone()
        .chain_update(&head)
        .chain_update(&content.bytes);
    mac.finalize().into_bytes().into()
}
