//! A request's body as it streams on, kept so that it can be sent again byte for byte.
//!
//! Nothing waits for the body to be whole: an attempt reads what was kept, then reads on from the
//! caller, and what it reads is kept for the next one. A body that grows above the limit streams on
//! without being kept, and the request cannot be sent again (R10).

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use steadfast::body::Body;
use steadfast::client::pool::{CallerLeft, RequestBody};

/// A request's body. Each attempt reads it from its beginning.
#[derive(Clone)]
pub struct Tape(Arc<Mutex<Recorded>>);

struct Recorded {
    source: Body,
    /// As it was announced, before anything was read.
    hint: SizeHint,
    frames: Vec<Kept>,
    bytes: usize,
    limit: usize,
    ended: bool,
    lost: bool,
}

enum Kept {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Tape {
    /// Of `body`, of which at most `limit` bytes are kept; `None` where there is no body.
    pub fn of(body: Body, limit: usize) -> Option<Tape> {
        if body.is_end_stream() {
            return None;
        }
        Some(Tape(Arc::new(Mutex::new(Recorded {
            hint: body.size_hint(),
            source: body,
            frames: Vec::new(),
            bytes: 0,
            limit,
            ended: false,
            lost: false,
        }))))
    }

    /// Part of it was read and is not kept, so it cannot be sent again.
    pub fn is_lost(&self) -> bool {
        self.recorded().lost
    }

    /// The body of one attempt, from its first byte. Only the latest reads on.
    pub fn play(&self) -> RequestBody {
        let tape = self.clone();
        Played { tape, next: 0 }.boxed_unsync()
    }

    /// Held for a moment only; nothing is awaited under it.
    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorded {
    /// Keeps `frame`, unless that is too much: then nothing is kept any more.
    fn keep(&mut self, frame: &Frame<Bytes>) {
        let announced = usize::try_from(self.hint.lower()).unwrap_or(usize::MAX);
        let length = frame.data_ref().map_or(0, Bytes::len);
        self.bytes = self.bytes.saturating_add(length);
        if self.lost || self.bytes.max(announced) > self.limit {
            self.lost = true;
            self.frames = Vec::new();
            return;
        }
        let kept = match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => Kept::Data(data.clone()),
            (None, Some(trailers)) => Kept::Trailers(trailers.clone()),
            (None, None) => return,
        };
        self.frames.push(kept);
    }
}

/// One attempt's reading.
struct Played {
    tape: Tape,
    /// Which kept frame comes next.
    next: usize,
}

impl HttpBody for Played {
    type Data = Bytes;
    type Error = CallerLeft;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CallerLeft>>> {
        let this = self.get_mut();
        let mut recorded = this.tape.recorded();
        if let Some(kept) = recorded.frames.get(this.next) {
            this.next += 1;
            return Poll::Ready(Some(Ok(match kept {
                Kept::Data(data) => Frame::data(data.clone()),
                Kept::Trailers(trailers) => Frame::trailers(trailers.clone()),
            })));
        }
        if recorded.ended {
            return Poll::Ready(None);
        }
        let Some(frame) = ready!(Pin::new(&mut recorded.source).poll_frame(cx)) else {
            recorded.ended = true;
            return Poll::Ready(None);
        };
        let frame = frame.map_err(|_| CallerLeft {
            detail: "The request body did not come to its end.".to_owned(),
        })?;
        recorded.keep(&frame);
        recorded.ended = recorded.source.is_end_stream();
        this.next = recorded.frames.len();
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        let recorded = self.tape.recorded();
        recorded.ended && self.next >= recorded.frames.len()
    }

    /// What is announced counts for the whole body, so it is told before the first frame only.
    fn size_hint(&self) -> SizeHint {
        match self.next {
            0 => self.tape.recorded().hint,
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, stream};
    use http_body_util::StreamBody;
    use steadfast::body::BoxError;

    use super::*;

    fn body(frames: Vec<&'static [u8]>) -> Body {
        let frames = frames.into_iter().map(Bytes::from_static);
        Body::new(StreamBody::new(stream::iter(
            frames.map(|data| Ok::<_, BoxError>(Frame::data(data))),
        )))
    }

    fn read(mut body: RequestBody, frames: usize) -> Vec<u8> {
        let mut read = Vec::new();
        for _ in 0..frames {
            let frame = body.frame().now_or_never().expect("it is there");
            let Some(Ok(frame)) = frame else { break };
            read.extend_from_slice(frame.data_ref().expect("data"));
        }
        read
    }

    // rule: a-body-is-resent-byte-for-byte
    #[test]
    fn each_attempt_reads_the_body_from_its_beginning_and_then_on() {
        let tape = Tape::of(body(vec![b"ab", b"cd", b"ef"]), 6).expect("a body");
        assert_eq!(read(tape.play(), 2), b"abcd");
        assert_eq!(read(tape.play(), 9), b"abcdef");
        assert_eq!(read(tape.play(), 9), b"abcdef");
        assert!(!tape.is_lost());
        assert!(Tape::of(steadfast::body::empty(), 6).is_none());
    }

    #[test]
    fn a_body_above_the_limit_streams_on_and_is_lost() {
        let tape = Tape::of(body(vec![b"ab", b"cd", b"ef"]), 5).expect("a body");
        let mut first = tape.play();
        for part in [b"ab", b"cd", b"ef"] {
            assert!(!tape.is_lost());
            let frame = first.frame().now_or_never().flatten();
            let frame = frame.expect("a frame").expect("whole");
            assert_eq!(frame.into_data().expect("data"), &part[..]);
        }
        assert!(tape.is_lost());
    }

    #[test]
    fn a_body_that_is_announced_above_the_limit_is_lost_with_its_first_byte() {
        let tape = Tape::of(steadfast::body::full("abcdef"), 5).expect("a body");
        assert!(!tape.is_lost());
        assert_eq!(read(tape.play(), 1), b"abcdef");
        assert!(tape.is_lost());
    }
}
