//! `keys stats` and `keys sweep`: what is in the store, and what time brings about in it.

use std::io::{self, IsTerminal, Write as _};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steadfast::server::{Due, Limits, Server, Swept, due, sweep_all};
use steadfast::store::{Stats, Status, Store};
use steadfast_core::record::State;
use steadfast_core::time::WallTime;

use super::settle::confirm;
use super::{Console, Stop, opened};
use crate::args::{StatsArgs, SweepArgs};
use crate::commands::runtime;
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::value::{show_length, show_size};

/// Counts what is in the store.
pub(super) fn stats(
    args: &StatsArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let store = opened(&args.store, environment, console)?;
    let (at, status, stats) = runtime()?.block_on(async {
        let at = store.now().await?;
        let stats = store.stats(at, args.top).await?;
        Ok::<_, Stop>((at, store.status().await?, stats))
    })?;
    if args.json {
        let value = stats_json(at, &status, &stats);
        writeln!(console.out, "{value:#}")?;
    } else {
        print_stats(at, &status, &stats, console)?;
    }
    Ok(Exit::Done)
}

fn oldest(stats: &Stats, state: State) -> Option<WallTime> {
    let found = stats.oldest.iter().find(|(own, _)| *own == state);
    found.map(|(_, at)| *at)
}

/// To the second: nobody reads more of an age.
fn length(length: Duration) -> String {
    humantime::format_duration(Duration::from_secs(length.as_secs())).to_string()
}

fn stats_json(at: WallTime, status: &Status, stats: &Stats) -> Value {
    let counts = status.rows.iter();
    let counts = counts.map(|(state, count)| (state.as_str().to_owned(), json!(count)));
    let since = |state: State| {
        let at = oldest(stats, state).map(WallTime::rfc3339);
        (state.as_str().to_owned(), json!(at))
    };
    let tenants = stats.tenants.iter();
    let tenants = tenants.map(|(tenant, live)| json!({ "tenant": tenant.as_str(), "live": live }));
    json!({
        "at": at.rfc3339(),
        "records": counts.collect::<Map<_, _>>(),
        "oldest": State::ALL.into_iter().map(since).collect::<Map<_, _>>(),
        "tenants": tenants.collect::<Vec<_>>(),
        "leases_over": stats.leases_over,
        "expired": stats.expired,
        "expiry_lag_ms": u64::try_from(status.expiry_lag.as_millis()).unwrap_or(u64::MAX),
        "bytes": stats.bytes,
    })
}

fn print_stats(
    at: WallTime,
    status: &Status,
    stats: &Stats,
    console: &mut Console<'_>,
) -> io::Result<()> {
    let out = &mut *console.out;
    for (state, count) in &status.rows {
        let since = oldest(stats, *state).map_or_else(String::new, |since| {
            let (age, since) = (length(at.since(since)), since.rfc3339());
            format!("  oldest unchanged for {age}, since {since}")
        });
        writeln!(out, "{:<11} {count}{since}", state.as_str())?;
    }
    let (over, expired) = (stats.leases_over, stats.expired);
    writeln!(out, "leases over {over}")?;
    let lag = length(status.expiry_lag);
    writeln!(out, "expired     {expired}, expiry lag {lag}")?;
    if let Some(bytes) = stats.bytes {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        writeln!(out, "on disk     {}", show_size(bytes))?;
    }
    if !stats.tenants.is_empty() {
        writeln!(out, "\nlive records by tenant")?;
    }
    for (tenant, live) in &stats.tenants {
        writeln!(out, "{:<32}  {live}", tenant.as_str())?;
    }
    Ok(())
}

/// Counts what is due, asks, and does it until nothing is.
pub(super) fn sweep(
    args: &SweepArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let store: Arc<dyn Store> = opened(&args.store, environment, console)?;
    let runtime = runtime()?;
    let (server, found) = runtime.block_on(async {
        let server = Server::new(store, Limits::default()).await?;
        let found = due(&server).await?;
        Ok::<_, Stop>((server, found))
    })?;
    if found.expiry_stopped {
        let lease = show_length(Limits::default().lease);
        writeln!(
            console.err,
            "expiry stands still: the store's date is ahead of this machine's clock by more than \
             {lease}; check the time (docs/operations.md, \"Clocks\")"
        )?;
    }
    let mut swept = Swept {
        expiry_stopped: found.expiry_stopped,
        ..Swept::default()
    };
    if let Some(what) = what_is_due(&found) {
        confirm(args.yes, &what, console)?;
        let shown = io::stderr().is_terminal();
        let total = found.leases_over + found.expired;
        swept = runtime.block_on(sweep_all(&server, |so_far| {
            if shown {
                let done = u64::from(so_far.recovered) + u64::from(so_far.expired);
                // Progress that nobody can be shown stops nothing.
                let _ = write!(io::stderr(), "\r{done} of {}", total.max(done));
            }
        }))?;
        if shown {
            writeln!(console.err)?;
        }
    }
    if args.json {
        let value = json!({
            "recovered": swept.recovered,
            "expired": swept.expired,
            "expiry_stopped": swept.expiry_stopped,
        });
        writeln!(console.out, "{value:#}")?;
    } else {
        writeln!(console.out, "leases written down  {}", swept.recovered)?;
        writeln!(console.out, "records removed      {}", swept.expired)?;
    }
    Ok(Exit::Done)
}

/// What a sweep would do, as a clause; `None` where there is nothing.
fn what_is_due(found: &Due) -> Option<String> {
    let plural = |count: u64, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {more}")),
    };
    let leases = plural(found.leases_over, "lost lease", "lost leases");
    let expired = if found.expiry_stopped {
        0
    } else {
        found.expired
    };
    let expired = plural(expired, "expired record", "expired records");
    let leases = leases.map(|leases| format!("write {leases} down"));
    let expired = expired.map(|expired| format!("remove {expired}"));
    let clauses: Vec<String> = leases.into_iter().chain(expired).collect();
    (!clauses.is_empty()).then(|| clauses.join(" and "))
}
