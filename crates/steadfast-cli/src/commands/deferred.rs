//! `deferred`: what the queue keeps, and the sending of it by hand.

use std::io::{self, IsTerminal};

use serde_json::Value;
use steadfast::server::{list_queued, operate, queued, queued_with_history};
use steadfast_core::record::Record;
use steadfast_core::time::WallTime;

use super::keys::{Console, Stop, absent, confirm, opened, parse_id, print_record};
use super::runtime;
use crate::args::{DeferredCommand, DeferredListArgs, DeferredShowArgs, DropArgs};
use crate::run::Exit;
use crate::settings::environment::Environment;

mod outbox;
mod run;

pub(super) use outbox::PRINCIPAL;

/// Who acts, in the history.
const BY: &str = "operator (deferred)";

/// Runs the command.
pub fn run(
    command: &DeferredCommand,
    environment: &Environment,
    console: &mut Console<'_>,
) -> io::Result<Exit> {
    let done = match command {
        DeferredCommand::List(args) => list(args, environment, console),
        DeferredCommand::Show(args) => show(args, environment, console),
        DeferredCommand::Run(args) => run::run(args, environment, console),
        DeferredCommand::Drop(args) => drop(args, environment, console),
    };
    super::keys::ended(done, console)
}

fn list(
    args: &DeferredListArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let store = opened(&args.store, environment, console)?;
    let rows = runtime()?.block_on(list_queued(&*store, args.limit))?;
    if args.json {
        let rows: Vec<Value> = rows.iter().map(queued).collect();
        writeln!(console.out, "{:#}", Value::Array(rows))?;
        return Ok(Exit::Done);
    }
    let lines = rows.iter().map(columns).collect::<Vec<_>>();
    super::keys::aligned(&COLUMNS, &lines, io::stdout().is_terminal(), console.out)?;
    Ok(Exit::Done)
}

const COLUMNS: [&str; 7] = [
    "ID",
    "STATE",
    "RUNS",
    "NEXT",
    "GIVEN UP AT",
    "OPERATION",
    "LAST REASON",
];

fn columns(row: &Record) -> [String; 7] {
    let date = |at: Option<WallTime>| at.map_or_else(|| "-".to_owned(), WallTime::rfc3339);
    let reason = match row.standing.reason.as_str() {
        "" => "-",
        reason => reason,
    };
    [
        row.id.to_string(),
        row.standing.state.to_string(),
        row.standing.pending.steps.to_string(),
        date(row.due_at()),
        date(row.request().map(|request| request.give_up_at)),
        row.operation.to_string(),
        reason.to_owned(),
    ]
}

fn show(
    args: &DeferredShowArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let store = opened(&args.store, environment, console)?;
    let id = parse_id(&args.id)?;
    let row = runtime()?
        .block_on(store.by_id(id))?
        .ok_or_else(|| absent(id))?;
    if args.json {
        writeln!(console.out, "{:#}", queued_with_history(&row))?;
        return Ok(Exit::Done);
    }
    match row.request() {
        Some(request) => {
            let names = [
                "id",
                "state",
                "runs",
                "next",
                "given up at",
                "operation",
                "reason",
            ];
            for (name, value) in names.iter().zip(columns(&row)) {
                writeln!(console.out, "{name:<12} {value}")?;
            }
            let to = request.to.as_deref().unwrap_or("its route's");
            writeln!(console.out, "{:<12} {to}", "to")?;
            writeln!(console.out, "{:<12} {} bytes", "body", request.body.len())?;
            let fields: Vec<&str> = request.headers.keys().map(|name| name.as_str()).collect();
            writeln!(console.out, "{:<12} {}\n", "fields", fields.join(", "))?;
        }
        None => writeln!(console.out, "not in the queue any more\n")?,
    }
    print_record(&row, false, console)
}

fn drop(
    args: &DropArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let id = parse_id(&args.id)?;
    let store = opened(&args.store, environment, console)?;
    let runtime = runtime()?;
    let row = runtime
        .block_on(store.by_id(id))?
        .ok_or_else(|| absent(id))?;
    let what = format!("take {} ({id}) out of the queue for good", row.operation);
    confirm(args.yes, &what, console)?;
    let done = runtime.block_on(operate::drop_deferred(&*store, &row, BY));
    let row = done.map_err(|refused| Stop::Say(Exit::Failed, format!("{id}: {refused}")))?;
    match args.json {
        true => print_record(&row, true, console),
        false => {
            writeln!(console.out, "dropped {id}")?;
            Ok(Exit::Done)
        }
    }
}
