//! What a process has seen of time: leases that nobody renews, and a store's clock that runs ahead.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use steadfast_core::record::{Guard, OperationId, Record};
use steadfast_core::time::{MonoTime, WallTime};

use crate::clock;

/// Holds watched at once. Beyond it a hold is ended by the store's clock alone.
const WATCHED_MAX: usize = 100_000;

/// Since when each hold has been seen unrenewed, on this process's monotonic clock.
#[derive(Default)]
pub(super) struct Leases {
    seen: Mutex<HashMap<OperationId, (Guard, MonoTime)>>,
}

impl Leases {
    /// For how long this very version has been seen, unrenewed, by this process.
    pub(super) fn unrenewed_for(&self, row: &Record) -> Duration {
        let now = clock::mono_now();
        let mut seen = self
            .seen
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if !row.is_held() {
            seen.remove(&row.id);
            return Duration::ZERO;
        }
        match seen.get(&row.id) {
            Some((guard, since)) if *guard == row.guard() => now.since(*since),
            _ => {
                if seen.len() < WATCHED_MAX || seen.contains_key(&row.id) {
                    seen.insert(row.id, (row.guard(), now));
                }
                Duration::ZERO
            }
        }
    }

    /// Forgets every hold that is not among `held`: it has ended.
    pub(super) fn keep_only(&self, held: &[Record]) {
        let ids: HashSet<OperationId> = held.iter().map(|row| row.id).collect();
        let mut seen = self
            .seen
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        seen.retain(|id, _| ids.contains(id));
    }
}

/// Held rows that the last sweep could not read, so that each is told once and not in every sweep.
#[derive(Default)]
pub(super) struct Unreadable {
    told: Mutex<HashSet<String>>,
}

impl Unreadable {
    /// Those of `found` that were not found the last time.
    pub(super) fn new_of(&self, found: Vec<String>) -> Vec<String> {
        let found: HashSet<String> = found.into_iter().collect();
        let mut told = self
            .told
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let new = found.difference(&told).cloned().collect();
        *told = found;
        new
    }
}

/// Whether the store's clock is to be trusted for expiry: not while it has run ahead of the
/// monotonic clock by more than a lease since this process first saw it (docs/keyed-requests.md,
/// "States").
#[derive(Debug)]
pub struct Trust {
    wall: WallTime,
    mono: MonoTime,
    lease: Duration,
}

impl Trust {
    /// A process that saw the store's clock say `wall` at `mono`.
    pub fn new(wall: WallTime, mono: MonoTime, lease: Duration) -> Trust {
        Trust { wall, mono, lease }
    }

    /// Whether records may expire, the store's clock saying `wall` at `mono`.
    pub fn allows_expiry(&self, wall: WallTime, mono: MonoTime) -> bool {
        let ahead = wall.since(self.wall).saturating_sub(mono.since(self.mono));
        ahead <= self.lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rule: expiry-stops-while-the-clock-runs-ahead
    #[test]
    fn expiry_stops_while_the_store_s_clock_has_run_ahead_by_more_than_a_lease() {
        let second = Duration::from_secs(1);
        let wall = WallTime::from_unix_ms(1_000_000);
        let mono = MonoTime::from_origin(second);
        let trust = Trust::new(wall, mono, 30 * second);
        assert!(trust.allows_expiry(wall.plus(30 * second), mono));
        assert!(!trust.allows_expiry(wall.plus(31 * second), mono));
        // It goes on once the monotonic clock has caught up.
        assert!(trust.allows_expiry(wall.plus(31 * second), mono.plus(second)));
        // A clock that stood still or went back expires nothing too early, so it is no reason to
        // stop.
        assert!(trust.allows_expiry(WallTime::from_unix_ms(0), mono.plus(3600 * second)));
    }
}
