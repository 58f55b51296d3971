//! `store status` and `store migrate`.

use std::io::{self, Write};

use serde_json::{Map, json};
use steadfast::store::sealed::Keys;
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
        StoreCommand::Migrate(args) if args.print => print_sql(&url, args.json, out),
        StoreCommand::Migrate(args) => {
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
    let (Some(secret), StoreUrl::Sqlite(path)) = (&settings.top.secret, url) else {
        return Ok(Exit::Done);
    };
    let (id, bytes) = FingerprintSecret::of_text(secret.expose());
    let done = Sqlite::open(path)
        .map_err(|error| error.to_string())
        .and_then(|store| {
            store
                .register_secret(id, bytes)
                .map_err(|error| error.to_string())
        });
    match done {
        Ok(()) => Ok(Exit::Done),
        Err(error) => {
            writeln!(err, "error: store = \"{url}\": {error}")?;
            Ok(Exit::Configuration)
        }
    }
}

/// The SQL that prepares the store; nothing is opened.
fn print_sql(url: &StoreUrl, json: bool, out: &mut dyn Write) -> io::Result<Exit> {
    let sql = match url {
        StoreUrl::Sqlite(_) => Sqlite::migrations_sql(),
        StoreUrl::Memory => String::new(),
    };
    if json {
        writeln!(out, "{:#}", json!({ "store": url.to_string(), "sql": sql }))?;
    } else {
        write!(out, "{sql}")?;
    }
    Ok(Exit::Done)
}

/// What the store says of itself, after it was opened as `how` says. No answer is read, so no key
/// is asked for.
fn status(
    url: &StoreUrl,
    how: Open,
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let store = match open(url, how, &Keys::default()) {
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
