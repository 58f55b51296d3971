//! From the raw value of the key header to the key's text.
//!
//! Decides the syntax only: a structured-field Item whose value is a String (RFC 9651, 3.3.3), or
//! the bare token that most callers send. Parameters must be well formed (RFC 9651, 3.1.2) and are
//! then ignored. It refuses to know lengths and strength.
//!
//! In a bare value the first `;` begins parameters, as it would after a string: what follows it
//! must be well-formed parameters, else the value is refused. So no bare value is read in two
//! ways, and a key that holds a semicolon is written in quotes.

use super::KeyError;

/// The text of the key in one field value, without quotes, escapes and parameters.
pub(super) fn unquote(value: &[u8]) -> Result<String, KeyError> {
    let value = value.trim_ascii();
    let mut reader = Reader { rest: value };
    let text = match value.first() {
        None => return Err(KeyError::Empty),
        Some(b'"') => reader.string()?,
        Some(_) => reader.bare()?,
    };
    reader.parameters()?;
    match reader.rest.trim_ascii_start().first() {
        Some(b',') => Err(KeyError::Listed),
        Some(_) => Err(malformed(
            "something follows the key that is not a parameter",
        )),
        None if text.is_empty() => Err(KeyError::Empty),
        None => Ok(text),
    }
}

/// May stand in a key that is written without quotes.
pub(super) fn is_bare(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';')
}

fn malformed(why: &'static str) -> KeyError {
    KeyError::Malformed { why }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    /// Takes the bytes that satisfy `rule`; how many.
    fn take_while(&mut self, rule: impl Fn(u8) -> bool) -> usize {
        let length = self
            .rest
            .iter()
            .position(|&b| !rule(b))
            .unwrap_or(self.rest.len());
        self.rest = &self.rest[length..];
        length
    }

    fn bare(&mut self) -> Result<String, KeyError> {
        let value = self.rest;
        let length = self.take_while(is_bare);
        match self.rest.first() {
            Some(b'"') => return Err(malformed("a quote stands inside an unquoted key")),
            Some(b) if !matches!(b, b' ' | b'\t' | b',' | b';') => {
                return Err(malformed("it has characters outside visible ASCII"));
            }
            _ => {}
        }
        Ok(String::from_utf8_lossy(&value[..length]).into_owned())
    }

    /// RFC 9651, 4.2.5.
    fn string(&mut self) -> Result<String, KeyError> {
        self.take(b'"');
        let mut text = String::with_capacity(self.rest.len());
        loop {
            match self.next() {
                Some(b'"') => return Ok(text),
                Some(b'\\') => match self.next() {
                    Some(escaped @ (b'"' | b'\\')) => text.push(char::from(escaped)),
                    _ => return Err(malformed("only \\\" and \\\\ are escapes inside quotes")),
                },
                Some(plain @ b' '..=b'~') => text.push(char::from(plain)),
                Some(_) => return Err(malformed("it has characters outside printable ASCII")),
                None => return Err(malformed("the closing quote is missing")),
            }
        }
    }

    /// RFC 9651, 4.2.3.2: `*( ";" *SP key [ "=" bare-item ] )`. Read for their form alone.
    fn parameters(&mut self) -> Result<(), KeyError> {
        while self.take(b';') {
            self.take_while(|b| b == b' ');
            let named = self
                .rest
                .first()
                .is_some_and(|&b| b.is_ascii_lowercase() || b == b'*');
            if !named {
                return Err(malformed("what follows the semicolon is not a parameter"));
            }
            self.take_while(|b| {
                b.is_ascii_lowercase()
                    || b.is_ascii_digit()
                    || matches!(b, b'_' | b'-' | b'.' | b'*')
            });
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Ok(())
    }

    /// RFC 9651, 4.2.3.1.
    fn bare_item(&mut self) -> Result<(), KeyError> {
        let well_formed = match self.rest.first() {
            Some(b'"') => self.string().is_ok(),
            Some(b'-' | b'0'..=b'9') => self.number(true),
            Some(b'@') => self.take(b'@') && self.number(false),
            Some(b'?') => self.take(b'?') && (self.take(b'0') || self.take(b'1')),
            Some(b':') => {
                self.take(b':');
                self.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
                self.take(b':')
            }
            Some(b'%') => self.take(b'%') && self.display_string(),
            Some(b) if b.is_ascii_alphabetic() || *b == b'*' => {
                self.take_while(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b))
                    > 0
            }
            _ => false,
        };
        well_formed
            .then_some(())
            .ok_or(malformed("the value of a parameter is not well formed"))
    }

    /// RFC 9651, 4.2.4: up to 15 digits, or up to 12 with 1 to 3 after a point.
    fn number(&mut self, decimal: bool) -> bool {
        self.take(b'-');
        let whole = self.take_while(|b| b.is_ascii_digit());
        if decimal && self.take(b'.') {
            let fraction = self.take_while(|b| b.is_ascii_digit());
            return (1..=12).contains(&whole) && (1..=3).contains(&fraction);
        }
        (1..=15).contains(&whole)
    }

    /// RFC 9651, 4.2.10, without the check that the escapes spell UTF-8: the value is not used.
    fn display_string(&mut self) -> bool {
        if !self.take(b'"') {
            return false;
        }
        loop {
            match self.next() {
                Some(b'"') => return true,
                Some(b'%') => {
                    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
                    if !(self.next().is_some_and(hex) && self.next().is_some_and(hex)) {
                        return false;
                    }
                }
                Some(b' '..=b'~') => {}
                _ => return false,
            }
        }
    }
}
