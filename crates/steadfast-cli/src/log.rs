//! The gateway's log: one event a line on standard error, as text or JSON, written by a thread of
//! its own.
//!
//! Decides what happens when nobody reads fast enough: requests do not wait. Lines that find no
//! room are dropped and counted, which is said once there is room again.

mod sink;

use std::fmt;
use std::io;
use std::sync::Arc;

use sink::{Line, Sink};
use tracing::Level;

pub use sink::lines_dropped;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: time, level, message, `name=value` for each field.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

impl Format {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Json => "json",
        }
    }
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// How lines are written.
    pub format: Format,
    /// Each attempt is a line.
    pub attempts: bool,
}

/// The log, once begun. Dropping it writes what is left, as far as somebody reads it.
pub struct Log {
    format: Format,
    sink: Arc<Sink>,
}

impl Log {
    /// Begins the log of this process: from now on its events go there.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn begin(format: Format) -> io::Result<Log> {
        let sink = Sink::start(io::stderr())?;
        let lines = Arc::clone(&sink);
        let log = tracing_subscriber::fmt()
            .with_writer(move || Line(Arc::clone(&lines)))
            .with_ansi(false)
            .with_target(false)
            .with_max_level(Level::INFO);
        // A second start in one process keeps the first log.
        let _ = match format {
            Format::Text => log.try_init(),
            Format::Json => log.json().flatten_event(true).try_init(),
        };
        Ok(Log { format, sink })
    }

    /// Tells what is for whoever started the program: plain text, or an event where lines are
    /// JSON.
    pub fn tell(&self, level: Level, text: &impl fmt::Display) {
        match (self.format, level) {
            (Format::Text, _) => self.sink.push(format!("{text}\n").as_bytes()),
            (Format::Json, Level::ERROR) => tracing::error!("{text}"),
            (Format::Json, Level::WARN) => tracing::warn!("{text}"),
            (Format::Json, _) => tracing::info!("{text}"),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.sink.end();
    }
}
