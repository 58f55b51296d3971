//! Where a chunked body ends (RFC 9112 section 7.1), read more strictly than the RFC asks:
//! no white space around a size, short extensions, few trailers, none of them a framing field.
//!
//! Knows only bytes. Size lines and trailers pass when they are whole and checked, data at once.

use http::HeaderName;

use super::{Violation, head, lines};

/// Bytes of one size line with its CRLF: 16 digits and an extension such as a signature.
pub const MAX_SIZE_LINE: usize = 256;

/// Bytes of all extensions of a body. hyper ends a body at 16 KiB of them; this is below it, so
/// that the answer is ours.
pub const MAX_EXTENSIONS: usize = 8 * 1024;

/// Bytes of the trailer section. hyper's bound is 16 KiB, and gRPC's trailers stay below this.
pub const MAX_TRAILERS: usize = 8 * 1024;

/// Trailer fields: many times what gRPC or a checksum needs.
pub const MAX_TRAILER_FIELDS: usize = 32;

/// The largest chunk that a signed 64-bit counter still holds.
const MAX_CHUNK: u64 = i64::MAX as u64;

/// The place in a chunked body.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunked {
    place: Place,
    extensions: usize,
    trailers: lines::Lines,
}

#[derive(Clone, Debug, Default)]
enum Place {
    #[default]
    Size,
    Data(u64),
    DataEnd,
    Trailers,
}

/// How many bytes may pass, and whether the body is over with them.
pub(super) struct Passed {
    pub(super) bytes: usize,
    pub(super) over: bool,
}

impl Chunked {
    /// The bytes at the front of `held` that may pass now; zero when more are needed.
    pub(super) fn advance(&mut self, held: &[u8]) -> Result<Passed, Violation> {
        let going = |bytes| Passed { bytes, over: false };
        match self.place {
            Place::Size => self.size(held).map(going),
            Place::Data(left) => {
                let bytes = held.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                self.place = match left - bytes as u64 {
                    0 => Place::DataEnd,
                    left => Place::Data(left),
                };
                Ok(going(bytes))
            }
            Place::DataEnd => match held {
                [] | [b'\r'] => Ok(going(0)),
                [b'\r', b'\n', ..] => {
                    self.place = Place::Size;
                    Ok(going(2))
                }
                _ => Err(Violation::ChunkEnd),
            },
            Place::Trailers => self.trailers(held),
        }
    }

    fn size(&mut self, held: &[u8]) -> Result<usize, Violation> {
        let within = &held[..held.len().min(MAX_SIZE_LINE)];
        let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
            return match held.len() < MAX_SIZE_LINE {
                true => Ok(0),
                false => Err(Violation::ChunkExtension(MAX_SIZE_LINE)),
            };
        };
        let line = &held[..=end];
        let text = line.strip_suffix(b"\r\n").ok_or(Violation::BareLf)?;
        let digits = text
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let extension = &text[digits..];
        let plain = |byte: &u8| *byte == b'\t' || *byte == b' ' || byte.is_ascii_graphic();
        let begins_well = extension.first().is_none_or(|byte| *byte == b';');
        if digits == 0 || !begins_well || !extension.iter().all(plain) {
            return Err(Violation::ChunkSize);
        }
        self.extensions += extension.len();
        if self.extensions > MAX_EXTENSIONS {
            return Err(Violation::ChunkExtension(MAX_EXTENSIONS));
        }
        self.place = match httparse::parse_chunk_size(line) {
            Ok(httparse::Status::Complete((_, 0))) => Place::Trailers,
            Ok(httparse::Status::Complete((_, size))) if size <= MAX_CHUNK => Place::Data(size),
            _ => return Err(Violation::ChunkSize),
        };
        Ok(line.len())
    }

    fn trailers(&mut self, held: &[u8]) -> Result<Passed, Violation> {
        if held.starts_with(b"\r\n") {
            return Ok(Passed {
                bytes: 2,
                over: true,
            });
        }
        let too_long = Violation::TrailerTooLong(MAX_TRAILERS);
        let Some(bytes) = self.trailers.end(held, MAX_TRAILERS, too_long)? else {
            return Ok(Passed {
                bytes: 0,
                over: false,
            });
        };
        check_trailers(&held[..bytes])?;
        Ok(Passed { bytes, over: true })
    }
}

fn check_trailers(section: &[u8]) -> Result<(), Violation> {
    if lines::of(section).any(lines::folds) {
        return Err(Violation::ObsFold);
    }
    let mut fields = [httparse::EMPTY_HEADER; MAX_TRAILER_FIELDS];
    let fields = match httparse::parse_headers(section, &mut fields) {
        Ok(httparse::Status::Complete((length, fields))) if length == section.len() => fields,
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Violation::TooManyTrailers(MAX_TRAILER_FIELDS));
        }
        Err(httparse::Error::HeaderValue) => return Err(Violation::FieldValue),
        _ => return Err(Violation::FieldName),
    };
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let name = name.map_err(|_| Violation::FieldName)?;
        if head::is_framing(&name.as_str().replace('_', "-")) {
            return Err(Violation::TrailerField);
        }
    }
    Ok(())
}
