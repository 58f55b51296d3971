//! What a caller prefers of an answer that is not there yet: to wait for it, or to be told where it
//! will be.
//!
//! Decides what of `Prefer` counts and, over the route's `in_flight`, what the duplicate of an
//! operation at work is given. Refuses to know who waits, and how. Rule: a preference is a wish, so
//! whatever cannot be read is passed by and never an error. Source: RFC 7240 (2 the syntax, 3
//! `Preference-Applied`, 4.1 `respond-async`, 4.3 `wait`); docs/keyed-requests.md, "Duplicates".

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::policy::InFlight;

/// The field in which callers say what they prefer.
pub const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The field in which an answer says which preferences it honoured.
pub const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// So many preferences of one request are read, and those behind them are not: callers know a
/// handful, and a request must not be able to ask for more work than its other fields do.
pub const PREFERENCES_MAX: usize = 64;

/// A number of seconds that stands for all longer ones (RFC 9110, 1.2.2: 2³¹).
const SECONDS_MAX: u64 = 1 << 31;

/// The preferences of one request that mean something here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// It waits so long for its answer, in whole seconds.
    pub wait: Option<Duration>,
    /// It would rather be given the address of its answer than wait for it; with `wait`, than wait
    /// any longer.
    pub respond_async: bool,
}

impl Preference {
    /// The preferences in `headers`, over all lines of the field. Of a preference that comes more
    /// than once the first one counts (RFC 7240, 2); one that is malformed is not there.
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::HeaderMap;
    /// use steadfast_core::prefer::Preference;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.append("prefer", "respond-async, wait=10; priority=low".parse().unwrap());
    /// headers.append("prefer", "wait=60".parse().unwrap());
    /// let preference = Preference::of(&headers);
    /// assert_eq!(preference.wait, Some(Duration::from_secs(10)));
    /// assert!(preference.respond_async);
    /// ```
    pub fn of(headers: &HeaderMap) -> Preference {
        let lines = headers.get_all(PREFER).iter();
        let all = lines.flat_map(|line| Elements(Some(line.as_bytes())));
        let mut found = Preference::default();
        let mut has_waited = false;
        for (name, value) in all.take(PREFERENCES_MAX).filter_map(preference) {
            if name.eq_ignore_ascii_case(b"wait") && !has_waited {
                has_waited = true;
                found.wait = seconds(&value);
            } else if name.eq_ignore_ascii_case(b"respond-async") && value.is_empty() {
                found.respond_async = true;
            }
        }
        found
    }

    /// What a duplicate of an operation at work is given, where the route says `in_flight` and lets
    /// nobody wait beyond `wait_limit`.
    ///
    /// | preferred | waits for | then |
    /// | --- | --- | --- |
    /// | nothing | `wait_limit` under `wait`, else not | 202 under `accept`, else 409 |
    /// | `wait=N` | the shorter of N seconds and `wait_limit` | 409 |
    /// | `respond-async` | not at all | 202 |
    /// | both | the shorter of N seconds and `wait_limit` | 202 |
    pub fn at_work(self, in_flight: InFlight, wait_limit: Duration) -> Meeting {
        let asked = self.wait.map(|wait| wait.min(wait_limit));
        let (wait, then) = match (asked, self.respond_async, in_flight) {
            (Some(wait), true, _) => (wait, Then::Accepted),
            (Some(wait), false, _) => (wait, Then::InProgress),
            (None, true, _) | (None, false, InFlight::Accept) => (Duration::ZERO, Then::Accepted),
            (None, false, InFlight::Conflict) => (Duration::ZERO, Then::InProgress),
            (None, false, InFlight::Wait) => (wait_limit, Then::InProgress),
        };
        Meeting {
            wait,
            then,
            asked,
            respond_async: self.respond_async,
        }
    }
}

/// How a duplicate meets an operation at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// So long it waits, within its own deadline.
    pub wait: Duration,
    /// What it is given when the wait is over and there is no answer.
    pub then: Then,
    asked: Option<Duration>,
    respond_async: bool,
}

