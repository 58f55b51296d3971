//! The log's lines of attempts: one for each, and one for each keyed request that was answered
//! without one.
//!
//! A line says which route and upstream, how it ended and how long it took. It has no path, query,
//! body, key, principal or other field of the request (S2): a path may hold what is personal, so
//! the route's name stands for it.

use std::time::Duration;

use steadfast::event::{AttemptEnded, End, Event, KeyedAnswered};

use super::watch::{Named, named};

/// Writes the line of `event`, where it has one.
pub fn log(event: &Event<'_>, routes: &[Named]) {
    match event {
        Event::Attempt(ended) => attempt(ended, routes),
        Event::Keyed(answered) if !answered.own_attempt => keyed(answered, routes),
        _ => {}
    }
}

fn attempt(ended: &AttemptEnded<'_>, routes: &[Named]) {
    let route = named(routes, ended.route);
    let (status, error) = match ended.end {
        End::Answered(status) => (Some(status.as_u16()), None),
        End::Failed(failure) => (None, Some(failure.slug())),
        End::CallerLeft => (None, Some(CALLER_LEFT)),
    };
    tracing::info!(
        event = "attempt",
        operation = ended.operation.map(|(id, _)| display(id)),
        route = route.map(|route| &*route.label),
        method = ended.method.as_str(),
        attempt = ended.number,
        upstream = route.map(|route| &*route.upstream),
        status,
        error,
        effect = ended.effect.as_str(),
        not_repeated = ended.skipped.map(|reason| reason.as_str()),
        fence = ended.operation.map(|(_, fence)| fence),
        head_ms = ended.to_head.map(ms),
        duration_ms = ms(ended.took),
        trace = ended.trace.map(display),
        "an attempt ended"
    );
}

fn keyed(answered: &KeyedAnswered<'_>, routes: &[Named]) {
    tracing::info!(
        event = "keyed",
        operation = answered.operation.map(display),
        route = named(routes, answered.route).map(|route| &*route.label),
        method = answered.method.as_str(),
        outcome = answered.outcome.as_str(),
        status = answered.status.as_u16(),
        duration_ms = ms(answered.took),
        trace = answered.trace.map(display),
        "a keyed request was answered without an attempt"
    );
}

/// What stands for an error where the caller left.
pub const CALLER_LEFT: &str = "caller-left";

/// Milliseconds, down to the microsecond.
fn ms(length: Duration) -> f64 {
    let us = u32::try_from(length.as_micros()).unwrap_or(u32::MAX);
    f64::from(us) / 1000.0
}
