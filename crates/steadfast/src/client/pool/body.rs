//! An answer's body: each chunk within the idle limit, the whole before the deadline.
//!
//! The connection moves only while the body is polled. At the whole end it goes back to the pool,
//! if the request was written whole, both sides keep it and nothing is left on it. A body that is
//! dropped before closes its connection; it is never drained.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::{Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use steadfast_core::time::MonoTime;

use super::connection::Link;
use super::host::Slot;
use super::stream::SharedBody;
use crate::clock::{self, Timer};

/// Why a body did not come whole. What its bytes so far said is not known to be the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// No chunk came within the idle limit.
    Idle,
    /// It ended before its announced end or last chunk, or its framing was broken.
    Truncated,
    /// The operation's deadline came before the end.
    Deadline,
}

impl BodyError {
    /// The evidence of the attempt. A deadline cuts the body, so it reads as one cut.
    pub fn failure(self) -> Failure {
        match self {
            BodyError::Idle => Failure::Idle,
            BodyError::Truncated | BodyError::Deadline => Failure::Truncated,
        }
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Failure {
        error.failure()
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyError::Idle => "the answer's body paused for longer than the idle limit",
            BodyError::Truncated => "the answer's body ended before its announced end",
            BodyError::Deadline => "the deadline came before the answer's body had ended",
        })
    }
}

impl Error for BodyError {}

/// The body of an upstream's answer.
///
/// A body without announced length ends with the connection (RFC 9112, 6.3, rule 8): a clean end
/// counts as whole, since a peer that was cut off cleanly cannot be told from one that was done; a
/// reset does not.
#[derive(Debug)]
pub struct UpstreamBody {
    /// Gone once the body has ended, either way.
    source: Option<Source>,
    /// Bytes that are still to come, where a length was announced.
    left: Option<u64>,
    idle: Duration,
    deadline: Deadline,
    /// Since when a chunk is being waited for. Time in which nobody asked is not the upstream's.
    waiting_since: Option<MonoTime>,
    timer: Option<Timer>,
    may_rest: bool,
}

/// Where a body comes from.
enum Source {
    /// A connection of its own.
    Alone {
        incoming: Incoming,
        link: Link,
        slot: Slot,
    },
    /// A stream of a connection that many share.
    Shared(Box<SharedBody>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Alone { .. } => "Alone",
            Source::Shared(_) => "Shared",
        })
    }
}

impl Source {
    fn is_end_stream(&self) -> bool {
        match self {
            Source::Alone { incoming, .. } => incoming.is_end_stream(),
            Source::Shared(body) => body.is_end_stream(),
        }
    }

    /// The next frame, moving the connection as needed. Why a body did not come whole says nothing.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ()>>> {
        match self {
            Source::Alone { incoming, link, .. } => {
                if let Poll::Ready(frame) = Pin::new(&mut *incoming).poll_frame(cx) {
                    return Poll::Ready(frame.map(|frame| frame.map_err(|_| ())));
                }
                link.drive(cx);
                let frame = Pin::new(incoming).poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map_err(|_| ())))
            }
            Source::Shared(body) => body.poll_frame(cx),
        }
    }
}

impl UpstreamBody {
    /// Splits `response`; its body is read from `link`.
    pub(super) fn of(
        mut response: Response<Incoming>,
        (link, slot): (Link, Slot),
        idle: Duration,
        deadline: Deadline,
    ) -> Response<UpstreamBody> {
        // With two framings the chunks count and the length goes; what follows on such a connection
        // is not trusted (RFC 9112, 6.3, rule 3).
        let headers = response.headers_mut();
        let chunked = headers.contains_key(TRANSFER_ENCODING);
        let ambiguous = chunked && headers.remove(CONTENT_LENGTH).is_some();
        say_length_once(headers);
        // An HTTP/1.0 peer gets each request on a new connection: on one it has answered, a body of
        // unknown length could not be framed.
        let may_rest = response.version() == Version::HTTP_11 && !ambiguous;
        response.map(|incoming| UpstreamBody {
            left: incoming.size_hint().exact(),
            source: Some(Source::Alone {
                incoming,
                link,
                slot,
            }),
            idle,
            deadline,
            waiting_since: None,
            timer: None,
            may_rest,
        })
    }

