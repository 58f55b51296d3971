//! How many live keys one principal may have: beyond, no new one begins.
//!
//! Decides whether a new key may begin from what a process knows of its principal, and when that is
//! too old or too near the bound to be believed. Refuses to know how keys are counted, and which
//! requests need a new one: a finished answer, a running operation and the repeat of a key that
//! stands already ask for none. Rule: a key is never evicted to make room, since that would let a
//! finished operation run again. Source: docs/keyed-requests.md, "Quota" (S3).

use std::time::Duration;

/// So long a count is believed where it is far from the quota: one read a second for a principal
/// that is busy.
pub const FRESH: Duration = Duration::from_secs(1);

/// A count is asked for anew for each key from so many before the quota on, or from a quarter of
/// it: other processes do not begin as many in [`FRESH`], since a store takes fewer.
pub const NEAR: u64 = 25_000;

/// The longest wait that is suggested: keys may be removed before their time.
const SUGGESTED_MAX: Duration = Duration::from_secs(3600);

/// What a process knows of a principal's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Live keys, as the store counted them.
    pub counted: u64,
    /// Keys that began here and that the count may not have in it: those inserted since it was
    /// asked for, and those on their way.
    pub unsure: u64,
}

/// Whether a new key may begin by what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// It may.
    Admit,
    /// The store must be asked first.
    Ask,
}

/// Whether a new key may begin by what the store has just counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It may.
    Admit,
    /// It depends on how those end that are on their way here; ask again after one of them.
    Wait,
    /// It may not; about so long until one of the principal's keys ends.
    Refuse(Duration),
}

/// By a count that was asked for `age` ago.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::quota::{Known, Remembered, remembered};
///
/// let known = |counted| Known { counted, unsure: 0 };
/// let (second, quota) = (Duration::from_secs(1), 100_000);
/// assert_eq!(remembered(known(74_999), second, quota), Remembered::Admit);
/// assert_eq!(remembered(known(75_000), second, quota), Remembered::Ask);
/// assert_eq!(remembered(known(0), 2 * second, quota), Remembered::Ask);
/// assert_eq!(remembered(known(0), second, 25_000), Remembered::Ask);
/// ```
pub fn remembered(known: Known, age: Duration, quota: u64) -> Remembered {
    let near = NEAR.max(quota / 4);
    let at_most = known.counted.saturating_add(known.unsure);
    match age <= FRESH && at_most.saturating_add(near) < quota {
        true => Remembered::Admit,
        false => Remembered::Ask,
    }
}

/// By a count that has just come. `retention` is how long a finished key is kept.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::quota::{Counted, Known, counted};
///
/// let day = Duration::from_secs(24 * 3600);
/// let known = |counted, unsure| Known { counted, unsure };
/// assert_eq!(counted(known(2, 0), 3, day), Counted::Admit);
/// assert_eq!(counted(known(2, 1), 3, day), Counted::Wait);
/// // Keys that begin evenly over a day end so far apart.
/// let apart = Duration::from_millis(864);
/// assert_eq!(counted(known(100_000, 0), 100_000, day), Counted::Refuse(apart));
/// ```
pub fn counted(known: Known, quota: u64, retention: Duration) -> Counted {
    if known.counted >= quota {
        let keys = u32::try_from(known.counted).unwrap_or(u32::MAX).max(1);
        return Counted::Refuse((retention / keys).min(SUGGESTED_MAX));
    }
    match known.counted.saturating_add(known.unsure) < quota {
        true => Counted::Admit,
        false => Counted::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn what_is_remembered_admits_only_far_from_the_quota_and_for_a_moment() {
        let ask = |counted, unsure, age_ms, quota| {
            let age = Duration::from_millis(age_ms);
            remembered(Known { counted, unsure }, age, quota) == Remembered::Ask
        };
        assert!(!ask(0, 0, 0, 100_000));
        assert!(!ask(0, 0, 1000, 100_000));
        assert!(ask(0, 0, 1001, 100_000));
        assert!(!ask(70_000, 4_999, 0, 100_000));
        assert!(ask(70_000, 5_000, 0, 100_000), "its own count as well");
        for quota in [1, 3, 25_000] {
            assert!(ask(0, 0, 0, quota), "near from the first on");
        }
        assert!(!ask(0, 0, 0, 25_001));
        assert!(ask(u64::MAX, u64::MAX, 0, u64::MAX));
    }

    // rule: a-quota-refuses-the-key-beyond-it
    #[test]
    fn a_count_admits_below_the_quota_and_refuses_from_it_on() {
        let judge = |sure, unsure, quota| {
            let known = Known {
                counted: sure,
                unsure,
            };
            counted(known, quota, DAY)
        };
        let hour = Duration::from_secs(3600);
        for (sure, unsure, quota, expected) in [
            (0, 0, 1, Counted::Admit),
            (0, 1, 1, Counted::Wait),
            (1, 0, 1, Counted::Refuse(hour)),
            (2, 0, 3, Counted::Admit),
            (0, 3, 3, Counted::Wait),
            (3, 9, 3, Counted::Refuse(hour)),
            (4, 0, 3, Counted::Refuse(hour)),
            (86_400, 0, 86_400, Counted::Refuse(Duration::from_secs(1))),
            (u64::MAX - 1, 5, u64::MAX, Counted::Wait),
        ] {
            assert_eq!(
                judge(sure, unsure, quota),
                expected,
                "{sure} {unsure} {quota}"
            );
        }
    }
}
