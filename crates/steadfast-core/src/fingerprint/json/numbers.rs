//! JSON numbers (RFC 8259, section 6): decides which decimal value a literal spells, by its digits
//! alone.

use super::Reader;

/// Most significant digits of an exponent: what an `i64` holds with room for the digits of the
/// number.
const MAX_EXPONENT_DIGITS: usize = 17;

impl Reader<'_> {
    /// The digits at hand, maybe none.
    fn digits(&mut self) -> &[u8] {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Reads a number.
    pub(super) fn number(&mut self) -> Option<()> {
        let negative = self.take(b'-');
        let start = self.at;
        let whole = self.digits().len();
        if whole == 0 || (whole > 1 && self.text[start] == b'0') {
            return None;
        }
        let point = self.at;
        let mut fraction = 0;
        if self.take(b'.') {
            fraction = self.digits().len();
            if fraction == 0 {
                return None;
            }
        }
        // Computed only after the form is checked: a zero may have any exponent.
        let exponent = match self.peek() {
            Some(b'e' | b'E') => self.exponent()?,
            _ => Some(0),
        };
        let whole = &self.text[start..point];
        let fraction = if fraction == 0 {
            &[]
        } else {
            &self.text[point + 1..=point + fraction]
        };
        put_number(&mut self.out, negative, whole, fraction, exponent)
    }

    /// Outer `None`: malformed. Inner: too large to compute with.
    fn exponent(&mut self) -> Option<Option<i64>> {
        self.at += 1;
        let negative = matches!(self.peek(), Some(b'-'));
        if matches!(self.peek(), Some(b'+' | b'-')) {
            self.at += 1;
        }
        let digits = self.digits();
        if digits.is_empty() {
            return None;
        }
        let digits = without_leading_zeros(digits);
        if digits.len() > MAX_EXPONENT_DIGITS {
            return Some(None);
        }
        let size = digits
            .iter()
            .fold(0, |size, digit| size * 10 + i64::from(digit - b'0'));
        Some(Some(if negative { -size } else { size }))
    }
}

/// Writes `whole.fraction × 10^exponent`, zeros at either end taken off.
fn put_number(
    out: &mut Vec<u8>,
    negative: bool,
    whole: &[u8],
    fraction: &[u8],
    exponent: Option<i64>,
) -> Option<()> {
    let fraction = without_trailing_zeros(fraction);
    let whole = without_leading_zeros(whole);
    // The power of ten of the last digit that is left, before the exponent.
    let (all, end) = (whole.len(), fraction.len());
    let whole = if end == 0 {
        without_trailing_zeros(whole)
    } else {
        whole
    };
    let last = i64::try_from(all - whole.len()).ok()? - i64::try_from(end).ok()?;
    let fraction = if whole.is_empty() {
        without_leading_zeros(fraction)
    } else {
        fraction
    };
    if whole.is_empty() && fraction.is_empty() {
        out.push(b'0');
        return Some(());
    }
    // 17 digits and the length of a body: far from the ends of an i64.
    let power = exponent? + last;
    out.push(if negative { b'-' } else { b'+' });
    out.extend_from_slice(whole);
    out.extend_from_slice(fraction);
    if power == 0 {
        out.push(b';');
    } else {
        out.push(b'e');
        out.extend_from_slice(&power.to_be_bytes());
    }
    Some(())
}

fn without_leading_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    &digits[zeros..]
}

fn without_trailing_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits
        .iter()
        .rev()
        .take_while(|&&digit| digit == b'0')
        .count();
    &digits[..digits.len() - zeros]
}
