//! What a policy gives: which attempts, when, with which limits and waits.
//!
//! Decides nothing of its own: it asks the functions that decide for real ([`attempt_share`],
//! [`Backoff`](crate::backoff::Backoff)) what would happen if every attempt took its whole limit,
//! and what stacked layers multiply to (requirements T2, R4, R8).

use std::time::Duration;

use crate::deadline::attempt_share;
use crate::retry::{Reason, RetryPolicy};

/// The attempts of a policy, each taking its whole limit; without a limit they take no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The attempts that start.
    pub attempts: Vec<Planned>,
    /// Those that do not, and why.
    pub skipped: Vec<(u32, Reason)>,
    /// The waits before attempts that start. With jitter, the longest that each can be.
    pub waits: Vec<Duration>,
}

/// One attempt that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its number, from 1 on.
    pub attempt: u32,
    /// Since the operation began.
    pub start: Duration,
    /// How long it may take; `None` without any limit.
    pub limit: Option<Duration>,
    /// What is left of the deadline when it starts; `None` without one.
    pub remaining: Option<Duration>,
}

/// The plan of `policy` under an overall `deadline` and a limit for each attempt, where there are
/// any.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::backoff::{Backoff, Curve, Jitter};
/// use steadfast_core::plan::plan;
/// use steadfast_core::retry::{Reason, RetryPolicy};
/// let ms = Duration::from_millis;
/// let policy = RetryPolicy {
///     backoff: Backoff::new(Curve::Fixed, ms(100), ms(100), Jitter::None).unwrap(),
///     ..RetryPolicy::default()
/// };
/// // 900 ms in all, 500 ms an attempt, 100 ms between: (1, 500 of 900), (2, 300 of 300), no third.
/// let plan = plan(&policy, Some(ms(900)), Some(ms(500)), Duration::ZERO);
/// let limits: Vec<_> = plan.attempts.iter().map(|a| (a.limit, a.remaining)).collect();
/// assert_eq!(limits, [(Some(ms(500)), Some(ms(900))), (Some(ms(300)), Some(ms(300)))]);
/// assert_eq!(plan.skipped, [(3, Reason::Deadline)]);
/// ```
pub fn plan(
    policy: &RetryPolicy,
    deadline: Option<Duration>,
    attempt_limit: Option<Duration>,
    min_attempt: Duration,
) -> Plan {
    let max = policy.max_attempts.get();
    let mut plan = Plan {
        attempts: Vec::new(),
        skipped: Vec::new(),
        waits: Vec::new(),
    };
    let (mut now, mut before) = (Duration::ZERO, Duration::ZERO);
    for attempt in 1..=max {
        let wait = match attempt {
            1 => Duration::ZERO,
            later => policy.backoff.longest(later - 1, before),
        };
        let start = now.saturating_add(wait);
        let remaining = deadline.map(|deadline| deadline.saturating_sub(start));
        let limit = match (remaining, attempt_limit) {
            (None, limit) => limit,
            (Some(left), limit) => {
                let limit = limit.unwrap_or(Duration::MAX);
                let Some(share) = attempt_share(left, limit, min_attempt) else {
                    plan.skipped = (attempt..=max).map(|n| (n, Reason::Deadline)).collect();
                    break;
                };
                Some(share).filter(|_| attempt_limit.is_some())
            }
        };
        if attempt > 1 {
            plan.waits.push(wait);
        }
        plan.attempts.push(Planned {
            attempt,
            start,
            limit,
            remaining,
        });
        now = start.saturating_add(limit.unwrap_or(Duration::ZERO));
        before = wait;
    }
    plan
}

/// How often the innermost service may be called for one call of the outermost, with so many
/// attempts at each layer (R8).
///
/// ```
/// assert_eq!(steadfast_core::plan::worst_case(&[3, 3]), 9);
/// ```
pub fn worst_case(attempts: &[u32]) -> u64 {
    let product = |all: u64, layer: &u32| all.saturating_mul(u64::from(*layer));
    attempts.iter().fold(1, product)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backoff::{Backoff, Curve, Jitter};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn policy(max: u32, jitter: Jitter) -> RetryPolicy {
        RetryPolicy {
            max_attempts: std::num::NonZeroU32::new(max).expect("not zero"),
            backoff: Backoff::new(Curve::Exponential, MS(500), MS(8000), jitter).expect("sound"),
            ..RetryPolicy::default()
        }
    }

    // rule: plan-uses-only-what-it-is-given
    #[test]
    fn without_limits_attempts_take_no_time_and_all_of_them_start() {
        let plan = plan(&policy(7, Jitter::None), None, None, Duration::ZERO);
        assert_eq!(plan.waits, [500, 1000, 2000, 4000, 8000, 8000].map(MS));
        assert_eq!(plan.attempts.len(), 7);
        assert_eq!(plan.attempts[2].start, MS(1500));
        let unlimited = |a: &Planned| a.limit.is_none() && a.remaining.is_none();
        assert!(plan.attempts.iter().all(unlimited));
        assert!(plan.skipped.is_empty());
    }

    // rule: plan-skips-what-does-not-fit
    #[test]
    fn what_does_not_fit_is_skipped_with_its_wait() {
        let plan = plan(
            &policy(7, Jitter::None),
            Some(MS(2000)),
            None,
            Duration::ZERO,
        );
        assert_eq!(plan.waits, [500, 1000].map(MS));
        let left: Vec<_> = plan.attempts.iter().map(|a| a.remaining).collect();
        assert_eq!(left, [2000, 1500, 500].map(|ms| Some(MS(ms))));
        let skipped: Vec<_> = plan.skipped.iter().map(|(n, _)| *n).collect();
        assert_eq!(skipped, [4, 5, 6, 7]);
    }

    #[test]
    fn with_jitter_waits_are_their_upper_ends() {
        let full = plan(&policy(4, Jitter::Full), None, None, Duration::ZERO);
        assert_eq!(full.waits, [500, 1000, 2000].map(MS));
        let apart = plan(&policy(4, Jitter::Decorrelated), None, None, Duration::ZERO);
        assert_eq!(apart.waits, [1500, 4500, 8000].map(MS));
    }

    #[test]
    fn layers_multiply_and_never_overflow() {
        assert_eq!(worst_case(&[4, 4]), 16);
        assert_eq!(worst_case(&[]), 1);
        assert_eq!(worst_case(&[u32::MAX; 3]), u64::MAX);
    }
}
