//! `gateway`: opens the store, binds, serves until it is told to stop, drains.

use std::fmt::Display;
use std::io::{self, Write};

use tokio::signal::unix::{SignalKind, signal};
use tracing::Level;

use super::config::refuse;
use super::runtime;
use crate::args::GatewayArgs;
use crate::gateway::run::{Sockets, prepare, serve};
use crate::log::Log;
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
            let log = Log::begin(settings.top.log.format)?;
            for warning in &settings.warnings {
                log.tell(Level::WARN, warning);
            }
            start(&settings, &log)
        }
        Err(faults) => refuse(&faults, err),
    }
}

fn start(settings: &Settings, log: &Log) -> io::Result<Exit> {
    let unusable = |error: &dyn Display| {
        let text = format!("error: store = \"{}\": {error}", settings.top.store);
        log.tell(Level::ERROR, &text);
        Ok(Exit::Configuration)
    };
    let store = match for_gateway(&settings.top) {
        Ok(store) => store,
        Err(error) => return unusable(&error),
    };
    runtime()?.block_on(async {
        let prepared = match prepare(settings, store).await {
            Ok(prepared) => prepared,
            Err(error) => return unusable(&error),
        };
        let sockets = match Sockets::bind(settings).await {
            Ok(sockets) => sockets,
            Err(error) => {
                log.tell(Level::ERROR, &format!("error: {error}"));
                return Ok(Exit::Configuration);
            }
        };
        let (data, admin) = sockets.addresses()?;
        // A signal that comes before they are caught would end the process undrained.
        let stop = stop()?;
        let listens =
            format!("steadfast listens on http://{data}, for operators on http://{admin}");
        log.tell(Level::INFO, &listens);
        let mut kept = format!("records are kept in {}", settings.top.store);
        if let Some(id) = settings.top.encrypt_with.keys.ids().next() {
            kept.push_str(&format!(", their answers encrypted with the key `{id}`"));
        }
        log.tell(Level::INFO, &kept);
        let ended = serve(settings, prepared, sockets, stop).await;
        let (cut, stopped) = (ended.cut, ended.stopped);
        if cut == 0 && stopped == 0 {
            log.tell(Level::INFO, &"drained; all work has ended");
        } else {
            let drained = format!(
                "drained; cut {cut} connections, stopped {stopped} keyed operations, whose outcome \
                 is unknown (`steadfast keys list --state unknown`)"
            );
            log.tell(Level::WARN, &drained);
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
