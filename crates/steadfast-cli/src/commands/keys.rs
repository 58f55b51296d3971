//! `keys new|list|show|resolve|release`: find, read and settle records.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use steadfast::clock;
use steadfast::server::{operate, status};
use steadfast::store::{Scan, Store, StoreError};
use steadfast_core::key::{Key, Tenant};
use steadfast_core::record::{OperationId, Owner, Record, State};
use steadfast_core::replay;
use steadfast_core::time::WallTime;

use super::config::refuse;
use super::{print_store_error, runtime};
use crate::args::{
    FilterArgs, KeysCommand, ListArgs, NewKeyArgs, ReleaseArgs, ResolveArgs, ShowArgs, StoreArgs,
};
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::store as store_of;
use crate::settings::value::length_of;
use crate::stores::{Open, open};

mod print;

/// Records of `keys list` where the caller does not say.
const LIST: u32 = 100;

/// Records read from the store at once.
const PAGE: u32 = 500;

/// Who acts, in the history.
const BY: &str = "operator (keys)";

/// Why a command ends before it is done.
enum Stop {
    /// The story is told; this is the exit.
    Told(Exit),
    /// What is wrong, and the next step.
    Say(Exit, String),
    Store(StoreError),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Store(error)
    }
}

/// Where a command reads and writes.
pub struct Console<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// The story.
    pub err: &'a mut dyn Write,
}

/// Runs the command.
pub fn run(
    command: &KeysCommand,
    environment: &Environment,
    console: &mut Console<'_>,
) -> io::Result<Exit> {
    let done = match command {
        KeysCommand::New(args) => new(args, console),
        KeysCommand::List(args) => list(args, environment, console),
        KeysCommand::Show(args) => show(args, environment, console),
        KeysCommand::Resolve(args) => resolve(args, environment, console),
        KeysCommand::Release(args) => release(args, environment, console),
    };
    match done {
        Ok(exit) | Err(Stop::Told(exit)) => Ok(exit),
        Err(Stop::Say(exit, what)) => {
            writeln!(console.err, "error: {what}")?;
            Ok(exit)
        }
        Err(Stop::Store(error)) => print_store_error(&error, console.err),
        Err(Stop::Io(error)) => Err(error),
    }
}

fn new(args: &NewKeyArgs, console: &mut Console<'_>) -> Result<Exit, Stop> {
    let key = fresh_key();
    if args.json {
        writeln!(console.out, "{}", json!({ "key": key }))?;
    } else {
        writeln!(console.out, "{key}")?;
    }
    Ok(Exit::Done)
}

