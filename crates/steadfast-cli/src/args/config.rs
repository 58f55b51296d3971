//! What can be typed after `steadfast config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `steadfast config …`
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print a commented configuration to start from
    ///
    /// Every setting that this release acts on, with the value that is built in; lines that begin
    /// with # change nothing. `config check` accepts it as it is.
    #[command(after_long_help = "Example:\n  steadfast config init -o steadfast.toml")]
    Init(InitArgs),
    /// Say whether a configuration can be run; exit code 3 if not
    ///
    /// Names everything that is wrong with it at once: place, setting, reason, next step. Opens no
    /// store and binds no address.
    #[command(after_long_help = "Example:\n  steadfast config check --config steadfast.toml")]
    Check(ConfigArgs),
    /// Print every value that holds, and where it came from
    ///
    /// What is printed is a configuration again. Of a secret only its place is shown.
    #[command(after_long_help = "Example:\n  steadfast config show --config steadfast.toml")]
    Show(ConfigArgs),
    /// Print the JSON Schema of the configuration
    ///
    /// Draft 2020-12, of the settings that this release acts on, for editors and other tools.
    #[command(after_long_help = "Example:\n  steadfast config schema > steadfast.schema.json")]
    Schema(SchemaArgs),
}

/// `steadfast config init`
#[derive(Args, Clone, Debug)]
pub struct InitArgs {
    /// Write the configuration to this file [default: standard output]
    ///
    /// A file that is there already is left alone, unless there is --force.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file of --output where it is there already
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Print JSON: {"file","config"}
    #[arg(long)]
    pub json: bool,
}

/// Which configuration, and how it is printed.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    /// The configuration, such as steadfast.toml
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `steadfast config schema`
#[derive(Args, Clone, Debug)]
pub struct SchemaArgs {
    /// Changes nothing: a schema is JSON
    #[arg(long)]
    pub json: bool,
}
