//! What can be typed after `steadfast deferred`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use http::{HeaderName, HeaderValue};

use super::StoreArgs;
use super::call::field;

/// `steadfast deferred …`
#[derive(Clone, Debug, Subcommand)]
pub enum DeferredCommand {
    /// List what the queue keeps: when it goes next, and why it has not ended yet
    ///
    /// A table on a terminal; piped, a line an operation with tabs between id, state, runs, next,
    /// given up at, operation and last reason.
    #[command(after_long_help = "Example:\n  steadfast deferred list --config steadfast.toml")]
    List(DeferredListArgs),
    /// Show one operation in the queue and its history
    Show(DeferredShowArgs),
    /// Send what is due now, or one operation at once, and wait for the ends
    ///
    /// Sends what `call --defer` handed over. Operations of a gateway's routes need --config, whose
    /// routes say where they go; a running gateway sends them by itself.
    #[command(after_long_help = "\
Exit codes: the first that fits of 7 (an outcome is unknown), 9 (something is still deferred),
5 and 4 (a final 5xx or 4xx), 0.

Example:
  steadfast deferred run --store sqlite:outbox.db -H 'Authorization: Bearer abc'")]
    Run(DeferredRunArgs),
    /// Take an operation out of the queue that was never sent
    ///
    /// Asks first. Every repeat of its request is answered 410 from then on. Refused once it may
    /// have been sent.
    Drop(DropArgs),
}

/// `steadfast deferred list`
#[derive(Args, Clone, Debug)]
pub struct DeferredListArgs {
    /// At most so many
    #[arg(
        long, value_name = "N", default_value = "100",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub limit: u32,
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print JSON: an array
    #[arg(long)]
    pub json: bool,
}

/// `steadfast deferred show`
#[derive(Args, Clone, Debug)]
pub struct DeferredShowArgs {
    /// The operation's id, as `deferred list` shows it
    #[arg(value_name = "ID")]
    pub id: String,
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `steadfast deferred run`
#[derive(Args, Clone, Debug)]
pub struct DeferredRunArgs {
    /// This operation alone, whenever it is due
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// The store, such as sqlite:outbox.db [default: STEADFAST_STORE, else sqlite:steadfast.db]
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub store: Option<String>,
    /// A gateway's whole configuration: its store, and its routes
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A field for what `call --defer` handed over, such as 'Authorization: Bearer abc'; may be
    /// repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Print JSON: an array of what came of each operation
    #[arg(long)]
    pub json: bool,
}

/// `steadfast deferred drop`
#[derive(Args, Clone, Debug)]
pub struct DropArgs {
    /// The operation's id, as `deferred list` shows it
    #[arg(value_name = "ID")]
    pub id: String,
    /// Do it without asking
    #[arg(long)]
    pub yes: bool,
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print JSON: the record
    #[arg(long)]
    pub json: bool,
}
