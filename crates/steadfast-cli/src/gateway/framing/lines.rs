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
        while self.seen < held.len() {
            let at = self.seen;
            if at >= most {
                return Err(too_long);
            }
            let before = at.checked_sub(1).map(|index| held[index]);
            match (before, held[at]) {
                (Some(b'\r'), b'\n') => {}
                (Some(b'\r'), _) => return Err(Violation::BareCr),
                (_, b'\n') => return Err(Violation::BareLf),
                (_, b'\r' | b'\t') => {}
                (_, byte) if byte.is_ascii_control() => return Err(Violation::ControlByte),
                _ => {}
            }
            self.seen = at + 1;
            if held[..self.seen].ends_with(b"\r\n\r\n") {
                let whole = self.seen;
                self.seen = 0;
                return Ok(Some(whole));
            }
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
