//! Secrets: where one is kept, and the text that was found there.
//!
//! Decides that a secret never stands in the configuration itself. No message and no `Debug` form
//! shows one. Source: docs/reference.md, "Configuration"; S2.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::document::Value;
use super::environment::Environment;
use super::fault::{Kind, Wrong};

/// Largest secret, in bytes; a larger file is not one.
const LARGEST: u64 = 4096;

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An environment variable.
    Variable(String),
    /// A file, relative to the working directory.
    File(String),
}

impl Source {
    /// As it is written in the configuration.
    pub fn written(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Source::Variable(name) => format!("{{ env = {} }}", quoted(name)),
            Source::File(path) => format!("{{ file = {} }}", quoted(path)),
        }
    }
}

/// A secret and where it came from.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    source: Source,
    text: String,
}

impl Secret {
    /// The secret itself. Never to be shown.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Where it came from.
    pub fn source(&self) -> &Source {
        &self.source
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({:?})", self.source)
    }
}

const HELP: &str = "write { env = \"NAME\" } or { file = \"PATH\" }";

fn source(value: &Value) -> Result<Source, Wrong> {
    let table = match value {
        Value::Table(table) => table,
        Value::Text(_) => {
            return Err(Wrong::invalid(
                "a secret does not stand in the configuration itself",
                HELP,
            ));
        }
        other => {
            let reason = format!("{} stands where a secret's place is expected", other.kind());
            return Err(Wrong::new(Kind::WrongType, reason, HELP));
        }
    };
    let members: Vec<_> = table.iter().map(|(name, e)| (&**name, &e.value)).collect();
    place(&members).ok_or_else(|| {
        let reason = match members[..] {
            [_] => "this names no place of a secret",
            _ => "a secret has exactly one place",
        };
        Wrong::invalid(reason, HELP)
    })
}

/// The place that these members of a table name.
pub(super) fn place(members: &[(&str, &Value)]) -> Option<Source> {
    match members {
        [("env", Value::Text(name))] if !name.is_empty() => Some(Source::Variable(name.clone())),
        [("file", Value::Text(path))] if !path.is_empty() => Some(Source::File(path.clone())),
        _ => None,
    }
}

/// The secret that `value` points at: at least `shortest` bytes of visible ASCII. One line break at
/// its end, as editors leave it, does not count.
pub fn read(value: &Value, shortest: usize, environment: &Environment) -> Result<Secret, Wrong> {
    let source = source(value)?;
    let text = String::from_utf8(found(&source, environment)?).map_err(|_| {
        let next = "make one with `openssl rand -hex 32`";
        Wrong::new(Kind::Unreadable, "the secret is no UTF-8", next)
    })?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.len() < shortest {
        return Err(Wrong::invalid(
            format!("the secret has fewer than {shortest} characters"),
            "make one with `openssl rand -hex 32`",
        ));
    }
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Wrong::invalid(
            "the secret has characters other than visible ASCII",
            "make one with `openssl rand -hex 32`",
        ));
    }
    let text = text.to_owned();
    Ok(Secret { source, text })
}

/// The bytes at `source`.
pub(super) fn found(source: &Source, environment: &Environment) -> Result<Vec<u8>, Wrong> {
    match source {
        Source::Variable(name) => {
            let text = environment.get(name).flatten().ok_or_else(|| {
                let reason = format!("the environment variable `{name}` is not set, or no UTF-8");
                Wrong::new(Kind::Unreadable, reason, "set it, or name another")
            })?;
            Ok(text.as_bytes().to_vec())
        }
        Source::File(path) => read_file(Path::new(path)).map_err(|reason| {
            let reason = format!("`{path}` cannot be read: {reason}");
            let next = "correct the path or its permissions";
            Wrong::new(Kind::Unreadable, reason, next)
        }),
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it is larger than {LARGEST} bytes"));
    }
    Ok(bytes)
}
