//! JSON strings (RFC 8259, section 7): decides which text a literal spells.

use super::Reader;

/// Ends a string in the encoding: UTF-8 never holds it.
const STRING_END: u8 = 0xff;

impl Reader<'_> {
    /// Reads a string, from its opening quote on.
    pub(super) fn string(&mut self) -> Option<()> {
        self.at += 1;
        self.out.push(b's');
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|&b| !PLAIN[usize::from(b)])?;
            self.out.extend_from_slice(&rest[..plain]);
            self.at += plain + 1;
            match rest[plain] {
                b'"' => {
                    self.out.push(STRING_END);
                    return Some(());
                }
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        let simple = match self.next()? {
            plain @ (b'"' | b'\\' | b'/') => plain,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let scalar = self.scalar()?;
                self.out
                    .extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes());
                return Some(());
            }
            _ => return None,
        };
        self.out.push(simple);
        Some(())
    }

    /// The character of `\uXXXX`, or of a pair of them.
    fn scalar(&mut self) -> Option<char> {
        let unit = self.unit()?;
        if !(0xd800..0xdc00).contains(&unit) {
            // None for a second half that comes first.
            return char::from_u32(unit);
        }
        if !(self.take(b'\\') && self.take(b'u')) {
            return None;
        }
        let second = self.unit()?;
        if !(0xdc00..0xe000).contains(&second) {
            return None;
        }
        char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00))
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, &digit| {
            Some(unit << 4 | char::from(digit).to_digit(16)?)
        })
    }
}

/// What a string may hold as it is (RFC 8259, section 7); UTF-8 was checked before.
const PLAIN: [bool; 256] = {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = false;
        byte += 1;
    }
    table[b'"' as usize] = false;
    table[b'\\' as usize] = false;
    table
};
