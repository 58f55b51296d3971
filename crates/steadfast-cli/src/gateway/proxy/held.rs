//! An answer after which another attempt is due: what its caller is given should none go out.
//!
//! As much as has come of its body is read, up to a bound, so that a small answer's connection goes
//! back to the pool before the wait. Nothing waits for the rest: it stays on its connection, which
//! is closed when the next attempt asks for one, since it may be the last that the pool has.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use steadfast::body::{Body, BoxError};

/// Bytes of such an answer that are read at most: more than an error's page has, and small beside
/// what a connection's own buffers hold.
pub const HELD_BYTES: usize = 16 * 1024;

/// The answer's body: what was read of it, and the rest.
pub struct Held {
    read: VecDeque<Frame<Bytes>>,
    bytes: usize,
    /// Gone with the last frame.
    rest: Option<Body>,
    cut: Option<BoxError>,
}

impl Held {
    /// Takes hold of `response`, and reads what has come of it.
    pub fn of(response: Response<Body>) -> Response<Held> {
        response.map(|body| {
            let mut held = Held {
                read: VecDeque::new(),
                bytes: 0,
                rest: Some(body),
                cut: None,
            };
            held.read_on();
            held
        })
    }

    /// Reads what has come meanwhile.
    pub fn read_on(&mut self) {
        while let Some(rest) = self.rest.as_mut().filter(|_| self.bytes < HELD_BYTES) {
            let frame = match rest.is_end_stream() {
                true => None,
                false => match rest.frame().now_or_never() {
                    Some(frame) => frame,
                    None => return,
                },
            };
            match frame {
                Some(Ok(frame)) => {
                    self.bytes += frame.data_ref().map_or(0, Bytes::len);
                    self.read.push_back(frame);
                }
                Some(Err(error)) => (self.rest, self.cut) = (None, Some(error)),
                None => self.rest = None,
            }
        }
    }

    /// It did not come whole: it is no answer.
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// All of it is here, so that it needs its connection no longer.
    pub fn is_whole(&self) -> bool {
        self.rest.is_none() && self.cut.is_none()
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Some(frame) = this.read.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match (&mut this.rest, this.cut.take()) {
            (_, Some(error)) => Poll::Ready(Some(Err(error))),
            (Some(rest), None) => Pin::new(rest).poll_frame(cx),
            (None, None) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        let rest = self.rest.as_ref();
        self.read.is_empty() && self.cut.is_none() && rest.is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.is_some() || self.cut.is_some() {
            true => SizeHint::default(),
            false => {
                let read = self.read.iter().filter_map(Frame::data_ref);
                SizeHint::with_exact(read.map(|data| data.len() as u64).sum())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body_util::StreamBody;

    use super::*;

    /// An answer of so many chunks of 1 KiB, all of which have come.
    fn held(chunks: usize) -> Held {
        let chunk = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b'x'; 1024])));
        let chunks = stream::iter((0..chunks).map(move |_| chunk()));
        Held::of(Response::new(Body::new(StreamBody::new(chunks)))).into_body()
    }

    #[tokio::test]
    async fn of_an_answer_whose_repeat_is_due_16_kib_are_kept() {
        let small = held(15);
        assert!(small.is_whole());
        let large = held(17);
        assert!(!large.is_whole());
        assert_eq!(large.bytes, 16 * 1024);
        // What was not kept is not lost, as long as its connection stands.
        let whole = large.collect().await.expect("its body").to_bytes();
        assert_eq!(whole.len(), 17 * 1024);
    }
}
