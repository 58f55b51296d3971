//! `explain`: would this failure be retried, and by which rule. The answer is
//! [`steadfast_core::retry::on_end`]'s, the function that gateway and client ask.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use steadfast::clock;
use steadfast_core::attempt::{Answered, AttemptEnd, Failure};
use steadfast_core::backoff::{Backoff, Jitter};
use steadfast_core::policy::{KeyMode, OnUnknown, RoutePolicy};
use steadfast_core::repeat::{BodyKind, KeyUse, Operation};
use steadfast_core::retry::{self, Course, Decision, Next, RetryPolicy, Signs, Situation};
use steadfast_core::retry_after::{self, Advice};
use steadfast_core::time::{Draw, WallTime};

use super::policy;
use crate::args::{BodyName, ErrorName, ExplainArgs, Processed};
use crate::run::Exit;
use crate::settings::environment::Environment;
use crate::settings::value::show_length;

/// What is left of the deadline where nothing says it.
const REMAINING: Duration = Duration::from_secs(30);

/// Runs the command; results go to `out`, the story to `err`.
pub fn run(
    args: &ExplainArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let (config, name) = (args.config.as_deref(), args.route.as_deref());
    let route = match policy::of(config, name, environment, err)? {
        Ok(route) => route,
        Err(exit) => return Ok(exit),
    };
    let Some(now) = read_now(args) else {
        writeln!(
            err,
            "error: --now: write a date, such as 2026-01-31T12:00:00Z or `Sat, 31 Jan 2026 \
             12:00:00 GMT`"
        )?;
        return Ok(Exit::Usage);
    };
    let told = args.retry_after.as_ref();
    let advice = told.map_or(Advice::Absent, |value| {
        retry_after::parse(value.as_bytes(), now)
    });
    if advice == Advice::Invalid {
        writeln!(
            err,
            "--retry-after is not valid and is ignored, as on the wire"
        )?;
    }
    let decision = decide(args, &route, advice);
    match args.json {
        true => writeln!(out, "{}", as_json(&decision))?,
        false => as_text(&decision, out)?,
    }
    Ok(Exit::Done)
}

fn read_now(args: &ExplainArgs) -> Option<WallTime> {
    let Some(text) = &args.now else {
        return Some(clock::wall_now());
    };
    WallTime::parse_rfc3339(text).or_else(|| {
        let base = WallTime::from_unix_ms(0);
        retry_after::parse_date(text.as_bytes(), base)
    })
}

fn decide(args: &ExplainArgs, route: &RoutePolicy, advice: Advice) -> Decision {
    let key = key_use(args, route);
    let end = match (args.status, args.error) {
        (Some(status), _) => AttemptEnd::Answered(Answered {
            status,
            request_written: true,
            through_intermediary: false,
            says_unknown: false,
        }),
        (None, error) => AttemptEnd::Failed(failure(error, args.processed)),
    };
    let conflict = args.status == Some(http::StatusCode::CONFLICT);
    let signs = Signs {
        retry_after: advice,
        in_progress: conflict && advice.wait().is_some() && key == KeyUse::Honoured,
        ..Signs::NONE
    };
    let retry = without_jitter(args, &route.retry);
    let first = if args.after.is_some() { 2 } else { 1 };
    let mut course = Course {
        attempts: args.attempt.map_or(first, |n| n.get()),
        ..Course::FIRST
    };
    let after = args.after.map(|after| failure(Some(after), args.processed));
    course.earlier.ambiguous = after.is_some_and(|after| !after.never_sent());
    let remaining = match args.config {
        Some(_) => route.deadline,
        None => REMAINING,
    };
    let situation = Situation {
        operation: Operation {
            method: &args.method,
            key,
            body: match args.body {
                BodyName::Whole => BodyKind::Whole,
                BodyName::Streamed => BodyKind::Streamed,
            },
            conditional: args.conditional,
        },
        policy: &retry,
        statuses: &route.idempotency.statuses,
        course,
        remaining: args.remaining.unwrap_or(remaining),
        attempt_limit: route.timeouts.attempt,
        min_attempt: route.timeouts.min_attempt,
        passed_on: args.passed_on,
        may_defer: args.defer,
    };
    let draw = || Draw::from_bits(0);
    retry::on_end(&situation, &end, &signs, draw, |_| Ok(()))
}

