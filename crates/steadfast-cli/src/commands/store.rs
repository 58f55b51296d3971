//! `store status` and `store migrate`.

use std::io::{self, Write};

use serde_json::{Map, json};
use steadfast::store::postgres::Postgres;
use steadfast::store::sqlite::Sqlite;
use steadfast_core::fingerprint::FingerprintSecret;
use steadfast_core::record::State;

use super::config::refuse;
use super::{print_store_error, runtime};
use crate::args::{MigrateArgs, StatusArgs, StoreCommand};
use crate::run::Exit;
use crate::settings::address::StoreUrl;
use crate::settings::environment::Environment;
use crate::settings::top::Flags;
use crate::settings::value::show_length;
use crate::settings::{from_file, store as store_of};
use crate::stores::{Open, open};

/// Runs the command; results go to `out`, the story to `err`.
pub fn run(
    command: &StoreCommand,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let args = match command {
        StoreCommand::Status(StatusArgs { store, .. })
        | StoreCommand::Migrate(MigrateArgs { store, .. }) => store,
    };
    let url = match store_of(args.config.as_deref(), args.store.as_deref(), environment) {
        Ok(url) => url,
        Err(faults) => return refuse(&faults, err),
    };
    match command {
        StoreCommand::Status(args) => status(&url, Open::Existing, args.json, out, err),
        StoreCommand::Migrate(args) if args.partitions > 0 && !is_database(&url) => {
            let why = "--partitions is for databases; leave it out";
            writeln!(err, "error: store = \"{url}\": {why}")?;
            Ok(Exit::Usage)
        }
        StoreCommand::Migrate(args) if args.print => print_sql(&url, args, out),
        StoreCommand::Migrate(args) => {
            if let StoreUrl::Postgres(address) = &url
                && let Err(error) = Postgres::migrate(address, args.partitions)
            {
                writeln!(err, "error: store = \"{url}\": {error}")?;
                return Ok(Exit::Configuration);
            }
            let exit = register(&url, args, environment, err)?;
            if exit != Exit::Done {
                return Ok(exit);
            }
            status(&url, Open::Prepare, args.json, out, err)
        }
    }
}

/// Makes a configured `secret` known to the store, as the present one; the store keeps the old
/// ones, so that what was made with them stays readable.
fn register(
    url: &StoreUrl,
    args: &MigrateArgs,
    environment: &Environment,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let Some(file) = args.store.config.as_deref() else {
        return Ok(Exit::Done);
    };
    let settings = match from_file(file, &Flags::default(), environment) {
        Ok(settings) => settings,
        Err(faults) => return refuse(&faults, err),
    };
    let Some(secret) = &settings.top.secret else {
        return Ok(Exit::Done);
    };
    let (id, bytes) = FingerprintSecret::of_text(secret.expose());
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let done = match url {
        StoreUrl::Sqlite(path) => Sqlite::open(path)
            .map_err(|error| said(&error))
            .and_then(|store| store.register_secret(id, bytes).map_err(|e| said(&e))),
        StoreUrl::Postgres(address) => {
            let runtime = runtime()?;
            let store = Postgres::open(address).map_err(|error| said(&error));
            store.and_then(|store| {
                let done = runtime.block_on(store.register_secret(id, bytes));
                done.map_err(|error| said(&error))
            })
        }
        StoreUrl::Memory => Ok(()),
    };
    match done {
        Ok(()) => Ok(Exit::Done),
        Err(error) => {
            writeln!(err, "error: store = \"{url}\": {error}")?;
            Ok(Exit::Configuration)
        }
    }
}

fn is_database(url: &StoreUrl) -> bool {
    matches!(url, StoreUrl::Postgres(_))
}

/// The SQL that prepares the store; nothing is opened.
fn print_sql(url: &StoreUrl, args: &MigrateArgs, out: &mut dyn Write) -> io::Result<Exit> {
    let sql = match url {
        StoreUrl::Postgres(_) if args.down => Postgres::down_sql(),
        StoreUrl::Postgres(_) => format!("BEGIN;\n{}COMMIT;\n", Postgres::up_sql(args.partitions)),
        // A file is taken away as a file.
        StoreUrl::Sqlite(_) if args.down => String::new(),
        StoreUrl::Sqlite(_) => Sqlite::migrations_sql(),
        StoreUrl::Memory => String::new(),
    };
    if args.json {
        writeln!(out, "{:#}", json!({ "store": url.to_string(), "sql": sql }))?;
    } else {
        write!(out, "{sql}")?;
    }
    Ok(Exit::Done)
}

/// What the store says of itself, after it was opened as `how` says.
fn status(
    url: &StoreUrl,
    how: Open,
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let store = match open(url, how) {
        Ok(store) => store,
        Err(error) => {
            writeln!(err, "error: store = \"{url}\": {error}")?;
            return Ok(Exit::Configuration);
        }
    };
    let status = match runtime()?.block_on(store.status()) {
        Ok(status) => status,
        Err(error) => return print_store_error(&error, err),
    };
    let guarantee = status.guarantee.as_str();
    if json {
        let records: Map<String, serde_json::Value> = status
            .rows
            .iter()
            .map(|(s, n)| (s.as_str().to_owned(), json!(n)))
            .collect();
        let value = json!({
            "store": url.to_string(),
            "kind": status.kind,
            "schema": status.schema,
            "guarantee": guarantee,
            "fence": status.fence,
            "records": records,
            "expiry_lag_ms": u64::try_from(status.expiry_lag.as_millis()).unwrap_or(u64::MAX),
        });
        writeln!(out, "{value:#}")?;
        return Ok(Exit::Done);
    }
    writeln!(out, "store       {url}")?;
    writeln!(out, "kind        {}, schema {}", status.kind, status.schema)?;
    writeln!(out, "guarantee   {guarantee}")?;
    writeln!(out, "fence       {}", status.fence)?;
    writeln!(out, "expiry lag  {}", show_length(status.expiry_lag))?;
    for state in State::ALL {
        let count = status
            .rows
            .iter()
            .find(|(s, _)| *s == state)
            .map_or(0, |(_, n)| *n);
        writeln!(out, "{:<11} {count}", state.as_str())?;
    }
    Ok(Exit::Done)
}
