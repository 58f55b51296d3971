//! `config check` and `config show`. Both only read: no socket, no store.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::args::{ConfigArgs, ConfigCommand};
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::fault::{Faults, Warning};
use crate::settings::top::Flags;
use crate::settings::{Settings, from_file, show};

/// Runs the command; results go to `out`, the story to `err`.
pub fn run(
    command: &ConfigCommand,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let load = |args: &ConfigArgs| from_file(&args.config, &Flags::default(), environment);
    match command {
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
