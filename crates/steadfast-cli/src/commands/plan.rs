//! `plan`: the attempts, waits and limits that a policy gives, and the worst case of stacked
//! layers. What it prints is [`steadfast_core::plan`]'s.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::backoff::{Backoff, CapBelowBase};
use steadfast_core::plan::{Plan, Planned, plan, worst_case};
use steadfast_core::policy::RoutePolicy;
use steadfast_core::retry::{Reason, RetryPolicy};

use super::policy;
use crate::args::PlanArgs;
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::value::show_length;

/// Columns of the line of time.
const LINE: usize = 60;

/// Runs the command; results go to `out`, the story to `err`.
pub fn run(
    args: &PlanArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let layers: Vec<u32> = match args.layers_retries.is_empty() {
        true => args.layers.iter().map(|n| n.get()).collect(),
        false => args.layers_retries.iter().map(|n| n + 1).collect(),
    };
    if !layers.is_empty() {
        return stacked(&layers, args.json, out);
    }
    let (config, name) = (args.config.as_deref(), args.route.as_deref());
    let route = match policy::of(config, name, environment, err)? {
        Ok(route) => route,
        Err(exit) => return Ok(exit),
    };
    let retry = match typed(args, &route) {
        Ok(retry) => retry,
        Err(wrong) => {
            writeln!(err, "error: --cap: {wrong}")?;
            return Ok(Exit::Usage);
        }
    };
    // Without a configuration only what is typed counts.
    let of_route = |value: Duration| config.map(|_| value);
    let deadline = args.deadline.or(of_route(route.deadline));
    let limit = args.attempt_timeout.or(of_route(route.timeouts.attempt));
    let least = args.min_attempt.or(of_route(route.timeouts.min_attempt));
    let plan = plan(&retry, deadline, limit, least.unwrap_or_default());
    match args.json {
        true => writeln!(out, "{}", as_json(&plan))?,
        false => table(&plan, deadline, io::stdout().is_terminal(), out)?,
    }
    Ok(Exit::Done)
}

fn typed(args: &PlanArgs, route: &RoutePolicy) -> Result<Arc<RetryPolicy>, CapBelowBase> {
    let of_route = route.retry.backoff;
    let base = args.base.unwrap_or(of_route.base());
    let cap = args.cap.unwrap_or(of_route.cap().max(base));
    let backoff = Backoff::new(
        args.backoff.unwrap_or(of_route.curve()),
        base,
        cap,
        args.jitter.unwrap_or(of_route.jitter()),
    )?;
    Ok(Arc::new(RetryPolicy {
        max_attempts: args.max_attempts.unwrap_or(route.retry.max_attempts),
        backoff,
        ..(*route.retry).clone()
    }))
}

