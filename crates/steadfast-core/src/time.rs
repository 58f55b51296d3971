//! Time and chance as values.
//!
//! Decides nothing; gives the core two kinds of time that do not convert into one another. A length
//! is measured on [`MonoTime`]; [`WallTime`] is used only where a record or a protocol names a date
//! (requirement T3). Neither can be read here: drivers pass them in.

use std::time::Duration;

/// An instant on a monotonic clock: milliseconds and below are real, the origin is the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(Duration);

impl MonoTime {
    /// The instant `since_origin` after the driver's origin.
    pub const fn from_origin(since_origin: Duration) -> Self {
        MonoTime(since_origin)
    }

    /// The length from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: MonoTime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `length` later; saturates, never overflows.
    pub fn plus(self, length: Duration) -> MonoTime {
        MonoTime(self.0.saturating_add(length))
    }
}

/// A date: whole milliseconds since 1970-01-01T00:00:00Z, never negative.
///
/// ```
/// use steadfast_core::time::WallTime;
/// assert_eq!(WallTime::from_unix_ms(951_782_400_123).rfc3339(), "2000-02-29T00:00:00.123Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// The date `ms` milliseconds after the epoch.
    pub const fn from_unix_ms(ms: u64) -> Self {
        WallTime(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// The date `length` later; saturates, never overflows.
    pub fn plus(self, length: Duration) -> WallTime {
        WallTime(
            self.0
                .saturating_add(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// The date `length` earlier; never before the epoch.
    pub fn less(self, length: Duration) -> WallTime {
        WallTime(
            self.0
                .saturating_sub(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// The length from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: WallTime) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The instant of a civil date and time, UTC: (year, month, day), (hour, minute, second), each
    /// within its calendar's bounds. What is before 1970 is the epoch.
    pub(crate) fn of_civil(date: (u64, u64, u64), time: (u64, u64, u64)) -> WallTime {
        let (year, month, day) = date;
        let from_march = (month + 9) % 12;
        let year = if month <= 2 {
            year.saturating_sub(1)
        } else {
            year
        };
        let (era, of_era) = (year / 400, year % 400);
        let of_year = (153 * from_march + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        let Some(days) = days.checked_sub(719_468) else {
            return WallTime(0);
        };
        let (hour, minute, second) = time;
        WallTime((days * 86_400 + hour * 3600 + minute * 60 + second).saturating_mul(1000))
    }

    /// Reads a date of RFC 3339 in UTC, to the second or with a fraction, as
    /// [`WallTime::rfc3339`] writes it.
    ///
    /// ```
    /// use steadfast_core::time::WallTime;
    /// let date = WallTime::parse_rfc3339("2000-02-29T00:00:00.123Z");
    /// assert_eq!(date, Some(WallTime::from_unix_ms(951_782_400_123)));
    /// assert_eq!(WallTime::parse_rfc3339("2000-02-30T00:00:00Z"), None);
    /// ```
    pub fn parse_rfc3339(text: &str) -> Option<WallTime> {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let part = |text: Option<&str>, digits: usize| {
            let text = text.filter(|t| t.len() == digits && t.bytes().all(|b| b.is_ascii_digit()));
            text?.parse::<u64>().ok()
        };
        let (mut day, mut clock) = (date.split('-'), time.split(':'));
        let date = (
            part(day.next(), 4)?,
            part(day.next(), 2)?,
            part(day.next(), 2)?,
        );
        let time = (
            part(clock.next(), 2)?,
            part(clock.next(), 2)?,
            part(clock.next(), 2)?,
        );
        let tail = fraction.get(..fraction.len().min(3))?;
        let plain = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
        let thousandths = part(Some(&format!("{tail:0<3}")), 3).filter(|_| plain)?;
        let ended = day.next().is_none() && clock.next().is_none();
        let ends = time.0 < 24 && time.1 < 60 && time.2 <= 60;
        let read = (1..=12)
            .contains(&date.1)
            .then(|| WallTime::of_civil(date, time))?;
        // A day that its month does not have reads back as another.
        let same = civil_from_days(read.0 / 86_400_000) == date || time.2 == 60;
        (ended && ends && same && date.2 > 0).then(|| WallTime(read.0 + thousandths))
    }

    /// The year, UTC.
    pub(crate) fn year(self) -> u64 {
        civil_from_days(self.0 / 86_400_000).0
    }

    /// RFC 3339, UTC, with milliseconds. Dates after the year 9999 are written as that year's end.
    pub fn rfc3339(self) -> String {
        const LAST: u64 = 253_402_300_799_999;
        let ms = self.0.min(LAST);
        let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
        let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// Year, month and day of a day count since 1970-01-01, in the proleptic Gregorian calendar.
/// Counts in 400-year eras that begin on 1 March, so that the leap day is an era's last.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// One draw of chance in `[0, 1)`, made by the driver.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Draw(f64);

impl Draw {
    /// A draw from 64 random bits: the upper 53 of them, so every value is exact and below one.
    pub fn from_bits(bits: u64) -> Draw {
        Draw((bits >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// The value, in `[0, 1)`.
    pub fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_in_rfc_3339_utc() {
        let table = [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_772_323_199_999, "2026-02-28T23:59:59.999Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ];
        for (ms, text) in table {
            assert_eq!(WallTime::from_unix_ms(ms).rfc3339(), text);
        }
    }

    #[test]
    fn times_saturate_and_never_go_below_zero() {
        let late = MonoTime::from_origin(Duration::MAX);
        assert_eq!(late.plus(Duration::from_secs(1)), late);
        assert_eq!(
            MonoTime::from_origin(Duration::ZERO).since(late),
            Duration::ZERO
        );
        assert_eq!(
            WallTime::from_unix_ms(u64::MAX)
                .plus(Duration::MAX)
                .unix_ms(),
            u64::MAX
        );
    }

    #[test]
    fn a_draw_is_below_one_for_any_bits() {
        assert!(Draw::from_bits(u64::MAX).get() < 1.0);
        assert_eq!(Draw::from_bits(0).get(), 0.0);
    }
}
