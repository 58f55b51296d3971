//! The settings below `retry`, `budget` and `breaker`: when a request is sent again, and when an
//! upstream is not asked any more.
//!
//! Decides which values are possible, and translates them into the core's types. The words are
//! those of docs/reference.md; what they do is the core's.

use std::num::NonZeroU32;

use http::StatusCode;
use steadfast_core::Ratio;
use steadfast_core::backoff::{Backoff, Curve, Jitter};
use steadfast_core::breaker::BreakerPolicy;
use steadfast_core::budget::BudgetPolicy;
use steadfast_core::repeat::Contract;
use steadfast_core::retry::{ErrorSet, RetryPolicy, StatusSet};

use super::document::Value;
use super::fault::{Kind, Wrong};
use super::keyed;
use super::layers::Layers;
use super::value::{Word, length, list, positive_length, share, show_length, switch, whole, word};

/// Most attempts that can be asked for: beyond it a number is a slip.
pub(super) const MOST_ATTEMPTS: u32 = 1000;

/// Most retries a second that can be allowed without any success.
pub(super) const MOST_FLOOR: u32 = 10_000;

/// Most requests that a breaker can wait for, and most probes.
pub(super) const MOST_REQUESTS: u32 = 1_000_000;

/// The curves of waits.
pub(super) const CURVES: [&str; 2] = ["exponential", "fixed"];

/// The ways to spread waits.
pub(super) const JITTERS: [&str; 4] = ["full", "none", "equal", "decorrelated"];

/// The words for failures after which a request may go again.
pub(super) const ERRORS: [&str; 12] = {
    let mut words = [""; 12];
    let mut at = 0;
    while at < words.len() {
        words[at] = ErrorSet::WORDS[at].0;
        at += 1;
    }
    words
};

/// Reads everything below `retry`.
pub fn retry(layers: &mut Layers<'_>) -> RetryPolicy {
    let base = RetryPolicy::default();
    RetryPolicy {
        max_attempts: layers.take("retry.max_attempts", base.max_attempts, |value| {
            let attempts = whole(value, 1..=MOST_ATTEMPTS)?;
            Ok(NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN))
        }),
        backoff: backoff(layers, base.backoff),
        on_status: layers.take("retry.on_status", base.on_status, statuses),
        contract: Contract {
            unsent_writes: layers.take("retry.unsent_writes", base.contract.unsent_writes, switch),
            safe_to_repeat: layers.take("retry.safe_to_repeat", None, |v| switch(v).map(Some)),
        },
        methods: layers.take("retry.methods", base.methods, |value| match value {
            // None of them: nothing is repeated.
            Value::List(list) if list.is_empty() => Ok(Some(Vec::new())),
            _ => keyed::methods(value).map(Some),
        }),
        on_error: layers.take("retry.on_error", base.on_error, errors),
        max_wait: layers.take("retry.max_wait", None, |v| length(v).map(Some)),
        obey_retry_after: base.obey_retry_after,
    }
}

/// Reads everything below `budget`.
pub fn budget(layers: &mut Layers<'_>) -> BudgetPolicy {
    let base = BudgetPolicy::default();
    let floor = |value: &Value| whole(value, 0..=MOST_FLOOR);
    BudgetPolicy {
        ratio: layers.take("budget.ratio", base.ratio, share),
        floor_per_second: layers.take("budget.floor_per_second", base.floor_per_second, floor),
        window: layers.take("budget.window", base.window, positive_length),
    }
}

/// Reads everything below `breaker`.
pub fn breaker(layers: &mut Layers<'_>) -> BreakerPolicy {
    let base = BreakerPolicy::default();
    let count = |value: &Value| whole(value, 1..=MOST_REQUESTS);
    BreakerPolicy {
        failure_ratio: layers.take("breaker.failure_ratio", base.failure_ratio, failures),
        min_requests: layers.take("breaker.min_requests", base.min_requests, count),
        window: layers.take("breaker.window", base.window, positive_length),
        open_for: layers.take("breaker.open_for", base.open_for, positive_length),
        probes: layers.take("breaker.probes", base.probes, count),
    }
}

fn backoff(layers: &mut Layers<'_>, default: Backoff) -> Backoff {
    let curves = CURVES.map(|word| -> Word<Curve> { (word, Curve::parse(word)) });
    let jitters = JITTERS.map(|word| -> Word<Jitter> { (word, Jitter::parse(word)) });
    let curve = layers.take("retry.backoff", default.curve(), |v| word(v, &curves));
    let base = layers.take("retry.base", default.base(), length);
    let cap = layers.take("retry.cap", default.cap(), length);
    let jitter = layers.take("retry.jitter", default.jitter(), |v| word(v, &jitters));
    Backoff::new(curve, base, cap, jitter).unwrap_or_else(|_| {
        let blamed = match layers.written("retry.cap") {
            Some(_) => "retry.cap",
            None => "retry.base",
        };
        let (base, cap) = (show_length(base), show_length(cap));
        let reason = format!("the cap of {cap} is shorter than the base of {base}");
        let wrong = Wrong::new(
            Kind::Contradiction,
            reason,
            "raise the cap or lower the base",
        );
        layers.refuse(blamed, wrong);
        default
    })
}

fn statuses(value: &Value) -> Result<StatusSet, Wrong> {
    let all = list(value, "a list of statuses, such as [429, 503]", |element| {
        let status = whole(element, 100..=599)?;
        // 100 to 599 are statuses, all of them.
        StatusCode::from_u16(status as u16)
            .map_err(|_| Wrong::invalid(format!("{status} is not a status"), "write one of HTTP's"))
    })?;
    Ok(all.into_iter().collect())
}

fn errors(value: &Value) -> Result<ErrorSet, Wrong> {
    let words = ERRORS.map(|word| -> Word<&str> { (word, Some(word)) });
    let named = list(
        value,
        "a list of errors, such as [\"connect\"]",
        |element| {
            if *element == Value::Text("tls".to_owned()) {
                let reason = "a refused certificate, hostname or trust is never repeated";
                return Err(Wrong::invalid(reason, "remove `tls`"));
            }
            word(element, &words)
        },
    )?;
    let set = |set: ErrorSet, word| set.and(word).unwrap_or(set);
    Ok(named.into_iter().fold(ErrorSet::none(), set))
}

fn failures(value: &Value) -> Result<Ratio, Wrong> {
    let ratio = share(value)?;
    if ratio.millionths() == 0 {
        let reason = "with a share of zero it opens although nothing failed";
        return Err(Wrong::invalid(
            reason,
            "write a number above 0, such as 0.5",
        ));
    }
    Ok(ratio)
}