    /// Takes `response`, whose body comes over a stream.
    pub(super) fn of_shared(
        mut response: Response<SharedBody>,
        idle: Duration,
        deadline: Deadline,
    ) -> Response<UpstreamBody> {
        let headers = response.headers_mut();
        say_length_once(headers);
        let length = headers.get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        response.map(|body| {
            let is_over = body.is_end_stream();
            UpstreamBody {
                left: if is_over { Some(0) } else { length },
                source: (!is_over).then(|| Source::Shared(Box::new(body))),
                idle,
                deadline,
                waiting_since: None,
                timer: None,
                may_rest: false,
            }
        })
    }

    /// Gives the connection back, or closes it, where nothing is left to come.
    pub(super) fn settle_if_ended(&mut self, cx: &mut Context<'_>) {
        if self.source.as_ref().is_some_and(Source::is_end_stream) {
            self.settle(cx);
        }
    }

    fn settle(&mut self, cx: &mut Context<'_>) {
        let Some(Source::Alone { mut link, slot, .. }) = self.source.take() else {
            return;
        };
        // hyper finds out here whether bytes are left, and whether it can carry another.
        link.drive(cx);
        if self.may_rest && link.may_carry_another() {
            slot.lay_down(link, clock::mono_now());
        }
    }

    fn end(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let (Some(Source::Shared(body)), Some(since)) = (&self.source, self.waiting_since)
            && error != BodyError::Truncated
        {
            body.suspect(since);
        }
        self.source = None;
        self.may_rest = false;
        Poll::Ready(Some(Err(error)))
    }

    fn took(&mut self, frame: &Frame<Bytes>) {
        self.waiting_since = None;
        if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
            *left = left.saturating_sub(data.len() as u64);
        }
    }

    fn poll_limits(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let since = *self.waiting_since.get_or_insert_with(clock::mono_now);
        let (idle_ends, ends) = (since.plus(self.idle), self.deadline.ends());
        let first = idle_ends.min(ends);
        let timer = self.timer.get_or_insert_with(|| Timer::at(first));
        timer.set(first);
        timer.poll_rung(cx).map(|()| match ends <= idle_ends {
            true => BodyError::Deadline,
            false => BodyError::Idle,
        })
    }
}

/// A length that was said more than once, on lines or in a list, goes on once. hyper has read it
/// so, or refused the answer; where it did not have to read it (an answer to HEAD), lengths that
/// differ say nothing (RFC 9110, 8.6).
fn say_length_once(headers: &mut HeaderMap) {
    let lines = headers.get_all(CONTENT_LENGTH).iter();
    let mut said = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let Some(first) = said.next().map(<[u8]>::trim_ascii) else {
        return;
    };
    let rest: Vec<&[u8]> = said.map(<[u8]>::trim_ascii).collect();
    if rest.is_empty() {
        return;
    }
    let same = rest.iter().all(|other| *other == first);
    match HeaderValue::from_bytes(first).ok().filter(|_| same) {
        Some(length) => headers.insert(CONTENT_LENGTH, length),
        None => headers.remove(CONTENT_LENGTH),
    };
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(source) = &mut this.source else {
            return Poll::Ready(None);
        };
        if this.deadline.is_spent(clock::mono_now()) {
            return this.end(BodyError::Deadline);
        }
        match source.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.took(&frame);
                // A reader that sees the end announced asks for no more, so it is settled now.
                this.settle_if_ended(cx);
                Poll::Ready(Some(Ok(frame)))
            }
            // Whatever the reason: what came is not the whole body.
            Poll::Ready(Some(Err(_))) => this.end(BodyError::Truncated),
            Poll::Ready(None) if this.left.is_some_and(|left| left > 0) => {
                this.end(BodyError::Truncated)
            }
            Poll::Ready(None) => {
                this.settle(cx);
                Poll::Ready(None)
            }
            Poll::Pending => match this.poll_limits(cx) {
                Poll::Ready(error) => this.end(error),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Some(Source::Alone { incoming, .. }) => incoming.size_hint(),
            Some(Source::Shared(_)) => self.left.map_or_else(SizeHint::new, SizeHint::with_exact),
            None => SizeHint::with_exact(0),
        }
    }
}