/// What a duplicate is given that waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// 409 `in-progress`.
    InProgress,
    /// 202 with the status address.
    Accepted,
}

impl Meeting {
    /// The value of `Preference-Applied` on the answer of a duplicate that met it so; `None` where
    /// no preference made a difference. `accepted` says that the answer is the 202. `wait` names
    /// the seconds that it was bounded by, which may be fewer than its caller asked for.
    pub fn applied(&self, accepted: bool) -> Option<HeaderValue> {
        let wait = self.asked.map(|wait| format!("wait={}", wait.as_secs()));
        let respond_async = (accepted && self.respond_async).then(|| "respond-async".to_owned());
        let all: Vec<String> = respond_async.into_iter().chain(wait).collect();
        // Digits and letters only.
        let value = HeaderValue::try_from(all.join(", ")).ok();
        value.filter(|value| !value.is_empty())
    }
}

/// The elements of one line of the field: what stands between commas outside of quotes.
struct Elements<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let (mut quoted, mut escaped) = (false, false);
        for (at, byte) in rest.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b',' if !quoted => {
                    self.0 = Some(&rest[at + 1..]);
                    return Some(&rest[..at]);
                }
                _ => {}
            }
        }
        self.0 = None;
        Some(rest)
    }
}

/// Name and value of one preference; `None` where it is malformed. An absent value and an empty one
/// are the same (RFC 7240, 2). Its parameters must be sound and mean nothing here.
fn preference(element: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    let mut reader = Reader(element);
    reader.white();
    let found = reader.pair()?;
    reader.white();
    while reader.takes(b';') {
        reader.white();
        if !reader.0.is_empty() && reader.0[0] != b';' {
            reader.pair()?;
            reader.white();
        }
    }
    reader.0.is_empty().then_some(found)
}