/// Whether the key is honoured: said by the caller alone, or by the route's contract.
fn key_use(args: &ExplainArgs, route: &RoutePolicy) -> KeyUse {
    let rules = &route.idempotency;
    match (args.key, &args.config) {
        (false, _) => KeyUse::None,
        (true, None) => KeyUse::Honoured,
        (true, Some(_)) if rules.mode == KeyMode::Off => KeyUse::None,
        (true, Some(_)) if !rules.methods.contains(&args.method) => KeyUse::None,
        (true, Some(_)) if rules.on_unknown == OnUnknown::Repeat => KeyUse::Honoured,
        (true, Some(_)) => KeyUse::Carried,
    }
}

/// Without chance, so that the same question has the same answer.
fn without_jitter(args: &ExplainArgs, policy: &Arc<RetryPolicy>) -> RetryPolicy {
    let waits = policy.backoff;
    let plain = Backoff::new(waits.curve(), waits.base(), waits.cap(), Jitter::None);
    RetryPolicy {
        max_attempts: args.max_attempts.unwrap_or(policy.max_attempts),
        backoff: plain.unwrap_or(waits),
        ..(**policy).clone()
    }
}

fn failure(error: Option<ErrorName>, processed: Processed) -> Failure {
    match error {
        Some(ErrorName::Resolve) => Failure::Resolve,
        Some(ErrorName::Connect) => Failure::Connect,
        Some(ErrorName::Tls) => Failure::TlsIdentity,
        Some(ErrorName::TlsHandshake) => Failure::TlsHandshake,
        Some(ErrorName::Write) => Failure::Write,
        Some(ErrorName::NotWritten) => Failure::NotWritten,
        Some(ErrorName::ReadTimeout) => Failure::ReadTimeout,
        Some(ErrorName::RefusedStream) => Failure::RefusedStream,
        Some(ErrorName::Goaway) => match processed {
            Processed::No => Failure::AboveGoaway,
            // What the peer did not rule out may have happened.
            Processed::Yes | Processed::Unknown => Failure::BelowGoaway,
        },
        Some(ErrorName::Idle) => Failure::Idle,
        Some(ErrorName::Truncated) => Failure::Truncated,
        // A status or an error is required; the worst of what could be meant.
        Some(ErrorName::Reset) | None => Failure::Reset,
    }
}

/// Written out, so that the members stand in the order in which people read them. No word in it
/// needs an escape: a sentence that did would fail the test that reads them all.
fn as_json(decision: &Decision) -> String {
    let ms = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let more = match decision.next {
        Next::Retry { wait, limit, .. } => {
            format!(r#","wait_ms":{},"limit_ms":{}"#, ms(wait), ms(limit))
        }
        Next::Defer { not_before } => format!(r#","not_before_ms":{}"#, ms(not_before)),
        Next::Finish | Next::Unknown | Next::GiveUp => String::new(),
    };
    format!(
        r#"{{"decision":"{}","reason":"{}","effect":"{}","why":"{}"{more}}}"#,
        decision.next.as_str(),
        decision.reason.as_str(),
        decision.effect.as_str(),
        decision.reason.why(),
    )
}

fn as_text(decision: &Decision, out: &mut dyn Write) -> io::Result<()> {
    let what = match decision.next {
        Next::Finish => "finish: the answer stands".to_owned(),
        Next::Retry { wait, .. } => format!("retry after {}", show_length(wait)),
        Next::Defer { not_before } => format!("defer for at least {}", show_length(not_before)),
        Next::Unknown => "unknown: the outcome is unknown, which is not failed".to_owned(),
        Next::GiveUp => "give up: it could be repeated, and is not".to_owned(),
    };
    writeln!(out, "{what}")?;
    let (effect, reason) = (decision.effect, decision.reason);
    writeln!(out, "effect: {effect}")?;
    writeln!(out, "reason: {}: {}", reason.as_str(), reason.why())
}
