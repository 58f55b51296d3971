//! A request's body that says by its type whether it can be sent again.
//!
//! Kept whole, it is sent byte for byte as often as is decided. Streamed, it is handed to one
//! attempt; once that attempt has read of it, it is gone, and no other attempt can have it
//! (requirement R10). An attempt that never touched it gives it back.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use steadfast_core::repeat::BodyKind;

use crate::body::{Body, BoxError};

/// The body of an operation.
pub struct RequestBody(Kept);

enum Kept {
    Whole(Bytes),
    Streamed(Arc<Lent>),
}

/// A stream on its way through one attempt: here until that attempt reads of it.
struct Lent {
    untouched: Mutex<Option<Body>>,
    hint: SizeHint,
    /// The stream itself failed: the caller's fault and nobody else's.
    failed: AtomicBool,
}

impl RequestBody {
    /// Bytes that are kept until the operation's end.
    pub fn whole(bytes: impl Into<Bytes>) -> RequestBody {
        RequestBody(Kept::Whole(bytes.into()))
    }

    /// No body.
    pub fn empty() -> RequestBody {
        RequestBody::whole(Bytes::new())
    }

    /// A body that is read while it is sent, and then gone.
    pub fn stream<B>(body: B) -> RequestBody
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        RequestBody(Kept::Streamed(Lent::of(Body::new(body))))
    }

    /// Whether it can be sent again.
    pub fn kind(&self) -> BodyKind {
        match self.0 {
            Kept::Whole(_) => BodyKind::Whole,
            Kept::Streamed(_) => BodyKind::Streamed,
        }
    }

    /// The body for one attempt; `None` once an attempt has read of a stream. What was lent before
    /// cannot be read any more.
    pub(super) fn lend(&mut self) -> Option<AttemptBody> {
        match &mut self.0 {
            Kept::Whole(bytes) => {
                let bytes = Some(bytes.clone()).filter(|bytes| !bytes.is_empty());
                Some(AttemptBody(Sent::Whole(bytes)))
            }
            Kept::Streamed(lent) => {
                let body = lent.take()?;
                *lent = Lent::of(body);
                Some(AttemptBody(Sent::Streamed {
                    lent: Arc::clone(lent),
                    reading: Mutex::new(None),
                }))
            }
        }
    }

    /// An attempt has read of a stream.
    pub(super) fn is_gone(&self) -> bool {
        match &self.0 {
            Kept::Whole(_) => false,
            Kept::Streamed(lent) => lent.slot().is_none(),
        }
    }

    /// The stream failed by itself, and with it the attempt.
    pub(super) fn has_failed(&self) -> bool {
        match &self.0 {
            Kept::Whole(_) => false,
            Kept::Streamed(lent) => lent.failed.load(Ordering::Acquire),
        }
    }
}

impl Lent {
    fn of(body: Body) -> Arc<Lent> {
        Arc::new(Lent {
            hint: body.size_hint(),
            untouched: Mutex::new(Some(body)),
            failed: AtomicBool::new(false),
        })
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Body>> {
        self.untouched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Body> {
        self.slot().take()
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> RequestBody {
        RequestBody::whole(bytes)
    }
}

impl From<String> for RequestBody {
    fn from(text: String) -> RequestBody {
        RequestBody::whole(text)
    }
}

impl From<&'static str> for RequestBody {
    fn from(text: &'static str) -> RequestBody {
        RequestBody::whole(text)
    }
}

impl From<()> for RequestBody {
    fn from((): ()) -> RequestBody {
        RequestBody::empty()
    }
}

/// One of our bodies streams: what it holds is not known to be kept.
impl From<Body> for RequestBody {
    fn from(body: Body) -> RequestBody {
        RequestBody::stream(body)
    }
}

impl Default for RequestBody {
    fn default() -> RequestBody {
        RequestBody::empty()
    }
}

impl fmt::Debug for RequestBody {
    /// The kind: no byte of a body is ever printed (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestBody").field(&self.kind()).finish()
    }
}

/// The body of one attempt, as the service below gets it.
pub struct AttemptBody(Sent);

enum Sent {
    /// Gone once it was read; `None` from the start where there is none.
    Whole(Option<Bytes>),
    Streamed {
        lent: Arc<Lent>,
        /// The stream, from the first reading on. Never locked: the lock only makes it shareable.
        reading: Mutex<Option<Body>>,
    },
}

/// An attempt read of a stream after it had been handed on to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HandedOn;

impl fmt::Display for HandedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this attempt was given up, and its body is another one's")
    }
}

