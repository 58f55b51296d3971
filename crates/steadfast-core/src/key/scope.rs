//! What a key belongs to: principal, operation, and the hash that a record is found by.
//!
//! Decides which requests share one record. It refuses to know routes: adding or renaming one
//! never changes the scope of a live key. Rule: everything that a person could be recognised by
//! goes through an HMAC with a secret made with the store and never rotated. Sources:
//! docs/keyed-requests.md, "Scope"; I2; RFC 3986 sections 6.2.2.1 and 6.2.2.2; RFC 2104.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use http::Method;
use sha2::Sha256;

use super::Key;
use crate::fingerprint::frame::put_part;

/// The secret behind every scope hash of a store. Made with the store, never rotated: another
/// secret would make every live key new.
#[derive(Clone)]
pub struct ScopeSecret([u8; 32]);

impl ScopeSecret {
    /// The secret of 32 random bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        ScopeSecret(bytes)
    }

    /// HMAC-SHA256 over the parts, each framed by its length, the first of them a domain label.
    fn hash(&self, parts: &[&[u8]]) -> [u8; 32] {
        let length = parts.iter().map(|part| part.len() + 2).sum();
        let mut framed = Vec::with_capacity(length);
        for part in parts {
            put_part(&mut framed, part);
        }
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.chain_update(&framed).finalize().into_bytes().into()
    }
}

impl fmt::Debug for ScopeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeSecret(…)")
    }
}

/// The address of a record: which (principal, operation, key) it is about, without telling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeHash([u8; 32]);

impl ScopeHash {
    /// The hash that a store kept.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        ScopeHash(bytes)
    }

    /// The 32 bytes, for a store's index.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ScopeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ScopeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopeHash({self})")
    }
}

/// What one key of one principal stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScopeKind {
    /// The same key on another operation is another record.
    #[default]
    Operation,
    /// One key, one operation: the same key on another path meets the same record, and the
    /// fingerprint refuses it.
    Principal,
}

/// The address of the record of `key`, as HMAC-SHA256 of principal, operation (for
/// [`ScopeKind::Operation`] only) and key.
pub fn scope_hash(
    secret: &ScopeSecret,
    principal: &Tenant,
    operation: &Operation,
    key: &Key,
    kind: ScopeKind,
) -> ScopeHash {
    let (principal, key) = (principal.as_str().as_bytes(), key.as_str().as_bytes());
    let (method, path) = (
        operation.method.as_str().as_bytes(),
        operation.path.as_bytes(),
    );
    ScopeHash(match kind {
        ScopeKind::Operation => secret.hash(&[
            b"steadfast scope v1 operation",
            principal,
            method,
            path,
            key,
        ]),
        ScopeKind::Principal => secret.hash(&[b"steadfast scope v1 principal", principal, key]),
    })
}

/// A principal, as records name it: `anonymous`, or 128 bits of an HMAC in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(String);

/// 128 bits: two principals of one store never meet by chance, and a column stays readable.
const TENANT_BYTES: usize = 16;
const ANONYMOUS: &str = "anonymous";

impl Tenant {
    /// The principal that `value` proves. `kind` says what the value is, e.g. `authorization` or
    /// `cookie:session`: equal values of two kinds are two principals.
    pub fn of(secret: &ScopeSecret, kind: &str, value: &[u8]) -> Tenant {
        let hash = secret.hash(&[b"steadfast principal v1", kind.as_bytes(), value]);
        Tenant(
            hash[..TENANT_BYTES]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        )
    }

    /// The one principal of all requests that show none.
    pub fn anonymous() -> Tenant {
        Tenant(ANONYMOUS.to_owned())
    }

    /// The principal of a stored record; `None` if the text is not one.
    pub fn from_stored(text: &str) -> Option<Tenant> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let hashed = text.len() == TENANT_BYTES * 2 && text.bytes().all(hex);
        (hashed || text == ANONYMOUS).then(|| Tenant(text.to_owned()))
    }

    /// The text, as records and tables show it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Method and concrete path, as sent. Two spellings of one path under RFC 3986 6.2.2.1 and 6.2.2.2
/// are one operation; nothing else is normalised, and the query is not part of it.
///
/// ```
/// use steadfast_core::key::Operation;
/// let operation = Operation::new(&http::Method::POST, "/v1/%7eann/a%2fb");
/// assert_eq!(operation.to_string(), "POST /v1/~ann/a%2Fb");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    method: Method,
    path: String,
}

impl Operation {
    /// The operation of a request for `path`; what follows a `?` is left out.
    pub fn new(method: &Method, path: &str) -> Operation {
        let path = path.split_once('?').map_or(path, |(path, _query)| path);
        Operation {
            method: method.clone(),
            path: normalise(path),
        }
    }

    /// The operation of a stored record, as [`Operation`]'s `Display` wrote it; `None` if it did
    /// not.
    pub fn from_stored(text: &str) -> Option<Operation> {
        let (method, path) = text.split_once(' ')?;
        let operation = Operation::new(&Method::from_bytes(method.as_bytes()).ok()?, path);
        (operation.path == path).then_some(operation)
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path, normalised, without query.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// Escapes of unreserved characters are resolved, and the digits of all others are upper case. One
/// pass: `%2541` is not `A`. A path with a `%` that begins no escape stays as it was sent:
/// resolving an escape behind it (`%%30A`) would spell another path.
fn normalise(path: &str) -> String {
    resolve(path).unwrap_or_else(|| path.to_owned())
}

fn resolve(path: &str) -> Option<String> {
    let mut normal = String::with_capacity(path.len());
    let mut pieces = path.split('%');
    normal.push_str(pieces.next()?);
    for piece in pieces {
        let (escape, rest) = piece.split_at_checked(2)?;
        if !escape.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let byte = u8::from_str_radix(escape, 16).ok()?;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            normal.push(char::from(byte));
        } else {
            normal.push('%');
            normal.push_str(&escape.to_ascii_uppercase());
        }
        normal.push_str(rest);
    }
    Some(normal)
}
