//! The trace that a request belongs to, as its caller says (W3C Trace Context, 3.2).
//!
//! Decides whether a `traceparent` is one. It is never written: the field passes as it came, and
//! its id only names the trace in what is said of an attempt.

use std::fmt;

use http::{HeaderMap, HeaderName};

/// The field.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The id of a trace: 32 lower-case hexadecimal digits, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 32]);

impl TraceId {
    /// The trace of a request; `None` where its `traceparent` is absent, repeated or malformed.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use steadfast_core::trace_context::TraceId;
    ///
    /// let mut headers = HeaderMap::new();
    /// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// headers.insert("traceparent", parent.parse().unwrap());
    /// let trace = TraceId::of(&headers).unwrap();
    /// assert_eq!(trace.as_str(), "0af7651916cd43dd8448eb211c80319c");
    /// ```
    pub fn of(headers: &HeaderMap) -> Option<TraceId> {
        let mut lines = headers.get_all(TRACEPARENT).iter();
        let line = lines.next().filter(|_| lines.next().is_none())?;
        TraceId::parse(line.as_bytes())
    }

    fn parse(line: &[u8]) -> Option<TraceId> {
        // version "-" trace-id "-" parent-id "-" flags; a later version may go on behind a dash.
        let (known, rest) = line.split_at_checked(55)?;
        let dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        let (version, trace) = (&known[..2], &known[3..35]);
        let (parent, flags) = (&known[36..52], &known[53..]);
        let hex = |part: &[u8]| {
            let digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            part.iter().all(digit)
        };
        let said = |part: &[u8]| hex(part) && part.iter().any(|byte| *byte != b'0');
        let ends = rest.is_empty() || (version != b"00" && rest[0] == b'-');
        let sound = dashes && hex(version) && version != b"ff" && hex(flags) && ends;
        if !sound || !said(trace) || !said(parent) {
            return None;
        }
        trace.try_into().ok().map(TraceId)
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_is_taken_only_from_a_sound_traceparent() {
        let future = SOUND.replacen("00", "cc", 1);
        let table = [
            (SOUND.to_owned(), true),
            (future.clone(), true),
            (format!("{future}-more"), true),
            (format!("{future}more"), false),
            (format!("{SOUND}-more"), false),
            (SOUND.replacen("00", "ff", 1), false),
            (SOUND.to_ascii_uppercase(), false),
            (
                SOUND.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
                false,
            ),
            (SOUND.replace("b7ad6b7169203331", &"0".repeat(16)), false),
            (SOUND.replace("-01", "_01"), false),
            (SOUND[..54].to_owned(), false),
            (SOUND.replace("0af7", "\"\u{1b}[m"), false),
            (String::new(), false),
        ];
        for (line, is_sound) in table {
            assert_eq!(
                TraceId::parse(line.as_bytes()).is_some(),
                is_sound,
                "{line}"
            );
        }
    }

    #[test]
    fn two_fields_name_no_trace() {
        let mut headers = HeaderMap::new();
        for _ in 0..2 {
            headers.append(TRACEPARENT, SOUND.parse().unwrap());
        }
        assert_eq!(TraceId::of(&headers), None);
    }
}
