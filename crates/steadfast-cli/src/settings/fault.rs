//! What is wrong with a configuration, said so that a person can put it right.
//!
//! Decides the wording's frame: place, setting, reason, next step. A fault is collected, not
//! thrown: one run names them all.

use std::fmt;

use serde_json::{Value, json};

use super::environment::Environment;

/// Most faults that are printed: more of them have one cause.
const MOST_PRINTED: usize = 50;

/// Longest part of a message, in characters: what is longer quotes a value that is no setting.
const MOST_SHOWN: usize = 400;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A file; no line where the file itself is meant.
    File {
        /// As it was named.
        path: String,
        /// From 1.
        line: Option<usize>,
    },
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl Place {
    /// A line of the same file. What is no file has no lines, and stays what it is.
    pub fn line(&self, line: usize) -> Place {
        match self {
            Place::File { path, .. } => Place::File {
                path: path.clone(),
                line: Some(line),
            },
            other => other.clone(),
        }
    }

    /// Whether the place says already which setting is meant: `--listen`, `STEADFAST_LISTEN`.
    fn names(&self, setting: &str) -> bool {
        match self {
            Place::File { .. } => false,
            Place::Variable(name) => *name == Environment::variable(setting),
            Place::Flag(name) => name.strip_prefix("--") == Some(setting),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, line: None } => f.write_str(path),
            Place::File {
                path,
                line: Some(line),
            } => write!(f, "{path}:{line}"),
            Place::Variable(name) => f.write_str(name),
            Place::Flag(name) => f.write_str(name),
        }
    }
}

/// What kind of fault it is. The slug is part of `config check --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The file, or a file it names, cannot be read.
    Unreadable,
    /// The file is no TOML.
    Syntax,
    /// No setting has this name.
    UnknownName,
    /// A value of another type.
    WrongType,
    /// A value of the right type that the setting cannot have.
    Invalid,
    /// A setting or a value that this build does not act on.
    NotYetSupported,
    /// Two settings, each sound, that cannot hold together.
    Contradiction,
    /// A setting that has no default is not there.
    Missing,
}

impl Kind {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Unreadable => "unreadable",
            Kind::Syntax => "syntax",
            Kind::UnknownName => "unknown-name",
            Kind::WrongType => "wrong-type",
            Kind::Invalid => "invalid",
            Kind::NotYetSupported => "not-yet-supported",
            Kind::Contradiction => "contradiction",
            Kind::Missing => "missing",
        }
    }
}

/// A value that cannot be read, before it is known where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What kind of fault.
    pub kind: Kind,
    /// What is wrong, as a clause.
    pub reason: String,
    /// What to do, as an imperative.
    pub next: String,
}

impl Wrong {
    /// A fault of `kind`.
    pub fn new(kind: Kind, reason: impl Into<String>, next: impl Into<String>) -> Wrong {
        Wrong {
            kind,
            reason: reason.into(),
            next: next.into(),
        }
    }

    /// A value that the setting cannot have.
    pub fn invalid(reason: impl Into<String>, next: impl Into<String>) -> Wrong {
        Wrong::new(Kind::Invalid, reason, next)
    }

    /// The same, with its place.
    pub fn at(self, place: Place, setting: impl Into<String>) -> Fault {
        Fault {
            place,
            setting: setting.into(),
            kind: self.kind,
            reason: self.reason,
            next: self.next,
        }
    }
}

/// One thing that is wrong, with its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Where it stands.
    pub place: Place,
    /// The setting's path, e.g. `defaults.timeouts.attempt`; empty where the file itself is meant.
    pub setting: String,
    /// What kind of fault.
    pub kind: Kind,
    /// What is wrong, as a clause.
    pub reason: String,
    /// What to do, as an imperative.
    pub next: String,
}

/// One thing that is sound, but may not be meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Where it stands; none for what comes from defaults.
    pub place: Option<Place>,
    /// The setting's path.
    pub setting: String,
    /// What follows from it, as a clause.
    pub reason: String,
    /// What to do, as an imperative.
    pub next: String,
}

fn sentence(
    f: &mut fmt::Formatter<'_>,
    place: Option<&Place>,
    severity: &str,
    (setting, reason, next): (&str, &str, &str),
) -> fmt::Result {
    let named = place.is_some_and(|place| place.names(setting));
    if named {
        write!(f, "{severity}: ")?;
    }
    if let Some(place) = place {
        write!(f, "{}: ", printable(&place.to_string()))?;
    }
    if !named {
        write!(f, "{severity}: ")?;
    }
    if !named && !setting.is_empty() {
        write!(f, "{}: ", printable(setting))?;
    }
    write!(f, "{}; {}.", printable(reason), printable(next))
}

/// Text of a wrong file, as a terminal may show it: without control characters, and not without
/// end.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(MOST_SHOWN));
    for (index, c) in text.chars().enumerate() {
        match c {
            _ if index == MOST_SHOWN => {
                shown.push('…');
                break;
            }
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = (&*self.setting, &*self.reason, &*self.next);
        sentence(f, Some(&self.place), "error", parts)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = (&*self.setting, &*self.reason, &*self.next);
        sentence(f, self.place.as_ref(), "warning", parts)
    }
}

fn place_json(place: Option<&Place>) -> (Value, Value) {
    match place {
        Some(Place::File { path, line }) => (json!(path), json!(line)),
        Some(other) => (json!(other.to_string()), Value::Null),
        None => (Value::Null, Value::Null),
    }
}

impl Fault {
    /// `{"place","line","setting","kind","reason","next"}`.
    pub fn json(&self) -> Value {
        let (place, line) = place_json(Some(&self.place));
        json!({
            "place": place, "line": line, "setting": self.setting, "kind": self.kind.as_str(),
            "reason": self.reason, "next": self.next,
        })
    }
}

impl Warning {
    /// `{"place","line","setting","reason","next"}`.
    pub fn json(&self) -> Value {
        let (place, line) = place_json(self.place.as_ref());
        json!({
            "place": place, "line": line, "setting": self.setting,
            "reason": self.reason, "next": self.next,
        })
    }
}

/// Everything that is wrong, in reading order, each once. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Sorted and without repetition: a fault of `[defaults]` is met once per route.
    /// `Ok` where nothing is wrong.
    pub fn none(mut faults: Vec<Fault>) -> Result<(), Faults> {
        faults.sort();
        faults.dedup();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(Faults(faults))
        }
    }

    /// The faults, at least one.
    pub fn list(&self) -> &[Fault] {
        &self.0
    }

    /// Whether the command line alone is at fault: that is wrong usage, not wrong configuration.
    pub fn is_usage(&self) -> bool {
        let typed = |fault: &Fault| matches!(fault.place, Place::Flag(_));
        self.0.iter().all(typed)
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Faults(vec![fault])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in self.0.iter().take(MOST_PRINTED) {
            writeln!(f, "{fault}")?;
        }
        match self.0.len().checked_sub(MOST_PRINTED) {
            Some(more) if more > 0 => writeln!(f, "… and {more} more; correct the first ones."),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Faults {}
