//! Two counts over a sliding window of time, in buckets.
//!
//! Decides what has left the window. Refuses to know what is counted: [`crate::budget`] and
//! [`crate::breaker`] do. A window is ten buckets, so that what a burst brought goes in tenths and
//! not at once; counts are exact, since an average that decays can hide a short burst of failures.

use std::time::Duration;

use crate::time::MonoTime;

/// Buckets of one window.
const BUCKETS: usize = 10;

/// The number of one bucket since the driver's origin of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket(u64);

/// Two counts, summed over the window that ends now.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Nanoseconds of one bucket, above zero.
    width: u64,
    newest: u64,
    buckets: [[u32; 2]; BUCKETS],
    sums: [u64; 2],
}

impl Window {
    /// An empty window of `length`; one below ten nanoseconds is ten.
    pub(crate) fn new(length: Duration) -> Window {
        let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        Window {
            width: (nanos / BUCKETS as u64).max(1),
            newest: 0,
            buckets: [[0; 2]; BUCKETS],
            sums: [0; 2],
        }
    }

    /// Both sums at `now`. What was counted more than a window ago is gone, whether or not anything
    /// happened since.
    pub(crate) fn sums(&mut self, now: MonoTime) -> [u64; 2] {
        self.advance(now);
        self.sums
    }

    /// Adds one to the count `which` (0 or 1) at `now`, and says in which bucket it stands.
    pub(crate) fn add(&mut self, which: usize, now: MonoTime) -> Bucket {
        self.advance(now);
        let count = &mut self.buckets[(self.newest % BUCKETS as u64) as usize][which];
        if let Some(more) = count.checked_add(1) {
            *count = more;
            self.sums[which] += 1;
        }
        Bucket(self.newest)
    }

    /// Takes one that was added back, if its bucket is still in the window.
    pub(crate) fn take_back(&mut self, which: usize, bucket: Bucket, now: MonoTime) {
        self.advance(now);
        if self.newest - bucket.0.min(self.newest) >= BUCKETS as u64 {
            return;
        }
        let count = &mut self.buckets[(bucket.0 % BUCKETS as u64) as usize][which];
        if let Some(less) = count.checked_sub(1) {
            *count = less;
            self.sums[which] -= 1;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.buckets = [[0; 2]; BUCKETS];
        self.sums = [0; 2];
    }

    /// Moves on to `now`. A clock that seems to go back moves nothing.
    fn advance(&mut self, now: MonoTime) {
        let nanos = u64::try_from(now.since(MonoTime::from_origin(Duration::ZERO)).as_nanos());
        let bucket = nanos.unwrap_or(u64::MAX) / self.width;
        if bucket <= self.newest {
            return;
        }
        if bucket - self.newest >= BUCKETS as u64 {
            self.clear();
        } else {
            for passed in self.newest + 1..=bucket {
                let gone = &mut self.buckets[(passed % BUCKETS as u64) as usize];
                self.sums[0] -= u64::from(gone[0]);
                self.sums[1] -= u64::from(gone[1]);
                *gone = [0; 2];
            }
        }
        self.newest = bucket;
    }
}

/// A share of one, in millionths: exact where `f64` is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u32);

/// A share that is no number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoRatio(pub f64);

impl std::fmt::Display for NoRatio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} is not a ratio; write a number from 0 to 1, such as 0.2 for one in five",
            self.0
        )
    }
}

impl std::error::Error for NoRatio {}

impl Ratio {
    /// One whole, in the unit of [`Ratio::millionths`].
    pub const ONE: u32 = 1_000_000;

    /// The share that `value` says, to the next millionth.
    ///
    /// # Errors
    /// [`NoRatio`] for what is below zero, above one, or no number.
    pub fn new(value: f64) -> Result<Ratio, NoRatio> {
        if !(0.0..=1.0).contains(&value) {
            return Err(NoRatio(value));
        }
        Ok(Ratio((value * f64::from(Ratio::ONE)).round() as u32))
    }

    /// The share that so many millionths are; more than one whole is one whole.
    pub const fn of_millionths(millionths: u32) -> Ratio {
        if millionths > Ratio::ONE {
            Ratio(Ratio::ONE)
        } else {
            Ratio(millionths)
        }
    }

    /// Millionths of one.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// As a number from 0 to 1.
    pub fn get(self) -> f64 {
        f64::from(self.0) / f64::from(Ratio::ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn counts_leave_with_their_bucket_and_not_before() {
        let mut window = Window::new(Duration::from_secs(10));
        window.add(0, at(500));
        window.add(1, at(1500));
        assert_eq!(window.sums(at(9_999)), [1, 1]);
        assert_eq!(window.sums(at(10_000)), [0, 1]);
        assert_eq!(window.sums(at(11_000)), [0, 0]);
    }

    #[test]
    fn a_long_silence_empties_the_window_and_does_not_freeze_it() {
        let mut window = Window::new(Duration::from_secs(10));
        window.add(0, at(0));
        assert_eq!(window.sums(at(86_400_000)), [0, 0]);
        window.add(0, at(86_400_000));
        assert_eq!(window.sums(at(86_400_001)), [1, 0]);
    }

    #[test]
    fn a_clock_that_goes_back_changes_nothing() {
        let mut window = Window::new(Duration::from_secs(10));
        window.add(0, at(50_000));
        window.add(0, at(20_000));
        assert_eq!(window.sums(at(10_000)), [2, 0]);
        assert_eq!(window.sums(at(50_000)), [2, 0]);
    }

    #[test]
    fn what_is_taken_back_is_gone_once() {
        let mut window = Window::new(Duration::from_secs(10));
        let bucket = window.add(1, at(0));
        window.take_back(1, bucket, at(5_000));
        assert_eq!(window.sums(at(5_000)), [0, 0]);
        let old = window.add(1, at(5_000));
        window.take_back(1, old, at(20_000));
        window.add(1, at(20_000));
        assert_eq!(window.sums(at(20_000)), [0, 1]);
    }

    #[test]
    fn a_ratio_is_exact_and_from_nothing_to_one() {
        for (value, millionths) in [(0.0, 0), (0.15, 150_000), (0.3, 300_000), (1.0, 1_000_000)] {
            assert_eq!(Ratio::new(value).map(Ratio::millionths), Ok(millionths));
        }
        for bad in [-0.1, 1.000_001, 20.0, f64::NAN, f64::INFINITY] {
            assert!(Ratio::new(bad).is_err(), "{bad}");
        }
    }
}
