//! The body that flows through the layers, and how it says that it was cut.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use steadfast_core::attempt::Failure;

/// Any error of a body, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A request's or a response's body, streamed or whole.
pub struct Body(UnsyncBoxBody<Bytes, BoxError>);

impl Body {
    /// Any body whose errors can be boxed.
    pub fn new<B>(body: B) -> Body
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Body(body.map_err(Into::into).boxed_unsync())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body::new(Full::new(bytes))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl fmt::Debug for Body {
    /// The length at most: no byte of a body is ever printed (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("bytes", &self.0.size_hint().exact())
            .finish()
    }
}

/// A whole body.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Body::new(Full::new(bytes.into()))
}

/// No body.
pub fn empty() -> Body {
    Body::new(Empty::new())
}

/// A response body that ended before its end. Whoever makes a body says by this error how it was
/// cut, so that nobody has to read an error's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut(pub Failure);

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the response body was cut ({})", self.0.slug())
    }
}

impl std::error::Error for Cut {}

/// How a body error reads as an attempt's end: what it says itself, else truncated.
pub fn failure_of(error: &BoxError) -> Failure {
    error
        .downcast_ref::<Cut>()
        .map_or(Failure::Truncated, |cut| cut.0)
}
