//! What was typed: commands, flags, their help. No meaning yet: that is what `settings` and the
//! commands give it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use steadfast::store::postgres::MOST_PARTITIONS;

mod call;
mod config;
mod decide;
mod keys;
mod shell;

pub use call::{CallArgs, RetryAfter};
pub use config::{ConfigArgs, ConfigCommand, InitArgs, SchemaArgs};
pub use decide::{BodyName, ErrorName, ExplainArgs, PlanArgs, Processed};
pub use keys::{
    FilterArgs, KeysCommand, ListArgs, NewKeyArgs, ReleaseArgs, ResolveArgs, ShowArgs, StatsArgs,
    SweepArgs,
};
pub use shell::{CompletionsArgs, ManArgs};

/// What stands below the commands in `--help` and on the manual page.
const AFTER: &str = "\
Exit codes:
  0  done
  1  an act was refused or not confirmed, a record is not there, the store failed, the demo's
     table does not hold
  2  the command line is wrong
  3  the configuration is wrong, the store cannot be opened, an address cannot be bound
  4  call: a final 4xx        5  call: a final 5xx
  6  call: stopped, and nothing was executed
  7  call: the outcome is unknown
  8  call: refused by our own breaker or budget

Environment:
  STEADFAST_STORE, STEADFAST_LISTEN, STEADFAST_ADMIN, STEADFAST_DRAIN, STEADFAST_LOG_FORMAT and
  STEADFAST_LOG_ATTEMPTS weigh more than the configuration and less than flags.

Lengths of time and sizes have units: 500ms, 30s, 10m, 24h, 7d; 64KiB, 1MiB.

Examples:
  steadfast gateway --to http://127.0.0.1:3000
  steadfast config init -o steadfast.toml
  steadfast keys list --state unknown";

/// What stands below the commands where only a little was asked.
const AFTER_SHORT: &str = "\
Begin with: steadfast gateway --to http://127.0.0.1:3000
More with:  steadfast --help, or steadfast COMMAND --help";

/// The layer that makes HTTP requests safe to repeat.
///
/// A gateway in front of an HTTP service that executes a keyed request once, and commands for its
/// records and its configuration.
#[derive(Clone, Debug, Parser)]
#[command(name = "steadfast", version, arg_required_else_help = true)]
#[command(after_help = AFTER_SHORT, after_long_help = AFTER)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Send one request safely, and tell the story of each attempt
    #[command(after_long_help = CALL_AFTER)]
    Call(Box<CallArgs>),
    /// Print the script that completes commands in a shell
    Completions(CompletionsArgs),
    /// Write, check or show a configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// See it at work: orders whose answers get lost, without keys and with
    Demo(DemoArgs),
    /// Would this failure be retried, and by which rule
    #[command(after_long_help = EXPLAIN_AFTER)]
    Explain(ExplainArgs),
    /// Stand in front of an HTTP service: a keyed request happens once
    #[command(after_long_help = GATEWAY_AFTER)]
    Gateway(GatewayArgs),
    /// Find, read, count and settle records
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print the manual page, or write one for each command
    Man(ManArgs),
    /// Lay out the attempts, waits and limits that a policy gives
    #[command(after_long_help = PLAN_AFTER)]
    Plan(PlanArgs),
    /// Prepare the store, or ask what is in it
    #[command(subcommand)]
    Store(StoreCommand),
}

const GATEWAY_AFTER: &str = "\
It is ready when GET /readyz on the address for operators answers 200. SIGTERM and SIGINT drain it.

Example:
  steadfast gateway --to http://127.0.0.1:3000 --listen 0.0.0.0:8080";

const CALL_AFTER: &str = "\
Redirects are not followed. Exit codes: 0 done, 4 a final 4xx, 5 a final 5xx, 6 stopped and nothing
was executed, 7 the outcome is unknown, 8 refused by our own breaker or budget; 2 usage.

Examples:
  steadfast call GET http://127.0.0.1:8080/health
  steadfast call POST http://127.0.0.1:8080/orders --key auto -d '{\"amount\":50}'";

const EXPLAIN_AFTER: &str = "\
Assumes attempt 1 of 3 and 30s remaining unless told, and no jitter. Decisions: finish (an answer
stands), retry, defer, unknown (it may have been executed), give_up (it could be repeated, and is
not). The exit code is 0 for each of them.

Examples:
  steadfast explain --method POST --status 504
  steadfast explain --method GET --status 503 --retry-after 120 --remaining 10s
  steadfast explain --method DELETE --status 404 --after read-timeout";

const PLAN_AFTER: &str = "\
Each attempt takes its whole limit. Waits with jitter are shown at their upper ends. Attempts count
the first one; retries do not.

Examples:
  steadfast plan --deadline 900ms --attempt-timeout 500ms --backoff fixed --base 100ms --jitter none
  steadfast plan --layers 3,3";

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
    ///
    /// Everything goes to it, and every setting but these flags has its default. Needed unless
    /// there is --config, and not allowed beside it.
    #[arg(long, value_name = "URL", required_unless_present = "config")]
    #[arg(conflicts_with = "config")]
    pub to: Option<String>,
    /// Address for callers [default: 127.0.0.1:8080]
    ///
    /// An address with a port, no name, such as 0.0.0.0:8080. Weighs more than
    /// STEADFAST_LISTEN and the configuration.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address for operators [default: 127.0.0.1:8081]
    ///
    /// Other than loopback only with `admin_token` in the configuration. Weighs more than
    /// STEADFAST_ADMIN and the configuration.
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
    /// Where records are kept [default: sqlite:steadfast.db]
    ///
    /// sqlite:FILE, made where it is missing; postgres://USER:PASSWORD@HOST/DATABASE, prepared by
    /// `steadfast store migrate`; or memory: (gone with the process). Weighs more than
    /// STEADFAST_STORE and the configuration.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The configuration, such as steadfast.toml
    ///
    /// `steadfast config init` prints one to start from.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Which store a command works on.
#[derive(Args, Clone, Debug)]
pub struct StoreArgs {
    /// The store, such as sqlite:steadfast.db [default: STEADFAST_STORE, else sqlite:steadfast.db]
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub store: Option<String>,
    /// The configuration that names the store, such as steadfast.toml
    ///
    /// Its other settings are not judged: an operator's commands run where the gateway's secrets
    /// are not.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `steadfast store …`
#[derive(Clone, Debug, Subcommand)]
pub enum StoreCommand {
    /// Print the store's version, its guarantee and what is in it
    ///
    /// Opens an existing store and makes none. The guarantee is what "done" means: volatile (gone
    /// with the process), durable (survives a crash of the machine) or linearizable (survives
    /// fail-over to another machine).
    Status(StatusArgs),
    /// Prepare the store
    ///
    /// Makes it where it is missing, and brings an older one up to date. Never asks.
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
    /// With --print: the SQL that takes a database's tables away again
    #[arg(long, requires = "print")]
    pub down: bool,
    /// Spread the records of a new database over so many tables, by the hash of their key
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_PARTITIONS)))]
    pub partitions: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests;
