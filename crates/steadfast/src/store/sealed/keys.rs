//! Keys by name, and bytes that only their holder can read or make.
//!
//! Decides how bytes are encrypted and what is refused when they are opened. It refuses to know
//! what they are: whoever seals says in `bound` to what the bytes belong, and bytes that are met
//! anywhere else do not open. Source: AES-256-GCM with random nonces (NIST SP 800-38D, 8.2.2);
//! requirement S2.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::clock;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Longest name of a key, in characters: it stands beside everything that is sealed with it.
pub const LONGEST_ID: usize = 64;

/// How sealed bytes begin, and what follows: the nonce, then what was encrypted and its tag.
const VERSION: u8 = 1;

/// A key that cannot be used. The text never shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The name is empty, too long, or has characters other than letters, digits, `.`, `_`, `-`.
    Id(String),
    /// Two keys have this name.
    Twice(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Id(id) => write!(
                f,
                "`{id}` names no key; write 1 to {LONGEST_ID} letters, digits, dots, underlines or \
                 hyphens"
            ),
            KeyError::Twice(id) => {
                write!(f, "two keys are named `{id}`; give each a name of its own")
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// One key and its name. No form of it shows the key.
pub struct SealingKey {
    id: String,
    key: LessSafeKey,
}

impl SealingKey {
    /// The key of these 32 bytes, under the name `id`.
    ///
    /// # Errors
    /// [`KeyError::Id`] where the name cannot stand in a store.
    pub fn new(id: &str, bytes: &[u8; KEY_BYTES]) -> Result<SealingKey, KeyError> {
        if !is_id(id) {
            return Err(KeyError::Id(id.to_owned()));
        }
        let key = UnboundKey::new(&AES_256_GCM, bytes).expect("the length is that of the cipher");
        Ok(SealingKey {
            id: id.to_owned(),
            key: LessSafeKey::new(key),
        })
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id)
    }
}

/// Whether a key can have this name: one that stands in a header field as it is.
pub(super) fn is_id(id: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(fits)
}

/// Keys by name: the first seals, all open. Without a key nothing is sealed.
#[derive(Clone, Debug, Default)]
pub struct Keys(Arc<[SealingKey]>);

/// Bytes that were sealed, and with which key.
pub(crate) struct SealedBytes<'a> {
    /// The key's name.
    pub(crate) id: &'a str,
    /// Version, nonce, what was encrypted, tag.
    pub(crate) bytes: Vec<u8>,
}

/// Why sealed bytes do not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// No key of this name is here; these are.
    NoKey(String, Vec<String>),
    /// The key of this name does not fit, or the bytes were changed or belong elsewhere.
    Refused(String),
    /// They are of a version that is not known here.
    Version(Option<u8>),
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotOpened::NoKey(id, here) if here.is_empty() => write!(
                f,
                "it is encrypted with the key `{id}`, and no key is given here; name the \
                 configuration whose `encrypt_with` has it (`--config FILE`)"
            ),
            NotOpened::NoKey(id, here) => write!(
                f,
                "it is encrypted with the key `{id}`, which is not among those given here ({}); \
                 add it to `encrypt_with`, behind the first",
                here.join(", ")
            ),
            NotOpened::Refused(id) => write!(
                f,
                "it does not open with the key `{id}`: the key is another one of this name, or the \
                 record was changed or moved; put the right key under this name, or restore the \
                 store from a backup"
            ),
            NotOpened::Version(version) => write!(
                f,
                "it is encrypted in a form ({version:?}) that this version of steadfast does not \
                 know; run the version that wrote it"
            ),
        }
    }
}

impl Keys {
    /// These keys, the first of which seals.
    ///
    /// # Errors
    /// [`KeyError::Twice`] where two have the same name.
    pub fn new(keys: Vec<SealingKey>) -> Result<Keys, KeyError> {
        for (at, key) in keys.iter().enumerate() {
            if keys[..at].iter().any(|other| other.id == key.id) {
                return Err(KeyError::Twice(key.id.clone()));
            }
        }
        Ok(Keys(keys.into()))
    }

    /// Whether there is no key, so that nothing is sealed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names, the sealing key's first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(SealingKey::id)
    }

    /// `plain` for nobody but holders of the first key, and for nowhere but `bound`; `None` where
    /// there is no key.
    pub(crate) fn seal(&self, plain: &[u8], bound: &Bound) -> Option<SealedBytes<'_>> {
        let SealingKey { id, key } = self.0.first()?;
        let nonce: [u8; NONCE_LEN] = clock::random();
        let room = 1 + NONCE_LEN + plain.len() + AES_256_GCM.tag_len();
        let mut bytes = Vec::with_capacity(room);
        bytes.push(VERSION);
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(plain);
        let (_, message) = bytes.split_at_mut(1 + NONCE_LEN);
        let tag = key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(bound.with_key(id)),
                message,
            )
            .expect("no message in memory is too long for the cipher");
        bytes.extend_from_slice(tag.as_ref());
        Some(SealedBytes { id, bytes })
    }

    /// What was sealed with the key `id` for `bound`.
    pub(crate) fn open(&self, id: &str, bytes: &[u8], bound: &Bound) -> Result<Vec<u8>, NotOpened> {
        let key = self.0.iter().find(|key| key.id == id).ok_or_else(|| {
            let here = self.ids().map(str::to_owned).collect();
            NotOpened::NoKey(id.to_owned(), here)
        })?;
        let Some((&VERSION, rest)) = bytes.split_first() else {
            return Err(NotOpened::Version(bytes.first().copied()));
        };
        let refused = || NotOpened::Refused(id.to_owned());
        let (nonce, message) = rest.split_first_chunk().ok_or_else(refused)?;
        let mut message = message.to_vec();
        let length = key
            .key
            .open_in_place(
                Nonce::assume_unique_for_key(*nonce),
                Aad::from(bound.with_key(id)),
                &mut message,
            )
            .map_err(|_| refused())?
            .len();
        message.truncate(length);
        Ok(message)
    }
}

/// To what sealed bytes belong: parts, each behind its length, so that no two lists of parts are
/// the same bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bound(Vec<u8>);

impl Bound {
    /// These parts, in this order.
    pub(crate) fn to(parts: &[&[u8]]) -> Bound {
        let mut bound = Bound::default();
        for part in parts {
            bound.push(part);
        }
        bound
    }

    fn push(&mut self, part: &[u8]) {
        self.0.extend_from_slice(&(part.len() as u64).to_be_bytes());
        self.0.extend_from_slice(part);
    }

    fn with_key(&self, id: &str) -> Vec<u8> {
        let mut whole = self.clone();
        whole.push(id.as_bytes());
        whole.push(&[VERSION]);
        whole.0
    }
}