/// Whole seconds; all digits, and at least one.
fn seconds(value: &[u8]) -> Option<Duration> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let more = |sum: u64, digit: &u8| (sum * 10 + u64::from(digit - b'0')).min(SECONDS_MAX);
    Some(Duration::from_secs(value.iter().fold(0, more)))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn white(&mut self) {
        let more = |byte: &u8| !matches!(byte, b' ' | b'\t');
        let ends = self.0.iter().position(more).unwrap_or(self.0.len());
        self.0 = &self.0[ends..];
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.0.first() == Some(&byte);
        if is_next {
            self.0 = &self.0[1..];
        }
        is_next
    }

    /// `token [ BWS "=" BWS word ]`.
    fn pair(&mut self) -> Option<(&'a [u8], Vec<u8>)> {
        let name = self.token()?;
        self.white();
        if !self.takes(b'=') {
            return Some((name, Vec::new()));
        }
        self.white();
        match self.0.first() {
            Some(b'"') => Some((name, self.quoted()?)),
            // Nothing behind the sign is an empty value.
            None | Some(b';') => Some((name, Vec::new())),
            Some(_) => Some((name, self.token()?.to_vec())),
        }
    }

    fn token(&mut self) -> Option<&'a [u8]> {
        let is_token =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let ends = self.0.iter().position(|byte| !is_token(byte));
        let (token, rest) = self.0.split_at(ends.unwrap_or(self.0.len()));
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }

    fn quoted(&mut self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let mut bytes = self.0.iter().enumerate().skip(1);
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.0 = &self.0[at + 1..];
                    return Some(text);
                }
                b'\\' => text.push(*bytes.next()?.1),
                _ => text.push(*byte),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds of `wait`, and `respond-async`.
    type Found = (Option<u64>, bool);

    fn of(lines: &[&str]) -> Found {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(PREFER, line.parse().unwrap());
        }
        let found = Preference::of(&headers);
        (found.wait.map(|wait| wait.as_secs()), found.respond_async)
    }

    // rule: preferences-are-read-by-their-grammar
    #[test]
    fn preferences_are_read_by_their_grammar_and_the_rest_is_passed_by() {
        let table: [(&[&str], Found); 29] = [
            (&[], (None, false)),
            (&["wait=5"], (Some(5), false)),
            (&["WAIT = \"5\""], (Some(5), false)),
            (&["wait=\"\\5\""], (Some(5), false)),
            (&["wait=0"], (Some(0), false)),
            (&["Respond-Async"], (None, true)),
            (&["respond-async=", "respond-async=\"\""], (None, true)),
            (&["respond-async=yes"], (None, false)),
            (&["respond-async, wait=10"], (Some(10), true)),
            (&["wait=10", "respond-async"], (Some(10), true)),
            (&["wait=1, wait=2", "wait=3"], (Some(1), false)),
            // The first one counts, also where its value does not.
            (&["wait=soon, wait=2"], (None, false)),
            (&["wait, wait=2"], (None, false)),
            (&["wait=-1"], (None, false)),
            (&["wait=1.5"], (None, false)),
            (&["wait=+1"], (None, false)),
            (&["wait=99999999999999999999999"], (Some(1 << 31), false)),
            (
                &["return=minimal, handling=lenient, wait=7"],
                (Some(7), false),
            ),
            (
                &["wait=7; a; b=1; c=\"x,y;z\" ;; , respond-async"],
                (Some(7), true),
            ),
            (&[", ,wait=7,,"], (Some(7), false)),
            // What is malformed is not there, and hides nothing but itself.
            (&["wait=7 8, respond-async"], (None, true)),
            (&["wait=@, wait=7"], (Some(7), false)),
            (&["=7, wait=7"], (Some(7), false)),
            (&["wait=7; =1, wait=8"], (Some(8), false)),
            (&["x=\"a, wait=7\", wait=8"], (Some(8), false)),
            (&["x=\"a\\\", wait=7\", wait=8"], (Some(8), false)),
            (&["x=\"open, wait=7", "wait=8"], (Some(8), false)),
            (&["wait=\"7"], (None, false)),
            (&["await=7, wait_=7, respond-async-x"], (None, false)),
        ];
        for (lines, expected) in table {
            assert_eq!(of(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn of_too_many_preferences_the_first_are_read() {
        let many = |before: usize| format!("{}wait=7", "a,".repeat(before));
        assert_eq!(of(&[&many(PREFERENCES_MAX - 1)]), (Some(7), false));
        assert_eq!(of(&[&many(PREFERENCES_MAX)]), (None, false));
    }

    // rule: the-caller-s-preference-goes-before-in-flight
    #[test]
    fn a_caller_s_preference_goes_before_the_route_s_and_within_its_limit() {
        use InFlight::{Accept, Conflict, Wait};
        let limit = Duration::from_secs(10);
        let met = |wait: Option<u64>, respond_async, in_flight| {
            let preference = Preference {
                wait: wait.map(Duration::from_secs),
                respond_async,
            };
            let met = preference.at_work(in_flight, limit);
            let applied = [false, true].map(|accepted| {
                let value = met.applied(accepted);
                value.map_or(String::new(), |value| value.to_str().unwrap().to_owned())
            });
            (met.wait.as_secs(), met.then, applied)
        };
        let said = |conflict: &str, accepted: &str| [conflict.to_owned(), accepted.to_owned()];
        assert_eq!(met(None, false, Wait), (10, Then::InProgress, said("", "")));
        assert_eq!(
            met(None, false, Conflict),
            (0, Then::InProgress, said("", ""))
        );
        assert_eq!(met(None, false, Accept), (0, Then::Accepted, said("", "")));
        for route in [Wait, Conflict, Accept] {
            let wait = said("wait=3", "wait=3");
            assert_eq!(met(Some(3), false, route), (3, Then::InProgress, wait));
            let cut = said("wait=10", "wait=10");
            assert_eq!(met(Some(60), false, route), (10, Then::InProgress, cut));
            let at_once = said("", "respond-async");
            assert_eq!(met(None, true, route), (0, Then::Accepted, at_once));
            let both = said("wait=3", "respond-async, wait=3");
            assert_eq!(met(Some(3), true, route), (3, Then::Accepted, both));
        }
    }
}
