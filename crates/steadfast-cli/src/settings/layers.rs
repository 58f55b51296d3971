//! What holds on a route: its own entry, else the one of `[defaults]`, else the built-in value.
//!
//! Decides which level wins, and remembers it. Every entry is read, also one that another level
//! covers: a wrong value is wrong whether or not it is in use.

use std::collections::BTreeMap;

use super::document::{Entry, Value};
use super::fault::{Fault, Place, Wrong};
use super::level::Written;

/// Where an effective value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// Written.
    At(Place),
}

/// Origins by setting; a setting that is not there is built in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<&'static str, Origin>);

impl Origins {
    /// Where the value of a setting comes from.
    pub fn of(&self, name: &str) -> Origin {
        self.0.get(name).cloned().unwrap_or(Origin::Default)
    }

    /// Notes where the value of a setting comes from.
    pub fn set(&mut self, name: &'static str, place: Place) {
        self.0.insert(name, Origin::At(place));
    }
}

/// The levels that bear on one route, the weakest first.
pub struct Layers<'a> {
    /// The route as a whole: what is at fault where nothing was written.
    pub whole: Place,
    /// `[defaults]`, then the route.
    pub levels: [&'a Written; 2],
    /// Where faults go.
    pub faults: &'a mut Vec<Fault>,
    /// Where each value came from.
    pub origins: Origins,
}

impl<'a> Layers<'a> {
    /// The place of an entry.
    pub fn place(&self, entry: &Entry) -> Place {
        self.whole.line(entry.line)
    }

    /// The strongest level that has a setting, and its entry.
    pub fn written(&self, name: &str) -> Option<(&'a Written, &'a Entry)> {
        let found = |level: &&'a Written| level.get(name).map(|entry| (*level, entry));
        self.levels.iter().rev().find_map(found)
    }

    /// The value of a setting, as `read` understands it, or `default`.
    pub fn take<T>(
        &mut self,
        name: &'static str,
        default: T,
        read: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> T {
        let mut value = default;
        for level in self.levels {
            let Some(entry) = level.get(name) else {
                continue;
            };
            let place = self.place(entry);
            self.origins.set(name, place.clone());
            match read(&entry.value) {
                Ok(read) => value = read,
                Err(wrong) => {
                    let setting = format!("{}{name}", level.label);
                    self.faults.push(wrong.at(place, setting));
                }
            }
        }
        value
    }

    /// Notes what is wrong with the value of a setting beside others. Where it is built in, the
    /// route itself is at fault.
    pub fn refuse(&mut self, name: &str, wrong: Wrong) {
        let found = self.written(name);
        let (label, place) = match found {
            Some((level, entry)) => (&*level.label, self.place(entry)),
            None => (&*self.levels[1].label, self.whole.clone()),
        };
        let setting = format!("{label}{name}");
        self.faults.push(wrong.at(place, setting));
    }
}
