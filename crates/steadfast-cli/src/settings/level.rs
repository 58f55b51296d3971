//! One level of the file (the top, `[defaults]`, one `[[route]]`) as settings with their entries.
//!
//! Decides which names are settings here, and refuses the rest: unknown names with the nearest one,
//! and settings that this build does not act on. Nested tables become paths, so that laying one
//! level over another is a look-up.

use std::collections::BTreeMap;

use super::document::{Entry, Table, Value};
use super::fault::{Fault, Kind, Place, Wrong};
use super::names::{Level, SETTINGS, Setting, Support, allowed_in, find, nearest};
use super::value::wrong_type;

/// Heads of tables that are levels of their own.
pub const DEFAULTS: &str = "defaults";
/// The list of routes.
pub const ROUTE: &str = "route";

/// The settings written at one level.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// What stands before a setting's path in messages: nothing, `defaults.`, `route "charges": `.
    pub label: String,
    /// By path.
    entries: BTreeMap<&'static str, Entry>,
}

impl Written {
    /// A level that no file has: values that stand for what was typed.
    pub fn typed(values: impl IntoIterator<Item = (&'static str, Value)>) -> Written {
        let entry = |value| Entry { line: 0, value };
        let entries = values.into_iter().map(|(name, value)| (name, entry(value)));
        Written {
            label: String::new(),
            entries: entries.collect(),
        }
    }

    /// What was written for a setting.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }
}

/// Reads levels of one file.
pub struct Walker<'a> {
    /// The file.
    pub file: &'a Place,
    /// Where faults go.
    pub faults: &'a mut Vec<Fault>,
}

impl Walker<'_> {
    /// The settings of a level.
    pub fn level(&mut self, table: &Table, level: Level, label: &str) -> Written {
        let mut written = Written {
            label: label.to_owned(),
            entries: BTreeMap::new(),
        };
        self.table(table, level, "", &mut written);
        written
    }

    fn table(&mut self, table: &Table, level: Level, prefix: &str, written: &mut Written) {
        for (name, entry) in table {
            let path = format!("{prefix}{name}");
            let is_head = level == Level::Top && [DEFAULTS, ROUTE].contains(&&*path);
            if is_head {
                continue;
            }
            // A name with a dot in it was quoted, and is not the path that it looks like.
            let is_plain = !name.contains('.');
            if let Some(setting) = find(level, &path).filter(|_| is_plain) {
                self.setting(setting, entry, written);
            } else if is_plain && members(level, &path).next().is_some() {
                self.group(level, &path, entry, written);
            } else {
                let wrong = unknown(level, prefix, name);
                let path = format!("{prefix}{}", shorten(name));
                self.fault(wrong, entry, written, &path);
            }
        }
    }

    fn group(&mut self, level: Level, path: &str, entry: &Entry, written: &mut Written) {
        match &entry.value {
            Value::Table(table) if !table.is_empty() => {
                self.table(table, level, &format!("{path}."), written);
            }
            // An empty table asks for nothing where its settings have defaults. Where none is acted
            // on, its presence is the request.
            Value::Table(_) => {
                let support = members(level, path).map(|setting| setting.support);
                let support: Option<Vec<&str>> = support.map(refused_outright).collect();
                if let Some(instead) = support.and_then(|all| all.first().copied()) {
                    let wrong = not_yet(instead, &[]);
                    self.fault(wrong, entry, written, path);
                }
            }
            other => {
                let example = members(level, path).next().map_or("", |member| {
                    let name = member.name;
                    &name[path.len() + 1..]
                });
                let wrong = wrong_type(other, "a table", &format!("{{ {example} = … }}"));
                self.fault(wrong, entry, written, path);
            }
        }
    }

    fn setting(&mut self, setting: &'static Setting, entry: &Entry, written: &mut Written) {
        match setting.support {
            Support::Acted => {
                written.entries.insert(setting.name, entry.clone());
            }
            Support::NotYet { instead, accepts } => {
                if !accepts.iter().any(|accepted| accepted.is(&entry.value)) {
                    let values: Vec<String> = accepts.iter().map(|a| a.written()).collect();
                    self.fault(not_yet(instead, &values), entry, written, setting.name);
                }
            }
        }
    }

    fn fault(&mut self, wrong: Wrong, entry: &Entry, written: &Written, path: &str) {
        let place = self.file.line(entry.line);
        let setting = format!("{}{path}", written.label);
        self.faults.push(wrong.at(place, setting));
    }
}

/// Settings in the table `path`.
fn members(level: Level, path: &str) -> impl Iterator<Item = &'static Setting> {
    allowed_in(level).filter(move |setting| {
        let below = setting.name.strip_prefix(path);
        below.is_some_and(|below| below.starts_with('.'))
    })
}

fn refused_outright(support: Support) -> Option<&'static str> {
    match support {
        Support::NotYet {
            instead,
            accepts: [],
        } => Some(instead),
        _ => None,
    }
}

fn not_yet(instead: &str, accepted: &[String]) -> Wrong {
    let next = match accepted {
        [] => "remove it".to_owned(),
        values => format!("remove it, or write {}", values.join(" or ")),
    };
    let reason = format!("not yet supported: {instead}");
    Wrong::new(Kind::NotYetSupported, reason, next)
}

/// What to say of a name that is no setting at `level`, in the table `prefix`.
fn unknown(level: Level, prefix: &str, name: &str) -> Wrong {
    let unknown = |reason: String, next: String| Wrong::new(Kind::UnknownName, reason, next);
    let path = format!("{prefix}{name}");
    let shown = shorten(name);
    if name.contains('.') && find(level, &path).is_some() {
        let reason = format!("the quotes make `{shown}` one name, and no setting has it");
        return unknown(reason, "write it without quotes".to_owned());
    }
    if let Some(elsewhere) = SETTINGS.iter().find(|setting| {
        let head = setting.name.strip_prefix(&path);
        head.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }) {
        let home = match elsewhere.level {
            Level::Top => "to the top of the file, before the first table",
            Level::Shared => "into [defaults] or a [[route]]",
            Level::Route => "into a [[route]]",
        };
        return unknown(
            format!("`{shown}` does not stand here"),
            format!("move it {home}"),
        );
    }
    let here = allowed_in(level).filter_map(|setting| setting.name.strip_prefix(prefix));
    let mut siblings: Vec<&str> = here
        .map(|rest| rest.split_once('.').map_or(rest, |(first, _)| first))
        .collect();
    if level == Level::Top && prefix.is_empty() {
        siblings.extend([DEFAULTS, ROUTE]);
    }
    siblings.dedup();
    let last = |setting: &&Setting| setting.name.rsplit('.').next() == Some(name);
    let moved = allowed_in(level).find(last).map(|setting| setting.name);
    let offered = moved.or_else(|| nearest(name, siblings.iter().copied()));
    match offered {
        Some(near) => unknown(
            format!("`{shown}` is not a setting"),
            format!("did you mean `{near}`? Correct the name"),
        ),
        None => unknown(
            format!("`{shown}` is not a setting"),
            format!("remove it; settings here are {}", siblings.join(", ")),
        ),
    }
}

/// A name as a message shows it: wrong files may have names without end.
fn shorten(name: &str) -> String {
    const MOST: usize = 60;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
