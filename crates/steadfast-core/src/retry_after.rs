//! What a server asked for: the `Retry-After` field, read strictly.
//!
//! Decides how long a response's field asks to wait. Refuses to know whether so much is left; that
//! is [`crate::retry`]'s. The value is seconds in ASCII digits, or one of the three forms of an
//! HTTP date (RFC 9110, 10.2.3 and 5.6.7; requirement R5). Anything else is invalid and ignored: a
//! signed, fractional or foreign number must not turn into a short wait. Parsers of dates that are
//! at hand take more than 5.6.7 allows (a wrong case, a zone of their own), so this one is ours.

use std::time::Duration;

use http::HeaderMap;
use http::header::{AGE, DATE, RETRY_AFTER};

use crate::time::WallTime;

/// How far a server's `Date` may be from our clock and still be what its dates are measured by. A
/// clock further away is broken, or the answer is old.
const PLAUSIBLE: Duration = Duration::from_secs(24 * 3600);

/// What a response's `Retry-After` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// There is no such field.
    Absent,
    /// Come back in this time and not before. A date that has passed is zero.
    Wait(Duration),
    /// Not the field's syntax: ignored, and counted.
    Invalid,
}

impl Advice {
    /// The wait, where there is a valid one.
    pub fn wait(self) -> Option<Duration> {
        match self {
            Advice::Wait(wait) => Some(wait),
            Advice::Absent | Advice::Invalid => None,
        }
    }
}

/// What the fields of a response ask for, received at `now`.
///
/// A date is measured by the response's own `Date` where that is plausible, so that a skewed clock
/// on either side does not matter; else by `now`. Of several lines the longest valid wait counts:
/// never early.
pub fn read(headers: &HeaderMap, now: WallTime) -> Advice {
    let mut lines = headers.get_all(RETRY_AFTER).iter();
    let Some(first) = lines.next() else {
        return Advice::Absent;
    };
    let reference = reference(headers, now);
    let first = parse(first.as_bytes(), reference);
    lines.fold(first, |so_far, line| {
        match (so_far, parse(line.as_bytes(), reference)) {
            (Advice::Wait(one), Advice::Wait(other)) => Advice::Wait(one.max(other)),
            (Advice::Wait(wait), _) | (_, Advice::Wait(wait)) => Advice::Wait(wait),
            (other, _) => other,
        }
    })
}

/// The instant that a date in a response is measured from.
fn reference(headers: &HeaderMap, now: WallTime) -> WallTime {
    let mut dates = headers.get_all(DATE).iter();
    let (Some(date), None) = (dates.next(), dates.next()) else {
        return now;
    };
    // With an age the response lay somewhere, and its date is not that of its coming.
    if headers.contains_key(AGE) {
        return now;
    }
    match parse_date(date.as_bytes(), now) {
        Some(date) if date.since(now).max(now.since(date)) <= PLAUSIBLE => date,
        _ => now,
    }
}

/// What one value of the field asks for, measured from `now`.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::retry_after::{parse, Advice};
/// use steadfast_core::time::WallTime;
/// let now = WallTime::from_unix_ms(1_445_412_420_000); // Wed, 21 Oct 2015 07:27:00 GMT
/// assert_eq!(parse(b"120", now), Advice::Wait(Duration::from_secs(120)));
/// assert_eq!(
///     parse(b"Wed, 21 Oct 2015 07:28:00 GMT", now),
///     Advice::Wait(Duration::from_secs(60))
/// );
/// assert_eq!(parse(b"-1", now), Advice::Invalid);
/// ```
pub fn parse(value: &[u8], now: WallTime) -> Advice {
    let value = trim(value);
    if !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
        // More than any clock holds is longer than anything that is left.
        let seconds = value.iter().fold(0u64, |n, d| {
            n.saturating_mul(10).saturating_add(u64::from(d - b'0'))
        });
        return Advice::Wait(Duration::from_secs(seconds));
    }
    match parse_date(value, now) {
        Some(date) => Advice::Wait(date.since(now)),
        None => Advice::Invalid,
    }
}

