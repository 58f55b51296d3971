//! `keys`: find, read, count and settle records.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use steadfast::clock;
use steadfast::server::status;
use steadfast::store::{Store, StoreError};
use steadfast_core::key::Key;
use steadfast_core::record::{OperationId, Record};

use super::config::refuse;
use super::{print_store_error, runtime};
use crate::args::{KeysCommand, ListArgs, NewKeyArgs, ShowArgs, StoreArgs};
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::store_and_keys;
use crate::stores::{Open, open};

mod print;
mod select;
mod settle;
mod upkeep;

/// Records of `keys list` where the caller does not say.
const LIST: u32 = 100;

/// Why a command ends before it is done.
enum Stop {
    /// The story is told; this is the exit.
    Told(Exit),
    /// What is wrong, and the next step.
    Say(Exit, String),
    Store(StoreError),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Store(error)
    }
}

/// Where a command reads and writes.
pub struct Console<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// The story.
    pub err: &'a mut dyn Write,
}

/// Runs the command.
pub fn run(
    command: &KeysCommand,
    environment: &Environment,
    console: &mut Console<'_>,
) -> io::Result<Exit> {
    let done = match command {
        KeysCommand::New(args) => new(args, console),
        KeysCommand::List(args) => list(args, environment, console),
        KeysCommand::Show(args) => show(args, environment, console),
        KeysCommand::Resolve(args) => settle::resolve(args, environment, console),
        KeysCommand::Release(args) => settle::release(args, environment, console),
        KeysCommand::Sweep(args) => upkeep::sweep(args, environment, console),
        KeysCommand::Stats(args) => upkeep::stats(args, environment, console),
    };
    match done {
        Ok(exit) | Err(Stop::Told(exit)) => Ok(exit),
        Err(Stop::Say(exit, what)) => {
            writeln!(console.err, "error: {what}")?;
            Ok(exit)
        }
        Err(Stop::Store(error)) => print_store_error(&error, console.err),
        Err(Stop::Io(error)) => Err(error),
    }
}

fn new(args: &NewKeyArgs, console: &mut Console<'_>) -> Result<Exit, Stop> {
    let key = fresh_key();
    if args.json {
        writeln!(console.out, "{}", json!({ "key": key }))?;
    } else {
        writeln!(console.out, "{key}")?;
    }
    Ok(Exit::Done)
}

/// A random key, as UUID version 4 (RFC 9562, 5.4): 122 bits that nobody guesses.
pub(super) fn fresh_key() -> String {
    Key::random(clock::random_bits()).as_str().to_owned()
}

fn list(
    args: &ListArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let store = opened(&args.store, environment, console)?;
    let rows = runtime()?.block_on(async {
        let scan = select::scan_of(&args.filter, &*store).await?;
        select::matching(&*store, scan, args.filter.limit.unwrap_or(LIST)).await
    })?;
    if args.json {
        let rows: Vec<Value> = rows.iter().map(status::record).collect();
        writeln!(console.out, "{:#}", Value::Array(rows))?;
    } else {
        print::table(&rows, io::stdout().is_terminal(), console.out)?;
    }
    Ok(Exit::Done)
}

fn show(
    args: &ShowArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let store = opened(&args.store, environment, console)?;
    let id = parse_id(&args.id)?;
    let row = runtime()?
        .block_on(store.by_id(id))?
        .ok_or_else(|| absent(id))?;
    print_record(&row, args.json, console)
}

fn print_record(row: &Record, json: bool, console: &mut Console<'_>) -> Result<Exit, Stop> {
    if json {
        writeln!(console.out, "{:#}", status::record_with_history(row))?;
    } else {
        print::record(row, console.out)?;
    }
    Ok(Exit::Done)
}

fn opened(
    args: &StoreArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Arc<dyn Store>, Stop> {
    let (config, store) = (args.config.as_deref(), args.store.as_deref());
    let (url, keys) = match store_and_keys(config, store, environment) {
        Ok(found) => found,
        Err(faults) => return Err(Stop::Told(refuse(&faults, console.err)?)),
    };
    open(&url, Open::Existing, &keys)
        .map_err(|error| Stop::Say(Exit::Configuration, format!("store = \"{url}\": {error}")))
}

fn parse_id(id: &str) -> Result<OperationId, Stop> {
    let wrong = || {
        usage(format!(
            "`{id}` is no operation's id; `steadfast keys list` shows them"
        ))
    };
    OperationId::parse(id).ok_or_else(wrong)
}

fn absent(id: OperationId) -> Stop {
    let what = format!("there is no record {id}; `steadfast keys list` shows those there are");
    Stop::Say(Exit::Failed, what)
}

fn usage(what: String) -> Stop {
    Stop::Say(Exit::Usage, what)
}