impl std::error::Error for HandedOn {}

impl HttpBody for AttemptBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.get_mut().0 {
            Sent::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Sent::Streamed { lent, reading } => {
                let reading = reading.get_mut().unwrap_or_else(PoisonError::into_inner);
                if reading.is_none() {
                    *reading = lent.take();
                }
                let Some(body) = reading else {
                    return Poll::Ready(Some(Err(HandedOn.into())));
                };
                let frame = Pin::new(body).poll_frame(cx);
                if let Poll::Ready(Some(Err(_))) = &frame {
                    lent.failed.store(true, Ordering::Release);
                }
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Sent::Whole(bytes) => bytes.is_none(),
            // A length of nothing is as good as an end, and asking for it touches nothing.
            Sent::Streamed { lent, .. } => lent.hint.exact() == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Sent::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Sent::Streamed { lent, .. } => lent.hint,
        }
    }
}

impl fmt::Debug for AttemptBody {
    /// The length at most: no byte of a body is ever printed (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptBody")
            .field("bytes", &self.size_hint().exact())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    fn read(body: AttemptBody) -> Result<Bytes, BoxError> {
        let collected = futures_util::FutureExt::now_or_never(body.collect());
        Ok(collected.expect("all is there")?.to_bytes())
    }

    // rule: a-body-is-resent-byte-for-byte-or-not-at-all
    #[test]
    fn a_whole_body_is_lent_as_often_as_asked_and_a_read_stream_never_again() {
        let mut whole = RequestBody::whole("amount=50");
        for _ in 0..3 {
            let lent = whole.lend().expect("it is kept");
            assert_eq!(lent.size_hint().exact(), Some(9));
            assert_eq!(read(lent).expect("bytes"), "amount=50");
        }
        let mut streamed = RequestBody::stream(Full::new(Bytes::from_static(b"amount=50")));
        assert_eq!(
            read(streamed.lend().expect("new")).expect("bytes"),
            "amount=50"
        );
        assert!(streamed.is_gone() && streamed.lend().is_none());
    }

    #[test]
    fn a_stream_that_no_attempt_read_goes_to_the_next_one_and_to_it_alone() {
        let mut streamed = RequestBody::stream(Full::new(Bytes::from_static(b"x")));
        let first = streamed.lend().expect("new");
        let second = streamed.lend().expect("untouched");
        assert!(read(first).is_err(), "the first has lost it");
        assert_eq!(read(second).expect("bytes"), "x");
        assert!(
            !streamed.has_failed(),
            "losing it is not the stream's failure"
        );
    }

    #[test]
    fn a_stream_that_fails_by_itself_is_told_apart() {
        let broken = [Err::<Frame<Bytes>, _>(std::io::Error::other("gone"))];
        let mut streamed = RequestBody::stream(StreamBody::new(futures_util::stream::iter(broken)));
        assert!(read(streamed.lend().expect("new")).is_err());
        assert!(streamed.has_failed());
    }

    #[test]
    fn an_empty_body_has_ended_before_it_is_read() {
        let lent = RequestBody::empty().lend().expect("nothing can be kept");
        assert!(lent.is_end_stream());
        assert_eq!(lent.size_hint().exact(), Some(0));
        let shareable: &dyn Sync = &lent;
        let _ = shareable;
    }
}
