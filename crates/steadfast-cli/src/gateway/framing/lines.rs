//! Where a section of header lines ends, and that its lines are lines.
//!
//! Decides only on bytes: every line ends with CRLF, nothing but a tab is a control byte, the
//! section ends with an empty line within a bound. A recipient may accept LF alone (RFC 9112
//! section 2.2); two recipients that differ in that is how requests are smuggled, so none does.

use super::Violation;

/// How far a section was looked at, so that no byte is looked at twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    seen: usize,
}

impl Lines {
    /// The length of the section at the front of `held`, once it is whole: at least one line and
    /// the empty line after it. `None`: more bytes are needed. `held` begins with the same bytes
    /// at every call until one returns `Some`.
    ///
    /// `most` is the section's bound in bytes, `too_long` what is said beyond it.
    pub(super) fn end(
        &mut self,
        held: &[u8],
        most: usize,
        too_long: Violation,
    ) -> Result<Option<usize>, Violation> {
        let bounded = &held[..held.len().min(most)];
        let mut before = self.seen.checked_sub(1).map_or(b' ', |index| held[index]);
        for (at, byte) in bounded.iter().copied().enumerate().skip(self.seen) {
            match (before, byte) {
                (b'\r', b'\n') => {}
                (b'\r', _) => return Err(Violation::BareCr),
                (_, b'\n') => return Err(Violation::BareLf),
                (_, b'\r' | b'\t') => {}
                (_, byte) if byte.is_ascii_control() => return Err(Violation::ControlByte),
                _ => {}
            }
            if byte == b'\n' && held[..=at].ends_with(b"\r\n\r\n") {
                self.seen = 0;
                return Ok(Some(at + 1));
            }
            before = byte;
        }
        self.seen = self.seen.max(bounded.len());
        if held.len() > bounded.len() {
            return Err(too_long);
        }
        Ok(None)
    }

    /// Whether a byte of the section was seen.
    pub(super) fn begun(&self) -> bool {
        self.seen > 0
    }
}

/// The lines of a whole section, without their ends and without the empty one.
pub(super) fn of(section: &[u8]) -> impl Iterator<Item = &[u8]> {
    section
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .take_while(|line| !line.is_empty())
}

/// A line that continues the one before it (obs-fold), or pretends to.
pub(super) fn folds(line: &[u8]) -> bool {
    line.first()
        .is_some_and(|byte| matches!(byte, b' ' | b'\t'))
}