/// Optional white space around a field's value (RFC 9110, 5.6.3): spaces and tabs, nothing else.
fn trim(value: &[u8]) -> &[u8] {
    let is_space = |b: &u8| matches!(b, b' ' | b'\t');
    let Some(from) = value.iter().position(|b| !is_space(b)) else {
        return &[];
    };
    let to = value.iter().rposition(|b| !is_space(b)).unwrap_or(from);
    &value[from..=to]
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// An HTTP date in one of its three forms, case-sensitive (RFC 9110, 5.6.7). A year of two digits
/// that would be more than fifty years after `now` is the past one with these digits. Dates before
/// 1970 read as its beginning: both have passed.
pub fn parse_date(value: &[u8], now: WallTime) -> Option<WallTime> {
    let text = std::str::from_utf8(value).ok()?;
    imf_fixdate(text)
        .or_else(|| rfc850(text, now))
        .or_else(|| asctime(text))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &str) -> Option<WallTime> {
    let (day_name, rest) = text.split_once(", ")?;
    let rest = rest.strip_suffix(" GMT")?;
    let mut parts = rest.split(' ');
    let day = digits(parts.next()?, 2)?;
    let month = parts.next()?;
    let year = digits(parts.next()?, 4)?;
    let time = parts.next()?;
    if parts.next().is_some() {
        return None;
    }
    instant(&DAYS, day_name, year, month, day, time)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &str, now: WallTime) -> Option<WallTime> {
    let (day_name, rest) = text.split_once(", ")?;
    let (date, time) = rest.strip_suffix(" GMT")?.split_once(' ')?;
    let mut parts = date.split('-');
    let day = digits(parts.next()?, 2)?;
    let month = parts.next()?;
    let short = digits(parts.next()?, 2)?;
    if parts.next().is_some() {
        return None;
    }
    let this_year = now.year();
    let century = this_year - this_year % 100;
    // The year of these digits within fifty years from now, else the one before; a century that has
    // just begun may still mean the next.
    let year = [century + 100, century, century.saturating_sub(100)]
        .into_iter()
        .map(|century| century + short)
        .find(|year| *year <= this_year + 50)?;
    instant(&LONG_DAYS, day_name, year, month, day, time)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &str) -> Option<WallTime> {
    // Fixed columns: the day is padded with a space.
    let bytes = text.as_bytes();
    if bytes.len() != 24 || !text.is_ascii() {
        return None;
    }
    let gaps = [3, 7, 10, 19].iter().all(|at| bytes[*at] == b' ');
    let day = text[8..10].strip_prefix(' ').map_or_else(
        || digits(&text[8..10], 2).filter(|day| *day >= 10),
        |one| digits(one, 1),
    )?;
    let year = digits(&text[20..24], 4)?;
    gaps.then(|| instant(&DAYS, &text[0..3], year, &text[4..7], day, &text[11..19]))
        .flatten()
}

/// Exactly `count` ASCII digits.
fn digits(text: &str, count: usize) -> Option<u64> {
    let plain = text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// The instant of a date whose parts are read, where there is such a day.
fn instant(
    names: &[&str; 7],
    day_name: &str,
    year: u64,
    month: &str,
    day: u64,
    time: &str,
) -> Option<WallTime> {
    names.iter().position(|name| *name == day_name)?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    if !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let mut parts = time.split(':');
    let hour = digits(parts.next()?, 2).filter(|h| *h < 24)?;
    let minute = digits(parts.next()?, 2).filter(|m| *m < 60)?;
    // A leap second is a second.
    let second = digits(parts.next()?, 2).filter(|s| *s <= 60)?;
    if parts.next().is_some() {
        return None;
    }
    Some(WallTime::of_civil(
        (year, month, day),
        (hour, minute, second),
    ))
}

fn days_of(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const SECS: fn(u64) -> Duration = Duration::from_secs;

    /// 2026-01-15T12:00:00Z.
    const NOW: WallTime = WallTime::from_unix_ms(1_768_478_400_000);

    fn wait(seconds: u64) -> Advice {
        Advice::Wait(SECS(seconds))
    }

    // rule: retry-after-seconds-are-ascii-digits
    #[test]
    fn seconds_are_ascii_digits_and_nothing_else() {
        let valid = [
            ("120", 120),
            ("0", 0),
            ("00120", 120),
            (" 120 ", 120),
            ("\t7", 7),
        ];
        for (value, seconds) in valid {
            assert_eq!(parse(value.as_bytes(), NOW), wait(seconds), "{value:?}");
        }
        let invalid = [
            "-1",
            "+5",
            "1.5",
            "1e3",
            "0x10",
            "120s",
            "١٢٠",
            "１２０",
            "",
            " ",
            "120, 60",
            "soon",
            "1 2",
            "\u{a0}5",
            "5\0",
        ];
        for value in invalid {
            assert_eq!(parse(value.as_bytes(), NOW), Advice::Invalid, "{value:?}");
        }
        let endless = parse(b"99999999999999999999", NOW);
        assert_eq!(endless, wait(u64::MAX), "longer than anything that is left");
    }

    // rule: retry-after-dates-are-the-three-forms
    #[test]
    fn dates_are_read_in_their_three_forms_and_no_other() {
        let valid = [
            ("Thu, 15 Jan 2026 12:02:00 GMT", 120),
            ("Thursday, 15-Jan-26 12:02:00 GMT", 120),
            ("Thu Jan 15 12:02:00 2026", 120),
            ("Sun Feb  1 12:00:00 2026", 17 * 86_400),
            // A date that has passed asks for no wait.
            ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
            ("Sun Nov  6 08:49:37 1994", 0),
            ("Thu, 15 Jan 2026 12:00:00 GMT", 0),
            // A leap second, and a leap day.
            ("Thu, 15 Jan 2026 12:00:60 GMT", 60),
            ("Tue, 29 Feb 2028 12:00:00 GMT", 775 * 86_400),
            // Before 1970.
            ("Thu, 01 Jan 1900 00:00:00 GMT", 0),
            // The day's name is not compared with the date: an old server may have it wrong, and
            // nothing depends on it.
            ("Mon, 15 Jan 2026 12:02:00 GMT", 120),
        ];
        for (value, seconds) in valid {
            assert_eq!(parse(value.as_bytes(), NOW), wait(seconds), "{value:?}");
        }
        let invalid = [
            "wed, 21 oct 2015 07:28:00 gmt",
            "Thu, 15 jan 2026 12:02:00 GMT",
            "Thu, 15 Jan 2026 12:02:00 gmt",
            "Thu, 15 Jan 2026 12:02:00 UTC",
            "Thu, 15 Jan 2026 12:02:00 +0000",
            "Thu, 15 Jan 2026 12:02:00",
            "Thu, 15 Jan 2026 12:00:61 GMT",
            "Thu, 15 Jan 2026 24:00:00 GMT",
            "Thu, 15 Jan 2026 12:60:00 GMT",
            "Thu, 31 Feb 2026 12:00:00 GMT",
            "Thu, 29 Feb 2100 12:00:00 GMT",
            "Thu, 00 Jan 2026 12:00:00 GMT",
            "Thu, 5 Jan 2026 12:02:00 GMT",
            "Thu,  15 Jan 2026 12:02:00 GMT",
            "Thu, 15 Jan 26 12:02:00 GMT",
            "Thu, 15-Jan-26 12:02:00 GMT",
            "Thursday, 15-Jan-2026 12:02:00 GMT",
            "Thu Jan 5 12:02:00 2026",
            "Thu Jan 05 12:02:00 2026",
            "Xyz, 15 Jan 2026 12:02:00 GMT",
            "2026-01-15T12:02:00Z",
            "Thu, 15 Jan 2026 1:02:00 GMT",
            "Thu, 15 Jan 2026 12:02:00 GMT GMT",
        ];
        for value in invalid {
            assert_eq!(parse(value.as_bytes(), NOW), Advice::Invalid, "{value:?}");
        }
    }

    #[test]
    fn a_year_of_two_digits_lies_at_most_fifty_years_ahead() {
        let year_of = |value: &str| parse_date(value.as_bytes(), NOW).map(WallTime::year);
        assert_eq!(year_of("Sunday, 06-Nov-76 08:49:37 GMT"), Some(2076));
        assert_eq!(year_of("Sunday, 06-Nov-77 08:49:37 GMT"), Some(1977));
        assert_eq!(year_of("Sunday, 06-Nov-94 08:49:37 GMT"), Some(1994));
        // 2060: fifty years ahead goes over the century.
        let later = WallTime::from_unix_ms(2_840_140_800_000);
        let date = parse_date(b"Sunday, 06-Nov-05 08:49:37 GMT", later);
        assert_eq!(date.map(WallTime::year), Some(2105));
    }

    fn fields(all: &[(http::HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            let value = HeaderValue::from_str(value).expect("a value");
            headers.append(name, value);
        }
        headers
    }

    // rule: retry-after-lines-are-never-early
    #[test]
    fn of_two_lines_the_longest_valid_wait_counts() {
        let both = |one, other| {
            let headers = fields(&[(RETRY_AFTER, one), (RETRY_AFTER, other)]);
            read(&headers, NOW)
        };
        assert_eq!(both("5", "60"), wait(60));
        assert_eq!(both("60", "5"), wait(60));
        assert_eq!(both("soon", "5"), wait(5));
        assert_eq!(both("5", "-60"), wait(5));
        assert_eq!(both("soon", "-60"), Advice::Invalid);
        assert_eq!(read(&HeaderMap::new(), NOW), Advice::Absent);
    }

    // rule: retry-after-date-by-the-servers-clock
    #[test]
    fn a_date_is_measured_by_the_responses_own_date_where_that_is_plausible() {
        let at = "Thu, 15 Jan 2026 13:02:00 GMT";
        let with = |date: &str| read(&fields(&[(RETRY_AFTER, at), (DATE, date)]), NOW);
        // The server's clock is an hour ahead: it means two minutes.
        assert_eq!(with("Thu, 15 Jan 2026 13:00:00 GMT"), wait(120));
        // A date of last year is no clock.
        assert_eq!(with("Wed, 15 Jan 2025 13:00:00 GMT"), wait(3720));
        assert_eq!(with("now"), wait(3720));
        let aged = fields(&[
            (RETRY_AFTER, at),
            (DATE, "Thu, 15 Jan 2026 13:00:00 GMT"),
            (AGE, "3"),
        ]);
        assert_eq!(read(&aged, NOW), wait(3720));
    }
}