fn ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Written out, so that the members stand in the order in which people read them.
fn as_json(plan: &Plan) -> String {
    let limit = |length: Option<Duration>| length.map_or("null".to_owned(), |l| ms(l).to_string());
    let attempt = |planned: &Planned| {
        format!(
            r#"{{"attempt":{},"start_ms":{},"limit_ms":{},"remaining_ms":{}}}"#,
            planned.attempt,
            ms(planned.start),
            limit(planned.limit),
            limit(planned.remaining),
        )
    };
    let skipped = |(attempt, reason): &(u32, Reason)| {
        format!(r#"{{"attempt":{attempt},"reason":"{}"}}"#, reason.as_str())
    };
    let attempts: Vec<String> = plan.attempts.iter().map(attempt).collect();
    let skipped: Vec<String> = plan.skipped.iter().map(skipped).collect();
    let waits: Vec<String> = plan.waits.iter().map(|w| ms(*w).to_string()).collect();
    format!(
        r#"{{"attempts":[{}],"skipped":[{}],"waits_ms":[{}]}}"#,
        attempts.join(","),
        skipped.join(","),
        waits.join(","),
    )
}

const COLUMNS: [&str; 5] = ["ATTEMPT", "WAIT", "START", "LIMIT", "REMAINING"];

/// One line an attempt; on a terminal aligned, with a line of time beside it.
fn table(
    plan: &Plan,
    deadline: Option<Duration>,
    terminal: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let waits = std::iter::once(Duration::ZERO).chain(plan.waits.iter().copied());
    let whole = whole_length(plan, deadline);
    if terminal {
        let [attempt, wait, start, limit, remaining] = COLUMNS;
        writeln!(
            out,
            "{attempt:<8} {wait:>8} {start:>8} {limit:>8} {remaining:>9}"
        )?;
    }
    for (planned, wait) in plan.attempts.iter().zip(waits) {
        let shown = |length: Option<Duration>| length.map_or("none".to_owned(), show_length);
        let cells = [
            planned.attempt.to_string(),
            show_length(wait),
            show_length(planned.start),
            shown(planned.limit),
            shown(planned.remaining),
        ];
        match terminal {
            false => writeln!(out, "{}", cells.join("\t"))?,
            true => {
                let [attempt, wait, start, limit, remaining] = cells;
                let bar = bar(planned, whole);
                let cells = format!("{attempt:<8} {wait:>8} {start:>8} {limit:>8} {remaining:>9}");
                writeln!(out, "{}", format!("{cells}  {bar}").trim_end())?;
            }
        }
    }
    for (attempt, reason) in &plan.skipped {
        match terminal {
            false => writeln!(out, "{attempt}\tskipped\t{}", reason.as_str())?,
            true => writeln!(out, "{attempt:<8}  not started: {}", reason.why())?,
        }
    }
    Ok(())
}

/// What the line of time spans.
fn whole_length(plan: &Plan, deadline: Option<Duration>) -> Duration {
    let ends = plan.attempts.iter();
    let ends = ends.map(|a| a.start.saturating_add(a.limit.unwrap_or_default()));
    deadline.unwrap_or_else(|| ends.max().unwrap_or_default())
}

fn bar(planned: &Planned, whole: Duration) -> String {
    if whole.is_zero() {
        return String::new();
    }
    let at = |length: Duration| {
        let share = length.as_secs_f64() / whole.as_secs_f64();
        ((share * LINE as f64).round() as usize).min(LINE)
    };
    let from = at(planned.start);
    let to = at(planned
        .start
        .saturating_add(planned.limit.unwrap_or_default()));
    format!("{}{}", " ".repeat(from), "#".repeat((to - from).max(1)))
}

/// What stacked layers come to, and which of them should own the retries (R8): the innermost one,
/// which alone sees whether anything was sent, and whose budget all callers share.
fn stacked(layers: &[u32], json: bool, out: &mut dyn Write) -> io::Result<Exit> {
    let worst = worst_case(layers);
    let owner = layers.len();
    if json {
        let each = |attempts: &u32| json!({ "attempts": attempts, "retries": attempts - 1 });
        let each: Vec<Value> = layers.iter().map(each).collect();
        let off: Vec<usize> = (1..owner).collect();
        let told = json!({
            "layers": each,
            "worst_case_attempts": worst,
            "owner": owner,
            "switch_off": off,
        });
        writeln!(out, "{told}")?;
        return Ok(Exit::Done);
    }
    for (at, attempts) in layers.iter().enumerate() {
        let retries = attempts - 1;
        writeln!(
            out,
            "layer {}: {attempts} attempts ({retries} retries)",
            at + 1
        )?;
    }
    writeln!(
        out,
        "worst case: {worst} attempts at the service for one call"
    )?;
    if owner > 1 {
        let own = layers[owner - 1];
        writeln!(
            out,
            "Let layer {owner}, next to the service, own the retries: it alone sees whether \
             anything was sent, and all callers share its budget. Set the others to 1 attempt: \
             then one call is at most {own}."
        )?;
    }
    Ok(Exit::Done)
}
