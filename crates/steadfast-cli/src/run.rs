//! From what was typed to an exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};
use crate::commands;
use crate::settings::environment::Environment;

/// How a command ended (docs/reference.md, "Exit codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// A check failed, or an act was refused.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The configuration is wrong.
    Configuration = 3,
    /// A call ended with a final 4xx.
    ClientError = 4,
    /// A call ended with a final 5xx.
    ServerError = 5,
    /// A call was stopped, and nothing was executed.
    NothingExecuted = 6,
    /// A call's outcome is unknown.
    Unknown = 7,
    /// A call was refused by its own breaker or budget.
    RefusedByUs = 8,
    /// It is in the queue, and will be sent later.
    Deferred = 9,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Runs the program with these arguments, the first of them its own name. Nothing is coloured, so
/// `NO_COLOR` has nothing to switch off.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to standard output and are no failure; when nobody reads them,
            // there is nobody to tell.
            let _ = error.print();
            return match error.use_stderr() {
                true => Exit::Usage.into(),
                false => Exit::Done.into(),
            };
        }
    };
    match &arguments.command {
        // Its log is begun once its settings say how.
        Command::Gateway(_) => {}
        // Their stories tell what happens.
        Command::Call(_) | Command::Deferred(_) | Command::Demo(_) => {
            log_to_stderr(tracing::Level::ERROR);
        }
        _ => log_to_stderr(tracing::Level::INFO),
    }
    let environment = Environment::of_process();
    // Not locked: the gateway's log is written to standard error by other threads.
    let (mut out, mut err) = (io::stdout(), Story(io::stderr()));
    let ended = match &arguments.command {
        Command::Call(args) => commands::call::run(args, &environment, &mut out, &mut err),
        Command::Completions(args) => commands::shell::completions(args, &mut out),
        Command::Config(command) => {
            commands::config::run(command, &environment, &mut out, &mut err)
        }
        Command::Deferred(command) => {
            let mut console = commands::keys::Console {
                out: &mut out,
                err: &mut err,
            };
            commands::deferred::run(command, &environment, &mut console)
        }
        Command::Demo(args) => commands::demo::run(args, &mut out, &mut err),
        Command::Explain(args) => commands::explain::run(args, &environment, &mut out, &mut err),
        Command::Gateway(args) => commands::gateway::run(args, &environment, &mut err),
        Command::Keys(command) => {
            let mut console = commands::keys::Console {
                out: &mut out,
                err: &mut err,
            };
            commands::keys::run(command, &environment, &mut console)
        }
        Command::Man(args) => commands::shell::man(args, &mut out, &mut err),
        Command::Plan(args) => commands::plan::run(args, &environment, &mut out, &mut err),
        Command::Store(command) => commands::store::run(command, &environment, &mut out, &mut err),
    };
    let ended = ended.and_then(|exit| out.flush().map(|()| exit));
    ended
        .unwrap_or_else(|error| unwritten(&error, &mut err))
        .into()
}

/// Where the story is told. That nobody reads it any more (a log's reader ended) stops no work and
/// changes no exit code.
struct Story<W>(W);

impl<W: Write> Write for Story<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// The result could not be written. A reader that has seen enough (`| head`) is no failure.
fn unwritten(error: &io::Error, err: &mut dyn Write) -> Exit {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Exit::Done;
    }
    // When standard error is gone, too, only the exit code is left to tell.
    let _ = writeln!(
        err,
        "error: the result cannot be written: {error}; free some space or name another place."
    );
    Exit::Failed
}

/// What happens while a command works is told on standard error: warnings and errors, and what an
/// operator did.
fn log_to_stderr(level: tracing::Level) {
    let log = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false);
    // A second start in one process keeps the first log.
    let _ = log.with_max_level(level).try_init();
}
