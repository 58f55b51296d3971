//! `gateway`: opens the store, binds, serves until it is told to stop, drains.

use std::io::{self, Write};

use tokio::signal::unix::{SignalKind, signal};

use super::config::{print_warnings, refuse};
use super::runtime;
use crate::args::GatewayArgs;
use crate::gateway::run::{Sockets, prepare, serve};
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::top::Flags;
use crate::settings::{Settings, for_upstream, from_file};
use crate::stores::for_gateway;

/// Runs the command; the story goes to `err`.
pub fn run(args: &GatewayArgs, environment: &Environment, err: &mut dyn Write) -> io::Result<Exit> {
    let (listen, admin, store) = (args.listen.clone(), args.admin.clone(), args.store.clone());
    let flags = Flags {
        listen,
        admin,
        store,
    };
    let loaded = match (&args.config, &args.to) {
        (Some(file), _) => from_file(file, &flags, environment),
        (None, to) => for_upstream(to.as_deref().unwrap_or_default(), &flags, environment),
    };
    match loaded {
        Ok(settings) => {
            print_warnings(&settings.warnings, err)?;
            start(&settings, err)
        }
        Err(faults) => refuse(&faults, err),
    }
}

fn start(settings: &Settings, err: &mut dyn Write) -> io::Result<Exit> {
    let store = match for_gateway(&settings.top) {
        Ok(store) => store,
        Err(error) => {
            writeln!(err, "error: store = \"{}\": {error}", settings.top.store)?;
            return Ok(Exit::Configuration);
        }
    };
    runtime()?.block_on(async {
        let server = match prepare(settings, store).await {
            Ok(server) => server,
            Err(error) => {
                writeln!(err, "error: store = \"{}\": {error}", settings.top.store)?;
                return Ok(Exit::Configuration);
            }
        };
        let sockets = match Sockets::bind(settings).await {
            Ok(sockets) => sockets,
            Err(error) => {
                writeln!(err, "error: {error}")?;
                return Ok(Exit::Configuration);
            }
        };
        let (data, admin) = sockets.addresses()?;
        // A signal that comes before they are caught would end the process undrained.
        let stop = stop()?;
        writeln!(
            err,
            "steadfast listens on http://{data}, for operators on http://{admin}"
        )?;
        writeln!(err, "records are kept in {}", settings.top.store)?;
        let ended = serve(settings, server, sockets, stop).await;
        let (cut, stopped) = (ended.cut, ended.stopped);
        if cut == 0 && stopped == 0 {
            writeln!(err, "drained; all work has ended")?;
        } else {
            writeln!(
                err,
                "drained; cut {cut} connections, stopped {stopped} keyed operations, whose outcome \
                 is unknown (`steadfast keys list --state unknown`)"
            )?;
        }
        Ok(Exit::Done)
    })
}

/// Ready at the first SIGTERM or SIGINT. A SIGHUP, which would end the process undrained, is told
/// that it changes nothing.
fn stop() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = interrupt.recv() => return,
                _ = hang_up.recv() => {
                    tracing::warn!("a reload is not yet supported; restart to change settings");
                }
            }
        }
    })
}
