//! The number that only grows.
//!
//! Decides the next fence from the counter and the row it replaces, and where a new store starts.
//! It refuses to know who draws and where the counter is kept. Rule: greater than every fence
//! drawn before, below 2^53. Source: docs/keyed-requests.md, "States".

use steadfast_core::time::WallTime;

use super::StoreError;

/// Fences stay below this: JSON numbers are exact up to it, and fences travel as such.
pub(crate) const END: u64 = 1 << 53;

/// The id of the fingerprint secret that is made with a store.
pub(crate) const FIRST_SECRET: &str = "1";

/// A new store's counter: the date in milliseconds × 1000, so that a store made anew in place of a
/// lost one goes on above what that one drew. A clock beyond the year 2112 leaves the upper half
/// free.
pub(crate) fn start(now: WallTime) -> u64 {
    now.unix_ms().saturating_mul(1000).min(END / 2)
}

/// The next fence after `counter`, above that of the row it is drawn for.
pub(crate) fn next(counter: u64, of_row: u64) -> Result<u64, StoreError> {
    let next = counter.max(of_row).saturating_add(1);
    if next < END {
        return Ok(next);
    }
    Err(used_up())
}

/// There is no fence left below 2^53.
pub(crate) fn used_up() -> StoreError {
    let why = "its fences are used up (2^53); prepare a new store and keep this one for look-ups";
    StoreError::Unavailable(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_above_the_counter_and_the_row_and_below_2_to_the_53() {
        assert_eq!(next(7, 3), Ok(8));
        assert_eq!(next(7, 9), Ok(10));
        assert_eq!(next(END - 2, 0), Ok(END - 1));
        for (counter, row) in [(END - 1, 0), (0, END - 1), (u64::MAX, 0), (0, u64::MAX)] {
            assert!(matches!(
                next(counter, row),
                Err(StoreError::Unavailable(_))
            ));
        }
    }

    #[test]
    fn a_new_store_starts_at_the_date_in_milliseconds_times_1000() {
        assert_eq!(
            start(WallTime::from_unix_ms(1_800_000_000_000)),
            1_800_000_000_000_000
        );
        assert!(next(start(WallTime::from_unix_ms(u64::MAX)), 0).is_ok());
    }
}
