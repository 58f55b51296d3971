//! `config init|check|show|schema`. No socket, no store; only `init -o` writes.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::args::{ConfigArgs, ConfigCommand, InitArgs};
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::fault::{Faults, Warning};
use crate::settings::top::Flags;
use crate::settings::{Settings, from_file, init, schema, show};

/// Runs the command; results go to `out`, the story to `err`.
pub fn run(
    command: &ConfigCommand,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let load = |args: &ConfigArgs| from_file(&args.config, &Flags::default(), environment);
    match command {
        ConfigCommand::Init(args) => start_from(args, out, err),
        ConfigCommand::Schema(_) => {
            writeln!(out, "{:#}", schema::json())?;
            Ok(Exit::Done)
        }
        ConfigCommand::Check(args) if args.json => check_json(load(args), out),
        ConfigCommand::Check(args) => match load(args) {
            Ok(settings) => check(&args.config, &settings, out, err),
            Err(faults) => refuse(&faults, err),
        },
        ConfigCommand::Show(args) => match load(args) {
            Ok(settings) if args.json => {
                writeln!(out, "{:#}", show::json(&settings))?;
                Ok(Exit::Done)
            }
            Ok(settings) => {
                print_warnings(&settings.warnings, err)?;
                write!(out, "{}", show::text(&settings))?;
                Ok(Exit::Done)
            }
            Err(faults) => refuse(&faults, err),
        },
    }
}

/// Prints the configuration to start from, or writes it where nothing is overwritten unasked.
fn start_from(args: &InitArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    let text = init::text();
    if let Some(path) = &args.output
        && let Err(error) = write_file(path, &text, args.force)
    {
        let path = path.display();
        match error.kind() {
            io::ErrorKind::AlreadyExists => writeln!(
                err,
                "error: {path} is there already and was left as it is; name another file, or add \
                 --force to replace it"
            )?,
            _ => writeln!(
                err,
                "error: {path} cannot be written: {error}; correct the path or its permissions"
            )?,
        }
        return Ok(Exit::Failed);
    }
    match &args.output {
        file if args.json => {
            let file = file.as_ref().map(|path| path.display().to_string());
            writeln!(out, "{:#}", json!({ "file": file, "config": text }))?;
        }
        None => write!(out, "{text}")?,
        Some(path) => {
            let path = path.display();
            writeln!(
                err,
                "{path} is written; check it with `steadfast config check --config {path}`"
            )?;
        }
    }
    Ok(Exit::Done)
}

/// No secret stands in it, so its mode is what the umask gives.
fn write_file(path: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match force {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// `{"ok","errors":[…],"warnings":[…]}`; what is wrong is a result here.
fn check_json(loaded: Result<Settings, Faults>, out: &mut dyn Write) -> io::Result<Exit> {
    let list = |warnings: &[Warning]| warnings.iter().map(Warning::json).collect::<Vec<Value>>();
    let (exit, report) = match loaded {
        Ok(settings) => {
            let warnings = list(&settings.warnings);
            let report = json!({ "ok": true, "errors": [], "warnings": warnings });
            (Exit::Done, report)
        }
        Err(faults) => {
            let errors: Vec<Value> = faults.list().iter().map(|fault| fault.json()).collect();
            let report = json!({ "ok": false, "errors": errors, "warnings": [] });
            (Exit::Configuration, report)
        }
    };
    writeln!(out, "{report:#}")?;
    Ok(exit)
}

fn check(
    path: &Path,
    settings: &Settings,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    print_warnings(&settings.warnings, err)?;
    let routes = match settings.routes.len() {
        1 => "1 route".to_owned(),
        routes => format!("{routes} routes"),
    };
    writeln!(out, "{}: ok, {routes}", path.display())?;
    Ok(Exit::Done)
}

/// Prints what may surprise.
pub fn print_warnings(warnings: &[Warning], err: &mut dyn Write) -> io::Result<()> {
    warnings
        .iter()
        .try_for_each(|warning| writeln!(err, "{warning}"))
}

/// Prints what is wrong with a configuration or the flags beside it.
pub fn refuse(faults: &Faults, err: &mut dyn Write) -> io::Result<Exit> {
    write!(err, "{faults}")?;
    Ok(match faults.is_usage() {
        true => Exit::Usage,
        false => Exit::Configuration,
    })
}
