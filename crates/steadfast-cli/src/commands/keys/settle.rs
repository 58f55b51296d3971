//! `keys resolve` and `keys release`: what a person decides about records.

use std::io::{self, IsTerminal, Read};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use steadfast::server::{operate, status};
use steadfast::store::Store;
use steadfast_core::record::{OperationId, Record};
use steadfast_core::replay;

use super::select::{matching, scan_of};
use super::{Console, Stop, absent, opened, parse_id, print_record, usage};
use crate::args::{FilterArgs, ReleaseArgs, ResolveArgs};
use crate::commands::runtime;
use crate::run::Exit;
use crate::settings::environment::Environment;

/// Who acts, in the history.
const BY: &str = "operator (keys)";

pub(super) fn resolve(
    args: &ResolveArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let id = parse_id(&args.id)?;
    let status = StatusCode::from_u16(args.status);
    let status = status.map_err(|_| usage(format!("--status {} is no status", args.status)))?;
    let headers = headers_of(&args.headers)?;
    let body = body_of(args.body.as_deref())?;
    if matches!(args.status, 204 | 205 | 304) && !body.is_empty() {
        let what = format!("an answer of {} has no body; leave --body out", args.status);
        return Err(usage(what));
    }
    let store = opened(&args.store, environment, console)?;
    let runtime = runtime()?;
    let row = runtime
        .block_on(store.by_id(id))?
        .ok_or_else(|| absent(id))?;
    let what = format!(
        "give {} as the answer of {} ({})",
        args.status, row.operation, id
    );
    confirm(args.yes, &what, console)?;
    let answer = replay::kept(status, &headers, body);
    let done = runtime.block_on(operate::resolve(&*store, &row, answer, BY));
    let row = done.map_err(|refused| Stop::Say(Exit::Failed, format!("{id}: {refused}")))?;
    print_record(&row, args.json, console)
}

pub(super) fn release(
    args: &ReleaseArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    if args.names_nothing() {
        return Err(usage(
            "name the records: their ids, or a filter such as --state unknown".into(),
        ));
    }
    let ids: Vec<OperationId> = args
        .ids
        .iter()
        .map(|id| parse_id(id))
        .collect::<Result<_, _>>()?;
    let store = opened(&args.store, environment, console)?;
    let runtime = runtime()?;
    let rows = runtime.block_on(async {
        if ids.is_empty() {
            return releasable(&args.filter, &*store).await;
        }
        let mut rows = Vec::new();
        for id in ids {
            rows.push(store.by_id(id).await?.ok_or_else(|| absent(id))?);
        }
        Ok(rows)
    })?;
    let what = match rows.as_slice() {
        [] => {
            writeln!(console.err, "no record matches; nothing was changed")?;
            return Ok(Exit::Done);
        }
        [row] => format!("release {}: it was not executed, and may run again", row.id),
        rows => format!(
            "release {} records: they were not executed, and may run again",
            rows.len()
        ),
    };
    confirm(args.yes, &what, console)?;
    let mut exit = Exit::Done;
    let mut released = Vec::new();
    for row in rows {
        match runtime.block_on(operate::release(&*store, &row, BY)) {
            Ok(row) => released.push(row),
            Err(refused) => {
                writeln!(console.err, "error: {}: {refused}", row.id)?;
                exit = Exit::Failed;
            }
        }
    }
    if args.json {
        let rows: Vec<Value> = released.iter().map(status::record).collect();
        writeln!(console.out, "{:#}", Value::Array(rows))?;
    } else {
        for row in released {
            writeln!(console.out, "released {}", row.id)?;
        }
    }
    Ok(exit)
}

/// What a filter means: those of its records that can be released.
async fn releasable(filter: &FilterArgs, store: &dyn Store) -> Result<Vec<Record>, Stop> {
    let scan = scan_of(filter, store).await?;
    let mut rows = matching(store, scan, filter.limit.unwrap_or(u32::MAX)).await?;
    let (found, now) = (rows.len(), store.now().await?);
    rows.retain(|row| operate::can_be_settled(row, now));
    if found > 0 && rows.is_empty() {
        let what = match found {
            1 => "1 record matches, but it cannot be released: it is".to_owned(),
            found => format!("{found} records match, but none can be released: they are"),
        };
        let what = format!(
            "{what} settled, or at work until its lease is over; `steadfast keys list` shows more, \
             and `steadfast keys sweep` writes lost leases down. Nothing was changed"
        );
        return Err(Stop::Say(Exit::Failed, what));
    }
    Ok(rows)
}

/// Asks before something is changed. Where nobody can be asked, `--yes` has to say it.
pub(in crate::commands) fn confirm(
    yes: bool,
    what: &str,
    console: &mut Console<'_>,
) -> Result<(), Stop> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        let say = format!("this would {what}; repeat it with --yes to do so");
        return Err(Stop::Say(Exit::Failed, say));
    }
    write!(console.err, "This will {what}. Go on? [y/N] ")?;
    console.err.flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    if matches!(line.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Stop::Say(Exit::Failed, "nothing was changed".to_owned()))
}

fn headers_of(lines: &[String]) -> Result<HeaderMap, Stop> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let wrong = || usage("--header is not NAME: VALUE".to_owned());
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        headers.append(
            name,
            HeaderValue::from_str(value.trim()).map_err(|_| wrong())?,
        );
    }
    Ok(headers)
}

fn body_of(given: Option<&str>) -> Result<Bytes, Stop> {
    let read = |file: &str, read: io::Result<Vec<u8>>| {
        read.map(Bytes::from).map_err(|error| {
            Stop::Say(
                Exit::Usage,
                format!("--body: {file} cannot be read ({error}); name another"),
            )
        })
    };
    match given {
        None => Ok(Bytes::new()),
        Some("-") => {
            let mut bytes = Vec::new();
            let done = io::stdin().read_to_end(&mut bytes).map(|_| bytes);
            read("standard input", done)
        }
        Some(data) => match data.strip_prefix('@') {
            Some(file) => read(file, std::fs::read(file)),
            None => Ok(Bytes::from(data.to_owned())),
        },
    }
}
