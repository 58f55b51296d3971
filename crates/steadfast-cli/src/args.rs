//! What was typed: commands, flags, their help. No meaning yet: that is what `settings` and the
//! commands give it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use steadfast_core::record::State;

/// The layer that makes HTTP requests safe to repeat.
#[derive(Clone, Debug, Parser)]
#[command(name = "steadfast", version, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Check or show a configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// See it at work: orders whose answers get lost, without keys and with
    Demo(DemoArgs),
    /// Stand in front of an HTTP service: a keyed request happens once
    Gateway(GatewayArgs),
    /// Find, read and settle records
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Prepare the store, or ask what is in it
    #[command(subcommand)]
    Store(StoreCommand),
}

/// `steadfast demo`
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Leave the service and the gateway up until Ctrl-C
    #[arg(long)]
    pub stay: bool,
    /// Wait for Enter between the steps
    #[arg(long)]
    pub pause: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `steadfast gateway`
#[derive(Args, Clone, Debug)]
pub struct GatewayArgs {
    /// The service behind the gateway, such as http://127.0.0.1:3000
    #[arg(long, value_name = "URL", required_unless_present = "config")]
    #[arg(conflicts_with = "config")]
    pub to: Option<String>,
    /// Address for callers [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address for operators [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
    /// Where records are kept [default: sqlite:steadfast.db]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Which store a command works on.
#[derive(Args, Clone, Debug)]
pub struct StoreArgs {
    /// The store [default: STEADFAST_STORE, else sqlite:steadfast.db]
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub store: Option<String>,
    /// The configuration that names the store
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `steadfast config …`
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say whether a configuration can be run; exit code 3 if not
    Check(ConfigArgs),
    /// Print every value that holds, and where it came from
    Show(ConfigArgs),
}

/// Which configuration, and how it is printed.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `steadfast keys …`
#[derive(Clone, Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key
    New(NewKeyArgs),
    /// List records
    List(ListArgs),
    /// Show one record and its history
    Show(ShowArgs),
    /// Settle a record whose outcome is unknown: give the answer that its callers get
    Resolve(ResolveArgs),
    /// Settle records whose outcome is unknown: they were not executed, their keys may run again
    Release(ReleaseArgs),
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
    /// Not changed for this long, such as 10m
    #[arg(long, value_name = "LENGTH")]
    pub older_than: Option<String>,
    /// Whose lease is over
    #[arg(long)]
    pub expired_lease: bool,
    /// Held by this owner
    #[arg(long, value_name = "OWNER")]
    pub owner: Option<String>,
    /// Under this key; needs --principal
    #[arg(long, value_name = "KEY", requires = "principal")]
    pub key: Option<String>,
    /// Of this principal, as records show it; needs --key
    #[arg(long, value_name = "TENANT", requires = "key")]
    pub principal: Option<String>,
    /// At most so many
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
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `steadfast keys show`
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// The operation's id
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
    /// The operation's id
    #[arg(value_name = "ID")]
    pub id: String,
    /// The answer's status
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub status: u16,
    /// A field of the answer; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The answer's body: the text, @FILE, or - for standard input
    #[arg(long, value_name = "DATA", allow_hyphen_values = true)]
    pub body: Option<String>,
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Do not ask
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
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl ReleaseArgs {
    /// Whether nothing says which records are meant: refused, for it would mean all.
    pub fn names_nothing(&self) -> bool {
        self.ids.is_empty() && self.filter.is_empty()
    }
}

/// `steadfast store …`
#[derive(Clone, Debug, Subcommand)]
pub enum StoreCommand {
    /// Print the store's version, its guarantee and what is in it
    Status(StatusArgs),
    /// Prepare the store
    Migrate(MigrateArgs),
}

/// `steadfast store status`
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `steadfast store migrate`
#[derive(Args, Clone, Debug)]
pub struct MigrateArgs {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print the SQL and change nothing
    #[arg(long)]
    pub print: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests;