/// A random key, as UUID version 4 (RFC 9562, 5.4): 122 bits that nobody guesses.
pub(super) fn fresh_key() -> String {
    let bits = clock::random_bits();
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

fn list(
    args: &ListArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let store = opened(&args.store, environment, console)?;
    let rows = runtime()?.block_on(async {
        let scan = scan_of(&args.filter, &*store).await?;
        matching(&*store, scan, args.filter.limit.unwrap_or(LIST)).await
    })?;
    if args.json {
        let rows: Vec<Value> = rows.iter().map(status::record).collect();
        writeln!(console.out, "{:#}", Value::Array(rows))?;
    } else {
        print::table(&rows, io::stdout().is_terminal(), console.out)?;
    }
    Ok(Exit::Done)
}

fn show(
    args: &ShowArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Stop> {
    let store = opened(&args.store, environment, console)?;
    let id = parse_id(&args.id)?;
    let row = runtime()?
        .block_on(store.by_id(id))?
        .ok_or_else(|| absent(id))?;
    print_record(&row, args.json, console)
}

fn resolve(
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

fn release(
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
            let scan = scan_of(&args.filter, &*store).await?;
            let most = args.filter.limit.unwrap_or(u32::MAX);
            let mut rows = matching(&*store, scan, most).await?;
            // A filter means what can be released; everything else is settled or at work.
            let lost = args.filter.expired_lease;
            rows.retain(|row| match row.standing.state {
                State::Unknown | State::Deferred => true,
                _ => lost && row.is_held(),
            });
            return Ok::<_, Stop>(rows);
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

fn print_record(row: &Record, json: bool, console: &mut Console<'_>) -> Result<Exit, Stop> {
    if json {
        writeln!(console.out, "{:#}", status::record_with_history(row))?;
    } else {
        print::record(row, console.out)?;
    }
    Ok(Exit::Done)
}

fn opened(
    args: &StoreArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Arc<dyn Store>, Stop> {
    let url = match store_of(args.config.as_deref(), args.store.as_deref(), environment) {
        Ok(url) => url,
        Err(faults) => return Err(Stop::Told(refuse(&faults, console.err)?)),
    };
    open(&url, Open::Existing)
        .map_err(|error| Stop::Say(Exit::Configuration, format!("store = \"{url}\": {error}")))
}

/// The filter as the store understands it.
async fn scan_of(filter: &FilterArgs, store: &dyn Store) -> Result<Scan, Stop> {
    let now = store.now().await?;
    let mut scan = Scan {
        state: filter.state,
        ..Scan::default()
    };
    if let Some(text) = &filter.older_than {
        let length = length_of(text)
            .map_err(|wrong| usage(format!("--older-than: {}; {}", wrong.reason, wrong.next)))?;
        let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        scan.updated_before = Some(WallTime::from_unix_ms(now.unix_ms().saturating_sub(ms)));
    }
    scan.locked_before = filter.expired_lease.then_some(now);
    if let Some(owner) = &filter.owner {
        let known = Owner::parse(owner);
        let known = known
            .ok_or_else(|| usage(format!("--owner {owner} is no owner, as records show it")))?;
        scan.owner = Some(known);
    }
    if let Some(key) = &filter.key {
        let known = Key::from_stored(key);
        scan.key = Some(known.ok_or_else(|| usage("--key is no key that could be stored".into()))?);
    }
    if let Some(principal) = &filter.principal {
        scan.tenant = Some(tenant_of(principal, store).await?);
    }
    Ok(scan)
}

/// A principal as records show it, or as callers send it in `Authorization`.
async fn tenant_of(principal: &str, store: &dyn Store) -> Result<Tenant, Stop> {
    if let Some(tenant) = Tenant::from_stored(principal) {
        return Ok(tenant);
    }
    let secrets = store.secrets().await?;
    Ok(Tenant::of(
        &secrets.scope,
        "authorization",
        principal.as_bytes(),
    ))
}

/// Up to `most` rows, over all pages.
async fn matching(store: &dyn Store, scan: Scan, most: u32) -> Result<Vec<Record>, Stop> {
    let mut rows = Vec::new();
    let mut after = None;
    while rows.len() < most as usize {
        let left = most - u32::try_from(rows.len()).unwrap_or(most);
        let page = store
            .scan(Scan {
                after,
                limit: left.min(PAGE),
                ..scan.clone()
            })
            .await?;
        for why in page.unreadable {
            tracing::error!(reason = %why, "a stored record cannot be read");
        }
        rows.extend(page.rows);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(rows)
}

/// Asks before something is changed. Where nobody can be asked, `--yes` has to say it.
fn confirm(yes: bool, what: &str, console: &mut Console<'_>) -> Result<(), Stop> {
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

fn parse_id(id: &str) -> Result<OperationId, Stop> {
    let wrong = || {
        usage(format!(
            "`{id}` is no operation's id; `steadfast keys list` shows them"
        ))
    };
    OperationId::parse(id).ok_or_else(wrong)
}

fn absent(id: OperationId) -> Stop {
    let what = format!("there is no record {id}; `steadfast keys list` shows those there are");
    Stop::Say(Exit::Failed, what)
}

fn usage(what: String) -> Stop {
    Stop::Say(Exit::Usage, what)
}
