//! The store's date: the database's clock, which never goes back.
//!
//! Decides how a date is had without asking for each. A reply carries the database's clock; between
//! replies this process's monotonic clock goes on from it, for a second at most. Rule: no date is
//! given that lies before one that was given or written, here or by another process. For the latter
//! `date_mark` in the database is never before a date that was written: it is raised, ahead by
//! [`STEP`], with the write that would pass it, so that gateways do not meet at one row with every
//! commit. Source: docs/keyed-requests.md, "States" (one clock).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast_core::time::{MonoTime, WallTime};

use crate::clock;
use crate::store::WallClock;

/// How long the database's clock is continued from one reply.
const FRESH: Duration = Duration::from_secs(1);

/// How far, in milliseconds, the mark is put ahead: the most that a process which starts while
/// others write may begin ahead of them.
const STEP: u64 = 250;

/// The database's clock and its mark, as one reply told them. Milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) clock: u64,
    pub(super) mark: u64,
}

/// The date of one store.
pub(super) struct Date {
    /// Takes the place of the database's clock.
    wall: Option<WallClock>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The last date that was given, written or read.
    last: u64,
    clock: Option<(u64, MonoTime)>,
    mark: u64,
}

impl Known {
    fn reading(&self, now: MonoTime) -> Option<u64> {
        let (told, at) = self.clock?;
        let since = now.since(at);
        let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        (since < FRESH).then(|| told.saturating_add(ms))
    }
}

impl Date {
    pub(super) fn new(wall: Option<WallClock>) -> Date {
        let known = Mutex::default();
        Date { wall, known }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self, known: &Known) -> Option<u64> {
        match &self.wall {
            Some(wall) => Some(wall().unix_ms()),
            None => known.reading(clock::mono_now()),
        }
    }

    /// The date, if it is known without asking.
    pub(super) fn now(&self) -> Option<WallTime> {
        let mut known = self.lock();
        known.last = known.last.max(self.reading(&known)?);
        Some(WallTime::from_unix_ms(known.last))
    }

    /// How far the date stands ahead of its clock, if that is known without asking.
    pub(super) fn ahead(&self) -> Option<Duration> {
        let known = self.lock();
        let ahead = known.last.saturating_sub(self.reading(&known)?);
        Some(Duration::from_millis(ahead))
    }

    /// Takes a reply in. `anew` with the first one of this process: what others wrote is not known.
    pub(super) fn learn(&self, told: Told, anew: bool) {
        let mut known = self.lock();
        known.clock = Some((told.clock, clock::mono_now()));
        known.mark = known.mark.max(told.mark);
        let reading = self.reading(&known).unwrap_or(told.clock);
        // A clock that has gone back behind what was written; by less than a step it may be just
        // the room that a mark has.
        let margin = if anew { 0 } else { STEP };
        if reading.saturating_add(margin) < known.mark {
            known.last = known.last.max(known.mark);
        }
    }

    /// A row tells its date.
    pub(super) fn note(&self, at: WallTime) {
        let mut known = self.lock();
        known.last = known.last.max(at.unix_ms());
    }

    /// Where the mark has to stand before `at` may be written, if it does not yet.
    pub(super) fn mark_for(&self, at: WallTime) -> Option<u64> {
        let at = at.unix_ms();
        (at > self.lock().mark).then(|| at.saturating_add(STEP))
    }

    /// `at` was written, with the mark at `mark` if it was moved.
    pub(super) fn written(&self, at: WallTime, mark: Option<u64>) {
        let mut known = self.lock();
        known.last = known.last.max(at.unix_ms());
        known.mark = known.mark.max(mark.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(clock: u64, mark: u64) -> Told {
        Told { clock, mark }
    }

    fn given(date: &Date) -> u64 {
        date.now().expect("a fresh reading").unix_ms()
    }

    // rule: the-date-of-a-database-never-goes-back
    #[tokio::test(start_paused = true)]
    async fn a_database_whose_clock_goes_back_gives_no_date_again() {
        let date = Date::new(None);
        assert_eq!(date.now(), None, "it has to ask");
        date.learn(told(10_000, 9_000), true);
        assert_eq!(given(&date), 10_000);
        clock::sleep(Duration::from_millis(300)).await;
        assert_eq!(given(&date), 10_300, "it goes on between two replies");
        date.learn(told(5_000, 9_000), false);
        assert_eq!(given(&date), 10_300);
        assert_eq!(date.ahead(), Some(Duration::from_millis(5_300)));
        clock::sleep(FRESH).await;
        assert_eq!((date.now(), date.ahead()), (None, None), "it has to ask");
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_wrote_is_not_undercut() {
        let date = Date::new(None);
        date.learn(told(5_000, 5_100), true);
        assert_eq!(
            given(&date),
            5_100,
            "the first reply: others may have written"
        );
        let date = Date::new(None);
        date.learn(told(5_000, 4_000), true);
        date.learn(told(5_000, 5_100), false);
        assert_eq!(given(&date), 5_000, "the room of another's mark");
        date.learn(told(5_000, 5_000 + STEP + 1), false);
        assert_eq!(given(&date), 5_001 + STEP, "the clock has gone back");
        let at = WallTime::from_unix_ms;
        assert_eq!(date.mark_for(at(5_001 + STEP)), None);
        assert_eq!(date.mark_for(at(6_000)), Some(6_000 + STEP));
        date.written(at(6_000), Some(6_000 + STEP));
        assert_eq!((given(&date), date.mark_for(at(6_100))), (6_000, None));
    }
}
