//! Where one HTTP/1.1 request ends and the next begins — decided once, strictly, before anybody
//! else reads the bytes; and what a message that came over HTTP/2 must be to go on as HTTP/1.1.
//!
//! A pure machine: bytes that came in, how many of them may pass on. It knows no socket, no clock
//! and no meaning beyond framing, and changes no byte. What it lets pass is read alike by every
//! recipient; everything else is a [`Violation`], for good: after one, nothing on the connection
//! can be trusted. It stands before hyper because hyper drops a Content-Length beside a
//! Transfer-Encoding without a word, and its own refusals have no body.
//! Source: RFC 9112 sections 2 to 7; requirement S3; "framing and limits" come first of all checks.

mod chunked;
mod head;
mod http2;
mod lines;
mod target;
mod violation;

use chunked::Chunked;
use head::BodyEnd;
use lines::Lines;

pub use chunked::{MAX_EXTENSIONS, MAX_SIZE_LINE, MAX_TRAILER_FIELDS, MAX_TRAILERS};
pub use http2::{check_http2, check_http2_trailers};
pub use violation::Violation;

/// Bytes of a head: twice what browsers and proxies send with the largest cookies and tokens.
pub const MAX_HEAD: usize = 64 * 1024;

/// Header fields of a head: hyper's own default, and apache's.
pub const MAX_FIELDS: usize = 100;

/// How a connection of HTTP/2 begins: the part of its preface that reads like a head (RFC 9113,
/// 3.4).
pub const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// How large a head may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes, from the first of the request line to the last of the empty line. Below 400 KiB:
    /// more does not fit in what hyper reads a head into.
    pub bytes: usize,
    /// Header fields.
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        HeadLimits {
            bytes: MAX_HEAD,
            fields: MAX_FIELDS,
        }
    }
}

/// Follows the requests of one connection.
///
/// ```
/// use steadfast_cli::gateway::framing::{Framer, HeadLimits, Violation};
/// let mut framer = Framer::new(HeadLimits::default());
/// let head = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
/// assert_eq!(framer.advance(&head[..20]), Ok(0));
/// assert_eq!(framer.advance(head), Ok(head.len()));
/// assert_eq!(framer.advance(b"okGET / HTTP/1.1\n"), Ok(2));
/// assert_eq!(framer.advance(b"GET / HTTP/1.1\n"), Err(Violation::BareLf));
/// ```
#[derive(Clone, Debug)]
pub struct Framer {
    limits: HeadLimits,
    state: State,
    heads: u64,
}

#[derive(Clone, Debug)]
enum State {
    Head(Lines),
    Length(u64),
    Chunked(Chunked),
    Refused(Violation),
}

impl Framer {
    /// At the beginning of a connection.
    pub fn new(limits: HeadLimits) -> Framer {
        Framer {
            limits,
            state: State::Head(Lines::default()),
            heads: 0,
        }
    }

    /// How many bytes at the front of `held` may pass on now; zero when more are needed first.
    ///
    /// `held` is everything that came and has not passed: the caller takes the passed bytes away
    /// and appends what arrives. It never grows beyond the largest head for want of an answer.
    ///
    /// # Errors
    /// The rule that was broken, the same at every later call.
    pub fn advance(&mut self, held: &[u8]) -> Result<usize, Violation> {
        let passed = self.step(held);
        if let Err(violation) = passed {
            self.state = State::Refused(violation);
        }
        passed
    }

    /// Heads that have passed.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Whether no message is begun: no byte of a head was looked at, and no body is awaited.
    pub fn between_messages(&self) -> bool {
        matches!(&self.state, State::Head(lines) if !lines.begun())
    }

    /// Whether a body is awaited.
    pub fn in_body(&self) -> bool {
        matches!(self.state, State::Length(_) | State::Chunked(_))
    }

    fn step(&mut self, held: &[u8]) -> Result<usize, Violation> {
        match &mut self.state {
            State::Head(_) => self.head(held),
            State::Length(left) => {
                let bytes = held.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= bytes as u64;
                if *left == 0 {
                    self.state = State::Head(Lines::default());
                }
                Ok(bytes)
            }
            State::Chunked(chunked) => {
                let passed = chunked.advance(held)?;
                if passed.over {
                    self.state = State::Head(Lines::default());
                }
                Ok(passed.bytes)
            }
            State::Refused(violation) => Err(*violation),
        }
    }

    fn head(&mut self, held: &[u8]) -> Result<usize, Violation> {
        let State::Head(lines) = &mut self.state else {
            return Ok(0);
        };
        let too_long = Violation::HeadTooLong(self.limits.bytes);
        let Some(end) = lines.end(held, self.limits.bytes, too_long)? else {
            return Ok(0);
        };
        // One empty line before a request is an old client's habit, RFC 9112 section 2.2.
        let head = &held[..end];
        let head = head.strip_prefix(b"\r\n").unwrap_or(head);
        if head.starts_with(b"\r\n") {
            return Err(Violation::EmptyLines);
        }
        self.state = match head::check(head, self.limits)? {
            BodyEnd::Length(0) => State::Head(Lines::default()),
            BodyEnd::Length(length) => State::Length(length),
            BodyEnd::Chunked => State::Chunked(Chunked::default()),
        };
        self.heads += 1;
        Ok(end)
    }
}

#[cfg(test)]
mod tests;
