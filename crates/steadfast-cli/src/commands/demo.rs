//! `demo`: a payment service that commits and loses answers, and the same orders sent to it by a
//! plain repeating client, first as they are, then with keys through the gateway.
//!
//! Nothing is acted: the service, the client, the gateway and its store are real, and speak over
//! sockets on loopback. Only what befalls each attempt is planned (`plan`), so that every run ends
//! with the same numbers, and these come from the service's own ledger. Source: docs/reference.md,
//! "demo"; requirement L1.

use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::keys::fresh_key;
use super::runtime;
use crate::args::DemoArgs;
use crate::run::Exit;

mod afterwards;
mod client;
mod front;
mod keyed;
mod ledger;
mod outcome;
mod plan;
mod play;
mod service;
mod stop;
mod story;

use plan::ORDERS;
use play::{Scene, play};
use story::Story;

/// How long anything that must happen is waited for, on a machine however slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the command: the table or the JSON goes to `out`, the story to `err`.
pub fn run(args: &DemoArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Exit> {
    let runtime = runtime()?;
    let folder = match tempfile::Builder::new().prefix("steadfast-demo-").tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            writeln!(
                err,
                "error: no temporary folder: {error}; free some space, or set TMPDIR"
            )?;
            return Ok(Exit::Failed);
        }
    };
    let ended = runtime.block_on(perform(args, folder.path(), out, err));
    // The store is closed with the runtime; only then nothing is written to the folder any more.
    drop(runtime);
    if let Err(error) = folder.close() {
        writeln!(
            err,
            "warning: the temporary folder stays behind: {error}; remove it"
        )?;
    }
    ended
}

async fn perform(
    args: &DemoArgs,
    folder: &Path,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let mut stopped = pin!(stopped()?);
    let mut story = Story::new(err, args.pause);
    let played = tokio::select! {
        biased;
        () = &mut stopped => {
            story.fail(&"interrupted; everything stops, and the temporary folder goes");
            return Ok(Exit::Failed);
        }
        played = play(&mut story, folder) => played,
    };
    let scene = match played {
        Ok(scene) => scene,
        Err(stop) => {
            story.fail(&stop);
            return Ok(Exit::Failed);
        }
    };
    story.step("The service's own ledgers").await;
    if args.json {
        writeln!(out, "{:#}", scene.outcome.json())?;
    } else {
        write!(out, "{}", scene.outcome)?;
    }
    out.flush()?;
    let fault = scene.outcome.fault();
    if let Some(fault) = &fault {
        story.fail(fault);
    }
    if args.stay {
        invite(&mut story, &scene);
        stopped.await;
    } else if fault.is_none() {
        story.say(NEXT);
    }
    let Scene { service, front, .. } = scene;
    if let Err(stop) = front.close().await {
        story.fail(&stop);
        return Ok(Exit::Failed);
    }
    drop(service);
    Ok(match fault {
        Some(_) => Exit::Failed,
        None => Exit::Done,
    })
}

/// Where to go on from here.
const NEXT: &str = "
The same client, the same service, the same faults: a key is what made the difference.
Try it yourself:              steadfast demo --stay
In front of your service:     steadfast gateway --to http://127.0.0.1:3000";

/// What can be tried while everything stays up.
fn invite(story: &mut Story<'_>, scene: &Scene) {
    let (service, front) = (scene.service.address, &scene.front);
    let (callers, operators) = (front.callers, front.operators);
    let order = json!({ "order": ORDERS + 1, "amount_cents": 5000 });
    let lost = json!({ "order": ORDERS + 2, "amount_cents": 5000, "fate": "charged-then-cut" });
    let [order, lost] = [order, lost].map(|body| {
        let key = fresh_key();
        format!(
            "curl -i http://{callers}/charges -H 'Idempotency-Key: {key}' \
             -H 'Content-Type: application/json' -d '{body}'"
        )
    });
    let url = &front.url;
    story.say(format_args!(
        "\n\
         Everything stays up until Ctrl-C: the service on http://{service}, the gateway on\n\
         http://{callers}, for operators on http://{operators}.\n\
         Send an order twice, and another whose answer is lost, each under one key:\n  \
         {order}\n  {lost}\n\
         What the service charged, and what an operator sees:\n  \
         curl http://{service}/charges\n  \
         curl 'http://{operators}/api/records?state=unknown'\n  \
         steadfast keys list --state unknown --store {url}\n\
         Settle what is unknown by what the service says, with the id from that list:\n  \
         steadfast keys resolve ID --status 201 --body '{{}}' --store {url}"
    ));
}

/// Ready at the first SIGINT, SIGTERM or SIGHUP: each would else end the process with its folder
/// left behind.
fn stopped() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
            _ = hang_up.recv() => (),
        }
    })
}
