//! The bodies of one exchange: the caller's, which notes that it was read, and the answer's, which
//! notes that it is over.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use hyper::body::Incoming;

use super::exchange::{Exchange, Turn};
use super::http2::StreamBody;
use crate::gateway::framing::Violation;

/// A caller's request body. Nothing is asked of the caller before it is polled: the first poll is
/// what answers `Expect: 100-continue`.
#[derive(Debug)]
pub struct RequestBody(Source);

#[derive(Debug)]
enum Source {
    Http1 {
        incoming: Incoming,
        exchange: Arc<Exchange>,
    },
    Http2(StreamBody),
}

/// Why a request body did not reach its end. What was read of it must not be used as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// Its framing is wrong. The caller is being told so; no answer of the handler is sent.
    Malformed(Violation),
    /// The caller's connection or stream ended before it.
    Cut,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::Malformed(violation) => write!(f, "{violation}"),
            BodyError::Cut => {
                f.write_str("the connection ended inside the request body; send the request again")
            }
        }
    }
}

impl std::error::Error for BodyError {}

impl RequestBody {
    pub(super) fn http1(incoming: Incoming, exchange: Arc<Exchange>) -> RequestBody {
        RequestBody(Source::Http1 { incoming, exchange })
    }

    pub(super) fn http2(body: StreamBody) -> RequestBody {
        RequestBody(Source::Http2(body))
    }
}

fn poll_http1(
    incoming: &mut Incoming,
    exchange: &Exchange,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    let polled = ready!(Pin::new(&mut *incoming).poll_frame(cx));
    Poll::Ready(match polled {
        Some(Ok(frame)) => {
            if incoming.is_end_stream() {
                exchange.body_read();
            }
            Some(Ok(frame))
        }
        // hyper's error says less than the gate knows.
        Some(Err(_)) => Some(Err(match exchange.violation() {
            Some(violation) => BodyError::Malformed(violation),
            None => BodyError::Cut,
        })),
        None => {
            exchange.body_read();
            None
        }
    })
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Source::Http1 { incoming, exchange } => poll_http1(incoming, exchange, cx),
            Source::Http2(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Http1 { incoming, .. } => incoming.is_end_stream(),
            Source::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Http1 { incoming, .. } => incoming.size_hint(),
            Source::Http2(body) => body.size_hint(),
        }
    }
}

/// The answer's body, the service's or a refusal's. The exchange is over when it is dropped.
pub(super) struct AnswerBody<B> {
    body: Either<B, Full<Bytes>>,
    _turn: Turn,
}

impl<B> AnswerBody<B> {
    pub(super) fn of_service(body: B, turn: Turn) -> AnswerBody<B> {
        AnswerBody {
            body: Either::Left(body),
            _turn: turn,
        }
    }

    pub(super) fn of_refusal(body: Bytes, turn: Turn) -> AnswerBody<B> {
        AnswerBody {
            body: Either::Right(Full::new(body)),
            _turn: turn,
        }
    }
}

impl<B> Body for AnswerBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
