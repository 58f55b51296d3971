//! What travels with a request from hop to hop: the remaining deadline and the number of attempts.
//!
//! Reads it where a request comes in ([`Carried`]) and writes it where one goes out, for every
//! attempt anew, so that a repeat never tells the time of the first one (requirements T4, R8).

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use steadfast_core::deadline::{
    Deadline, ENVOY_EXPECTED_MS, GRPC_TIMEOUT, REQUEST_TIMEOUT_MS, Told, read_grpc, read_ms,
    travels, write_grpc,
};

use crate::clock;

/// The attempt's number, to the service.
const ATTEMPT: HeaderName = HeaderName::from_static("steadfast-attempt");

/// What an incoming request hands on to the requests that its work makes. Put into an outgoing
/// request's extensions, it bounds that operation.
///
/// ```
/// use http::{HeaderMap, Request};
/// use steadfast::client::{Carried, RequestBody};
///
/// # let incoming = HeaderMap::new();
/// let carried = Carried::of(&incoming);
/// let mut next = Request::get("http://127.0.0.1:9000/rates").body(RequestBody::empty())?;
/// next.extensions_mut().insert(carried);
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    deadline: Option<Deadline>,
    attempt: u32,
}

impl Default for Carried {
    fn default() -> Carried {
        Carried {
            deadline: None,
            attempt: 1,
        }
    }
}

impl Carried {
    /// Reads the fields of a request that came in now: `Request-Timeout-Ms`, `grpc-timeout` and
    /// `X-Envoy-Expected-Rq-Timeout-Ms`, of which the smallest wins. What is no such value is
    /// ignored. A value of zero is a deadline that has passed: nothing is sent under it.
    pub fn of(headers: &HeaderMap) -> Carried {
        let told = [
            (REQUEST_TIMEOUT_MS, read_ms as fn(&[u8]) -> Told),
            (ENVOY_EXPECTED_MS, read_ms),
            (GRPC_TIMEOUT, read_grpc),
        ];
        let all = told.into_iter().flat_map(|(name, read)| {
            let lines = headers.get_all(name).iter();
            lines.map(move |line| read(line.as_bytes().trim_ascii()))
        });
        let least = all.filter_map(|told| match told {
            Told::Remaining(left) => Some(left),
            Told::Malformed => None,
        });
        let deadline = least
            .min()
            .map(|left| Deadline::after(clock::mono_now(), left));
        Carried {
            deadline,
            ..Carried::default()
        }
    }

    /// A deadline that is known otherwise, such as a keyed operation's.
    pub fn until(deadline: Deadline) -> Carried {
        Carried {
            deadline: Some(deadline),
            ..Carried::default()
        }
    }

    /// The earlier of both deadlines.
    #[must_use]
    pub fn and_until(self, other: Deadline) -> Carried {
        let deadline = self.deadline.map_or(other, |own| own.earlier(other));
        Carried {
            deadline: Some(deadline),
            ..self
        }
    }

    /// Takes the attempt's number from `headers` as well. For requests of peers that are trusted:
    /// anybody else could keep us from repeating by it.
    #[must_use]
    pub fn with_trusted_attempt(self, headers: &HeaderMap) -> Carried {
        let number = headers.get(ATTEMPT).and_then(|value| {
            let digits = value.as_bytes().trim_ascii();
            let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(digits).ok().filter(|_| plain)?;
            number.parse().ok()
        });
        Carried {
            attempt: number.unwrap_or(1).max(1),
            ..self
        }
    }

    /// By when the work of the incoming request has to end, where it said so.
    pub fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// The number of the attempt by which the request came in: from 1 on.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

/// Writes what one attempt tells the next hop: `min(limit, remaining − margin)`, in
/// `Request-Timeout-Ms` and in whichever of the other two fields the request has, and the attempt's
/// number.
pub(super) fn write(
    headers: &mut HeaderMap,
    (limit, remaining, margin): (Duration, Duration, Duration),
    number: u32,
) {
    let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    // An attempt that may begin has something left; zero would be refused there before any work.
    let ms = travels(remaining, margin).unwrap_or(1).min(limit).max(1);
    headers.insert(REQUEST_TIMEOUT_MS, HeaderValue::from(ms));
    if headers.contains_key(ENVOY_EXPECTED_MS) {
        headers.insert(ENVOY_EXPECTED_MS, HeaderValue::from(ms));
    }
    if headers.contains_key(GRPC_TIMEOUT)
        && let Ok(value) = HeaderValue::from_str(&write_grpc(ms))
    {
        headers.insert(GRPC_TIMEOUT, value);
    }
    headers.insert(ATTEMPT, HeaderValue::from(number));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        lines.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_smallest_deadline_that_came_in_is_carried_and_malformed_ones_are_ignored() {
        let ms = Duration::from_millis;
        for (lines, left) in [
            (&[][..], None),
            (&[("request-timeout-ms", "1200")][..], Some(ms(1200))),
            (
                &[
                    ("request-timeout-ms", "1200"),
                    ("grpc-timeout", "1S"),
                    ("x-envoy-expected-rq-timeout-ms", "900"),
                ],
                Some(ms(900)),
            ),
            (&[("request-timeout-ms", "+5")], None),
            (&[("request-timeout-ms", "0")], Some(ms(0))),
        ] {
            let carried = Carried::of(&headers(lines));
            let got = carried.deadline().map(|d| d.remaining(clock::mono_now()));
            assert_eq!(got, left, "{lines:?}");
        }
    }

    #[test]
    fn an_attempt_s_number_is_taken_only_where_it_is_said_to_be_trusted() {
        let came = headers(&[("steadfast-attempt", "3")]);
        assert_eq!(Carried::of(&came).attempt(), 1);
        assert_eq!(Carried::of(&came).with_trusted_attempt(&came).attempt(), 3);
        for odd in ["", "0", "-1", "x", "99999999999"] {
            let came = headers(&[("steadfast-attempt", odd)]);
            let carried = Carried::default().with_trusted_attempt(&came);
            assert_eq!(carried.attempt(), 1, "{odd:?}");
        }
    }

    #[test]
    fn the_next_hop_is_told_what_remains_less_the_margin_within_the_attempt_s_limit() {
        let ms = Duration::from_millis;
        for (limit, remaining, told) in [(500, 350, 345), (100, 350, 100), (500, 3, 1)] {
            let mut out = headers(&[("request-timeout-ms", "99999"), ("grpc-timeout", "99999m")]);
            write(&mut out, (ms(limit), ms(remaining), ms(5)), 2);
            assert_eq!(out["request-timeout-ms"], told.to_string().as_str());
            assert_eq!(out["grpc-timeout"], format!("{told}m").as_str());
            assert_eq!(out["steadfast-attempt"], "2");
            assert!(!out.contains_key("x-envoy-expected-rq-timeout-ms"));
        }
    }
}
