//! What can be typed after `steadfast keys`.

use clap::{Args, Subcommand};
use steadfast_core::record::State;

use super::StoreArgs;

/// `steadfast keys …`
#[derive(Clone, Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key
    ///
    /// A random UUID (version 4), for the header Idempotency-Key of one operation.
    New(NewKeyArgs),
    /// List records
    ///
    /// A table on a terminal; piped, a line a record with tabs between id, state, effect, status,
    /// updated and operation.
    #[command(after_long_help = "\
Examples:
  steadfast keys list --state unknown --older-than 10m
  steadfast keys list --key 0f8fad5b-d9cb-469f-a165-70867728950e --principal 'Bearer abc'")]
    List(ListArgs),
    /// Show one record and its history
    Show(ShowArgs),
    /// Settle a record whose outcome is unknown: give the answer that its callers get
    ///
    /// Asks first. Look at the service before: it is the only one to know.
    #[command(after_long_help = "\
Example:
  steadfast keys resolve ID --status 201 --header 'Content-Type: text/plain' --body @order.txt")]
    Resolve(ResolveArgs),
    /// Settle records whose outcome is unknown: they were not executed, their keys may run again
    ///
    /// Says how many records they are, and asks first. A filter means those of its records that
    /// can be released: unknown and deferred ones, and at work only those whose lease is over.
    #[command(after_long_help = "\
Examples:
  steadfast keys release ID
  steadfast keys release --state unknown --older-than 1h")]
    Release(ReleaseArgs),
    /// Do by hand what a gateway does with time: write lost leases down, and remove expired records
    ///
    /// Counts what is due, and asks first. It executes nothing, works beside a running gateway, and
    /// removes nothing while the store's date is ahead of the machine's clock by more than 30s.
    #[command(after_long_help = "Example:\n  steadfast keys sweep --yes")]
    Sweep(SweepArgs),
    /// Count records: by state, by tenant, and what is due
    #[command(after_long_help = "Example:\n  steadfast keys stats --top 20")]
    Stats(StatsArgs),
}

/// `steadfast keys new`
#[derive(Args, Clone, Debug)]
pub struct NewKeyArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which records are meant.
#[derive(Args, Clone, Debug, Default)]
pub struct FilterArgs {
    /// In this state: reserved, dispatched, completed, unknown, released or deferred
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub state: Option<State>,
    /// Not changed for this long, with its unit (ms, s, m, h or d), such as 10m
    #[arg(long, value_name = "LENGTH")]
    pub older_than: Option<String>,
    /// Whose lease is over
    #[arg(long)]
    pub expired_lease: bool,
    /// Held by this owner, as records show it
    #[arg(long, value_name = "OWNER")]
    pub owner: Option<String>,
    /// Under this key; needs --principal
    #[arg(long, value_name = "KEY", requires = "principal")]
    pub key: Option<String>,
    /// Of this principal; needs --key
    ///
    /// The tenant that records show, or the whole Authorization value that its caller sends, such
    /// as 'Bearer abc'.
    #[arg(long, value_name = "TENANT", requires = "key")]
    pub principal: Option<String>,
    /// At most so many [default: 100 for list, no bound for release]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

impl FilterArgs {
    /// Whether nothing narrows the records down. A bound on their number does not.
    pub fn is_empty(&self) -> bool {
        self.state.is_none()
            && self.older_than.is_none()
            && !self.expired_lease
            && self.owner.is_none()
            && self.key.is_none()
            && self.principal.is_none()
    }
}

fn state(word: &str) -> Result<State, String> {
    State::parse(word).ok_or_else(|| {
        let words: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("write one of {}", words.join(", "))
    })
}

/// `steadfast keys list`
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Which records.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print JSON: an array
    #[arg(long)]
    pub json: bool,
}

/// `steadfast keys show`
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// The operation's id, as `keys list` shows it
    #[arg(value_name = "ID")]
    pub id: String,
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `steadfast keys resolve`
#[derive(Args, Clone, Debug)]
pub struct ResolveArgs {
    /// The operation's id, as `keys list` shows it
    #[arg(value_name = "ID")]
    pub id: String,
    /// The answer's status, 200 to 599
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub status: u16,
    /// A field of the answer, such as 'Content-Type: application/json'; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The answer's body: the text, @FILE, or - for standard input [default: none]
    #[arg(long, value_name = "DATA", allow_hyphen_values = true)]
    pub body: Option<String>,
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Do not ask; needed where there is no terminal
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `steadfast keys release`
#[derive(Args, Clone, Debug)]
pub struct ReleaseArgs {
    /// The operations' ids; or name records by the flags below
    #[arg(
        value_name = "ID",
        conflicts_with_all = ["state", "older_than", "expired_lease", "owner", "key", "limit"]
    )]
    pub ids: Vec<String>,
    /// Which records.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Do not ask; needed where there is no terminal
    #[arg(long)]
    pub yes: bool,
    /// Print JSON: an array of the released records
    #[arg(long)]
    pub json: bool,
}

impl ReleaseArgs {
    /// Whether nothing says which records are meant: refused, for it would mean all.
    pub fn names_nothing(&self) -> bool {
        self.ids.is_empty() && self.filter.is_empty()
    }
}

/// `steadfast keys sweep`
#[derive(Args, Clone, Debug)]
pub struct SweepArgs {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Do not ask; needed where there is no terminal
    #[arg(long)]
    pub yes: bool,
    /// Print JSON: {"recovered","expired","expiry_stopped"}
    #[arg(long)]
    pub json: bool,
}

/// `steadfast keys stats`
#[derive(Args, Clone, Debug)]
pub struct StatsArgs {
    /// Show so many tenants, those with most live records first
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=1000))]
    pub top: u32,
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
