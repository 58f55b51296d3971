//! One time budget for everything an operation does: attempts, waits and hops.
//!
//! Decides what of a budget one attempt gets, whether it may start at all, and how the remainder is
//! read from and written to a header. Refuses to read a clock. Requirements T2 and T4.

use std::time::Duration;

use crate::time::MonoTime;

/// The field in which a remaining deadline travels, in whole milliseconds.
pub const REQUEST_TIMEOUT_MS: &str = "request-timeout-ms";
/// Envoy's field of the same meaning, in whole milliseconds.
pub const ENVOY_EXPECTED_MS: &str = "x-envoy-expected-rq-timeout-ms";
/// gRPC's field: up to eight digits and a unit.
pub const GRPC_TIMEOUT: &str = "grpc-timeout";

/// An instant by which an operation must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    ends: MonoTime,
}

impl Deadline {
    /// The deadline `length` after `now`.
    pub fn after(now: MonoTime, length: Duration) -> Deadline {
        Deadline {
            ends: now.plus(length),
        }
    }

    /// What remains at `now`; zero once it has passed.
    pub fn remaining(self, now: MonoTime) -> Duration {
        self.ends.since(now)
    }

    /// Nothing remains at `now`.
    pub fn is_spent(self, now: MonoTime) -> bool {
        self.remaining(now).is_zero()
    }

    /// The instant itself.
    pub fn ends(self) -> MonoTime {
        self.ends
    }

    /// The earlier of the two.
    pub fn earlier(self, other: Deadline) -> Deadline {
        Deadline {
            ends: std::cmp::min(self.ends, other.ends),
        }
    }
}

/// The share of one attempt: the smaller of its own limit and what remains; `None` where the
/// attempt could not be useful, so it is not started (T2).
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::deadline::attempt_share;
/// let ms = Duration::from_millis;
/// // 900 ms in all, 500 ms an attempt, 100 ms between: (1, 500 of 900), (2, 300 of 300), no third.
/// assert_eq!(attempt_share(ms(900), ms(500), ms(0)), Some(ms(500)));
/// assert_eq!(attempt_share(ms(300), ms(500), ms(0)), Some(ms(300)));
/// assert_eq!(attempt_share(ms(0), ms(500), ms(0)), None);
/// ```
pub fn attempt_share(
    remaining: Duration,
    limit: Duration,
    min_attempt: Duration,
) -> Option<Duration> {
    let share = remaining.min(limit);
    (!share.is_zero() && share >= min_attempt).then_some(share)
}

/// What is told to the next hop: what remains, less a safety margin for the way there (T4). Whole
/// milliseconds, rounded down; `None` when nothing would be left.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::deadline::travels;
/// let ms = Duration::from_millis;
/// // 1200 ms for two calls in a row; the first took 850 ms.
/// assert_eq!(travels(ms(1200 - 850), ms(0)), Some(350));
/// assert_eq!(travels(ms(5), ms(5)), None);
/// ```
pub fn travels(remaining: Duration, margin: Duration) -> Option<u64> {
    let left = remaining.checked_sub(margin)?.as_millis();
    u64::try_from(left).ok().filter(|ms| *ms > 0)
}

/// What a caller's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// So much remains. Zero means: refuse before any work.
    Remaining(Duration),
    /// Not the field's syntax: ignored, and counted.
    Malformed,
}

/// Reads whole milliseconds, as in `Request-Timeout-Ms`: ASCII digits only. A value beyond
/// `u64` is longer than any ceiling, so it reads as the longest one.
pub fn read_ms(value: &[u8]) -> Told {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Told::Malformed;
    }
    let ms = std::str::from_utf8(value)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(u64::MAX);
    Told::Remaining(Duration::from_millis(ms))
}

/// Reads `grpc-timeout`: one to eight digits and one of `H M S m u n` (gRPC over HTTP/2,
/// "Requests").
pub fn read_grpc(value: &[u8]) -> Told {
    let Some((unit, digits)) = value.split_last() else {
        return Told::Malformed;
    };
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return Told::Malformed;
    }
    let amount = digits
        .iter()
        .fold(0u64, |n, d| n * 10 + u64::from(d - b'0'));
    Told::Remaining(match unit {
        b'H' => Duration::from_secs(amount * 3600),
        b'M' => Duration::from_secs(amount * 60),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return Told::Malformed,
    })
}

/// Writes `grpc-timeout` for `ms` milliseconds within its eight digits: milliseconds, or the
/// largest whole number of seconds not above them.
pub fn write_grpc(ms: u64) -> String {
    if ms <= 99_999_999 {
        format!("{ms}m")
    } else {
        format!("{}S", (ms / 1000).min(99_999_999))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_outside_their_syntax_are_malformed() {
        for bad in ["", " 5", "5 ", "+5", "-1", "1.5", "5ms", "٣", "0x10"] {
            assert_eq!(read_ms(bad.as_bytes()), Told::Malformed, "{bad:?}");
        }
        for bad in ["", "5", "S", "123456789S", "1.5S", "-1S", "5s", "5 S"] {
            assert_eq!(read_grpc(bad.as_bytes()), Told::Malformed, "{bad:?}");
        }
    }

    #[test]
    fn header_values_are_read_in_their_unit() {
        assert_eq!(read_ms(b"0"), Told::Remaining(Duration::ZERO));
        assert_eq!(
            read_ms(b"1500"),
            Told::Remaining(Duration::from_millis(1500))
        );
        let long = read_ms(b"99999999999999999999999");
        assert_eq!(long, Told::Remaining(Duration::from_millis(u64::MAX)));
        assert_eq!(read_grpc(b"2S"), Told::Remaining(Duration::from_secs(2)));
        assert_eq!(
            read_grpc(b"99999999H"),
            Told::Remaining(Duration::from_secs(99_999_999 * 3600))
        );
        assert_eq!(
            read_grpc(b"250m"),
            Told::Remaining(Duration::from_millis(250))
        );
    }

    #[test]
    fn a_grpc_timeout_never_grows_when_written() {
        for ms in [1, 99_999_999, 100_000_000, 100_000_999, u64::MAX] {
            let Told::Remaining(read) = read_grpc(write_grpc(ms).as_bytes()) else {
                panic!("{ms}")
            };
            assert!(read <= Duration::from_millis(ms));
        }
    }
}
