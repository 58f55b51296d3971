//! Why the demonstration could not be played to its end.

use std::fmt;

use super::PATIENCE;

/// Whose fault it is, and what happened.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// The machine's: no port, no room, no time.
    Machine(String),
    /// Ours: something came out that must not.
    Ours(String),
}

impl Stop {
    /// Something that this machine did not give.
    pub fn machine(what: impl Into<String>) -> Stop {
        Stop::Machine(what.into())
    }

    /// Waited in vain.
    pub fn waited(what: &str) -> Stop {
        Stop::Machine(format!(
            "waited {} s in vain for {what}",
            PATIENCE.as_secs()
        ))
    }

    /// `Ok` where it `holds`.
    pub fn unless(holds: bool, what: impl FnOnce() -> String) -> Result<(), Stop> {
        if holds {
            Ok(())
        } else {
            Err(Stop::Ours(what()))
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Machine(what) => write!(
                f,
                "the demo could not go on: {what}; give this machine some room and run it again"
            ),
            Stop::Ours(what) => write!(
                f,
                "this must not happen: {what}; run it again, and report it if it stays"
            ),
        }
    }
}

impl std::error::Error for Stop {}
