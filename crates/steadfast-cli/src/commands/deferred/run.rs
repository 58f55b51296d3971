//! `deferred run`: sends what is due, and waits for the ends.

use http::HeaderMap;
use serde_json::{Value, json};
use steadfast::server::{Limits, Ran, Server, run_due, run_one};
use steadfast_core::record::State;
use steadfast_core::time::WallTime;

use super::outbox::{Outbox, Ways};
use crate::args::{DeferredRunArgs, StoreArgs};
use crate::commands::config::refuse;
use crate::commands::keys::{Console, Stop, absent, opened, parse_id, usage};
use crate::commands::runtime;
use crate::gateway::service::Gateway;
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::top::Flags;
use crate::settings::{Settings, from_file};
use steadfast_core::deferral::may_be_set;

pub(super) fn run(
    args: &DeferredRunArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let id = args.id.as_deref().map(parse_id).transpose()?;
    let fields = fields(args)?;
    let settings = match &args.config {
        Some(file) => match from_file(file, &Flags::default(), environment) {
            Ok(settings) => Some(settings),
            Err(faults) => return Err(Stop::Told(refuse(&faults, console.err)?)),
        },
        None => None,
    };
    let place = StoreArgs {
        store: args.store.clone(),
        config: args.config.clone(),
    };
    let store = opened(&place, environment, console)?;
    let outbox = Outbox::new(fields).map_err(|why| Stop::Say(Exit::Failed, why))?;
    let ran = runtime()?.block_on(async {
        let server = Server::new(store, limits(settings.as_ref())).await?;
        let gateway = settings
            .as_ref()
            .map(|settings| Gateway::new(settings, server.clone()));
        let ways = Ways { gateway, outbox };
        let Some(id) = id else {
            let mut all = Vec::new();
            run_due(&server, ways, |ran| all.push(ran.clone())).await?;
            return Ok(all);
        };
        if server.store().by_id(id).await?.is_none() {
            return Err(absent(id));
        }
        match run_one(&server, ways, id).await? {
            Some(ran) => Ok(vec![ran]),
            None => Err(Stop::Say(Exit::Failed, not_run(id, args))),
        }
    })?;
    tell(&ran, args.json, console)?;
    Ok(exit(&ran))
}

fn not_run(id: steadfast_core::record::OperationId, args: &DeferredRunArgs) -> String {
    let routes = match args.config {
        Some(_) => "",
        None => ", or it is a gateway's, whose --config says where it goes",
    };
    format!("{id} was not sent: it is not in the queue, or at work{routes}; `deferred show` tells")
}

/// A gateway's shortest lease is its own to know.
fn limits(settings: Option<&Settings>) -> Limits {
    let defaults = Limits::default();
    let routes = settings.iter().flat_map(|settings| settings.routes.iter());
    let lease = routes.map(|route| route.policy.idempotency.lease).min();
    Limits {
        lease: lease.unwrap_or(defaults.lease),
        ..defaults
    }
}

fn fields(args: &DeferredRunArgs) -> Result<HeaderMap, Stop> {
    let mut fields = HeaderMap::new();
    for (name, value) in &args.headers {
        if !may_be_set(name) {
            let what = format!("-H {name}: it is written for every attempt; leave it out");
            return Err(usage(what));
        }
        fields.append(name, value.clone());
    }
    Ok(fields)
}

fn tell(ran: &[Ran], json: bool, console: &mut Console<'_>) -> Result<(), Stop> {
    if json {
        let rows = ran.iter().map(|ran| {
            json!({
                "id": ran.id.to_string(),
                "state": ran.state.as_str(),
                "status": ran.status,
                "reason": ran.reason,
                "next": ran.next.map(WallTime::rfc3339),
            })
        });
        writeln!(console.out, "{:#}", Value::Array(rows.collect()))?;
        return Ok(());
    }
    for ran in ran {
        let (id, state) = (ran.id, ran.state);
        let next = ran.next.map(|at| format!(", again at {}", at.rfc3339()));
        let next = next.unwrap_or_default();
        writeln!(console.out, "{id}\t{state}\t{}{next}", ran.reason)?;
    }
    if ran.is_empty() {
        writeln!(console.err, "nothing is due")?;
    }
    Ok(())
}

/// The first that fits: unknown, still deferred, by the worst status.
fn exit(ran: &[Ran]) -> Exit {
    let any = |state| ran.iter().any(|ran| ran.state == state);
    let status = ran.iter().filter_map(|ran| ran.status).max();
    match status {
        _ if any(State::Unknown) => Exit::Unknown,
        _ if any(State::Deferred) || any(State::Reserved) || any(State::Dispatched) => {
            Exit::Deferred
        }
        Some(500..) => Exit::ServerError,
        Some(400..=499) => Exit::ClientError,
        _ => Exit::Done,
    }
}
