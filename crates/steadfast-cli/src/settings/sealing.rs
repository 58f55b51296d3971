//! `encrypt_with`: the keys of what the store keeps of answers.
//!
//! Decides which spellings are a key (32 bytes as they are, or as hexadecimal digits or base64 of
//! them) and that each has a name of its own. No message and no `Debug` form shows one. Source:
//! docs/reference.md, "Configuration"; docs/operations.md, "Encryption"; S2.

use std::os::unix::fs::PermissionsExt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use steadfast::store::sealed::{KEY_BYTES, KeyError, Keys, LONGEST_ID, SealingKey};

use super::document::{Entry, Table, Value};
use super::environment::Environment;
use super::fault::{Fault, Kind, Place, Wrong};
use super::secret::{self, Source};
use super::value::wrong_type;

/// Most keys: one that writes and those of the answers that are still kept.
pub(super) const MOST_KEYS: usize = 32;

/// The keys, and where each was found.
#[derive(Clone, Debug, Default)]
pub struct Sealing {
    /// The first seals, all open; none where nothing is encrypted.
    pub keys: Keys,
    /// By name, in the same order.
    pub places: Vec<(String, Source)>,
    /// Files of them that everybody on this machine can read.
    pub exposed: Vec<String>,
}

const EXAMPLE: &str = "[{ id = \"k1\", file = \"k1.key\" }]";
const ONE: &str = "write { id = \"k1\", file = \"PATH\" } or { id = \"k1\", env = \"NAME\" }";
const MAKE: &str = "make one with `openssl rand -hex 32`";

/// Reads the setting; every key that is wrong is told at its own line of the file.
pub fn read(
    entry: &Entry,
    whole: &Place,
    environment: &Environment,
    faults: &mut Vec<Fault>,
) -> Sealing {
    let mut refuse = |line: usize, wrong: Wrong| {
        faults.push(wrong.at(whole.line(line), "encrypt_with"));
    };
    let Value::List(list) = &entry.value else {
        refuse(
            entry.line,
            wrong_type(&entry.value, "a list of keys", EXAMPLE),
        );
        return Sealing::default();
    };
    if list.len() > MOST_KEYS {
        let next = format!("write up to {MOST_KEYS} of them");
        let reason = format!("there are {} keys", list.len());
        refuse(entry.line, Wrong::invalid(reason, next));
        return Sealing::default();
    }
    let (mut keys, mut sealing) = (Vec::new(), Sealing::default());
    for element in list {
        match key(&element.value, environment) {
            Ok((key, _)) if sealing.places.iter().any(|(id, _)| id == key.id()) => {
                let twice = KeyError::Twice(key.id().to_owned());
                refuse(element.line, named(Kind::Contradiction, &twice));
            }
            Ok((key, source)) => {
                sealing.exposed.extend(exposed(&source));
                sealing.places.push((key.id().to_owned(), source));
                keys.push(key);
            }
            Err(wrong) => refuse(element.line, wrong),
        }
    }
    match Keys::new(keys) {
        Ok(keys) => sealing.keys = keys,
        Err(error) => refuse(entry.line, named(Kind::Contradiction, &error)),
    }
    sealing
}

/// What the store says of a key, in the two halves that a fault has.
fn named(kind: Kind, error: &KeyError) -> Wrong {
    let sentence = error.to_string();
    let (reason, next) = sentence.split_once("; ").unwrap_or((&sentence, ONE));
    Wrong::new(kind, reason, next)
}

fn key(value: &Value, environment: &Environment) -> Result<(SealingKey, Source), Wrong> {
    let Value::Table(table) = value else {
        return Err(Wrong::invalid(
            format!(
                "{} stands where a key's name and place are expected",
                value.kind()
            ),
            ONE,
        ));
    };
    let (id, source) = parts(table)?;
    let bytes = secret::found(&source, environment)?;
    let bytes = of_bytes(&bytes).map_err(|reason| Wrong::invalid(reason, MAKE))?;
    let key = SealingKey::new(id, &bytes).map_err(|error| named(Kind::Invalid, &error))?;
    Ok((key, source))
}

fn parts(table: &Table) -> Result<(&str, Source), Wrong> {
    let id = table.iter().find_map(|(name, entry)| match &entry.value {
        Value::Text(id) if name == "id" => Some(&**id),
        _ => None,
    });
    let id = id.ok_or_else(|| Wrong::invalid("a key has a name, `id`, as a string", ONE))?;
    let others = table.iter().filter(|(name, _)| name != "id");
    let others: Vec<_> = others.map(|(name, e)| (&**name, &e.value)).collect();
    let source = secret::place(&others);
    let source = source.ok_or_else(|| {
        let reason = "beside its `id` a key has exactly one place, `file` or `env`";
        Wrong::invalid(reason, ONE)
    })?;
    Ok((id, source))
}

/// The key that was found, or why it is none.
fn of_bytes(found: &[u8]) -> Result<[u8; KEY_BYTES], String> {
    if let Ok(raw) = <[u8; KEY_BYTES]>::try_from(found) {
        // No random bytes look so: it is a password, or half a key in hexadecimal.
        return match raw.iter().all(u8::is_ascii_graphic) {
            true => Err(format!(
                "{KEY_BYTES} visible characters are a text and no random key"
            )),
            false => Ok(raw),
        };
    }
    let wrong = || {
        format!(
            "this is neither {KEY_BYTES} bytes nor a text of them, as {} hexadecimal digits or \
             base64 ({} bytes were found)",
            2 * KEY_BYTES,
            found.len()
        )
    };
    let text = found.trim_ascii();
    let bytes = match text.len() == 2 * KEY_BYTES {
        true => of_hex(text),
        false => STANDARD
            .decode(text)
            .or_else(|_| STANDARD_NO_PAD.decode(text))
            .ok(),
    };
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(wrong)
}

fn of_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|digit| digit as u8);
    let (pairs, _) = text.as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4) | digit(*low)?);
    pairs.iter().map(byte).collect()
}

/// The file, where everybody on this machine can read it.
fn exposed(source: &Source) -> Option<String> {
    const BY_EVERYBODY: u32 = 0o004;
    let Source::File(path) = source else {
        return None;
    };
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & BY_EVERYBODY != 0).then(|| path.clone())
}

/// The names that a schema has to keep to.
pub(super) fn id_pattern() -> String {
    format!("^[A-Za-z0-9._-]{{1,{LONGEST_ID}}}$")
}
