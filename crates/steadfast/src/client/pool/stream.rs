//! One request on a shared HTTP/2 connection, and what its end proves.
//!
//! Decides between the peer's promises (RFC 9113, 6.8 and 8.7): a stream that it refused, or that
//! is above the last one it may have processed, was not processed; one at or below it may have
//! been; of any other end nothing is promised. Dropping an exchange resets its stream and leaves
//! the connection to the others.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Error, Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response, Version};
use http_body::{Body as _, Frame};
use steadfast_core::attempt::Failure;
use steadfast_core::time::MonoTime;

use super::counted::Evidence;
use super::request::Watched;
use super::shared::{Leave, told};
use crate::clock;

/// A request on its way out over a stream of its own.
pub(super) struct Exchange {
    /// Gone once the head has come.
    response: Option<ResponseFuture>,
    upload: Upload,
    stream: Stream,
}

/// A stream's place, and what passed of it.
pub(super) struct Stream {
    id: u32,
    leave: Leave,
    evidence: Evidence,
    opened_at: MonoTime,
}

/// Why no answer came.
pub(super) struct Ended {
    /// What was seen, for people.
    pub(super) why: String,
    /// What the peer promised of it; nothing where it is none of the special ones.
    pub(super) promised: Option<Failure>,
}

impl Exchange {
    /// Hands `request` over. `None` where the connection takes no more: nothing was handed over.
    pub(super) fn begin(
        leave: Leave,
        request: Request<Watched>,
        evidence: &Evidence,
    ) -> Option<Exchange> {
        let (head, body) = request.into_parts();
        let is_whole = body.is_end_stream();
        let head = Request::from_parts(head, ());
        let (response, send) = leave.open(head, is_whole, evidence)?;
        let stream = Stream {
            id: response.stream_id().as_u32(),
            leave,
            evidence: evidence.clone(),
            opened_at: clock::mono_now(),
        };
        Some(Exchange {
            response: Some(response),
            upload: Upload {
                send: (!is_whole).then_some(send),
                body,
                chunk: Bytes::new(),
                is_last: false,
            },
            stream,
        })
    }

    /// Sends what the peer takes, and looks for the answer's head.
    pub(super) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<RecvStream>, Ended>> {
        let (id, leave) = (self.stream.id, &self.stream.leave);
        leave.wake_when_written(id, cx.waker());
        self.upload.poll(cx);
        let Some(response) = &mut self.response else {
            return Poll::Pending;
        };
        while let Poll::Ready(Some(Ok(_))) = response.poll_informational(cx) {
            self.stream.evidence.seen().informational += 1;
        }
        let head = ready!(Pin::new(response).poll(cx));
        Poll::Ready(head.map_err(|error| self.stream.ended(&error)))
    }

    /// The head came: what is left is its body, and perhaps of the request's.
    pub(super) fn answered(self, response: Response<RecvStream>) -> Response<SharedBody> {
        self.stream.leave.has_served();
        let mut response = response.map(|recv| SharedBody {
            recv,
            upload: self.upload,
            trailers_due: true,
            stream: self.stream,
        });
        // What goes on to callers is told in the words of HTTP/1.1.
        *response.version_mut() = Version::HTTP_11;
        response
    }

    /// Gives the stream up; whether what is known of it is final.
    pub(super) fn give_up(self, is_late: bool) -> bool {
        let Exchange {
            response,
            upload,
            stream,
        } = self;
        drop((response, upload));
        if is_late {
            stream.leave.suspect(stream.opened_at);
        }
        stream.leave.is_settled(&stream.evidence)
    }
}

impl Stream {
    fn ended(&self, error: &Error) -> Ended {
        let refused =
            error.is_reset() && error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM);
        if error.reason() == Some(Reason::HTTP_1_1_REQUIRED) {
            self.leave.stay_with_http1();
        }
        // A peer that has begun to answer has processed the request, whatever it says later.
        let has_begun = self.evidence.seen().informational > 0;
        let promised = match (refused && !has_begun, self.leave.last_processed()) {
            (true, _) => Some(Failure::RefusedStream),
            (false, Some(last)) if self.id > last && !has_begun => Some(Failure::AboveGoaway),
            (false, Some(_)) => Some(Failure::BelowGoaway),
            (false, None) => None,
        };
        Ended {
            why: told(error),
            promised,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.leave.forget(self.id);
    }
}

/// The request's body on its way out.
struct Upload {
    /// Gone once the body is handed over, or nobody takes it.
    send: Option<SendStream<Bytes>>,
    body: Watched,
    /// Handed over as far as the peer has room for it.
    chunk: Bytes,
    is_last: bool,
}

impl Upload {
    /// Hands over what the peer has room for. What goes wrong is told by the answer's side.
    fn poll(&mut self, cx: &mut Context<'_>) {
        while let Some(send) = &mut self.send {
            let step = match self.chunk.is_empty() {
                true => next_of(&mut self.body, send, &mut self.chunk, cx),
                false => hand_over(&mut self.chunk, self.is_last, send, cx),
            };
            match step {
                Poll::Ready(Step::More) => self.is_last = self.body.is_end_stream(),
                Poll::Ready(Step::Over) => self.send = None,
                Poll::Pending => return,
            }
        }
    }
}

enum Step {
    More,
    Over,
}

fn next_of(
    body: &mut Watched,
    send: &mut SendStream<Bytes>,
    chunk: &mut Bytes,
    cx: &mut Context<'_>,
) -> Poll<Step> {
    let frame = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
        // A failure of the body stays pending, and is seen in the evidence.
        Some(Err(_)) => return Poll::Pending,
        None => {
            let _ = send.send_data(Bytes::new(), true);
            return Poll::Ready(Step::Over);
        }
        Some(Ok(frame)) => frame,
    };
    Poll::Ready(match frame.into_data() {
        Ok(data) if data.is_empty() && body.is_end_stream() => {
            let _ = send.send_data(data, true);
            Step::Over
        }
        Ok(data) => {
            *chunk = data;
            Step::More
        }
        Err(frame) => {
            let trailers = frame.into_trailers().unwrap_or_else(|_| HeaderMap::new());
            let _ = send.send_trailers(trailers);
            Step::Over
        }
    })
}

fn hand_over(
    chunk: &mut Bytes,
    is_last: bool,
    send: &mut SendStream<Bytes>,
    cx: &mut Context<'_>,
) -> Poll<Step> {
    if send.capacity() == 0 {
        send.reserve_capacity(chunk.len());
        match ready!(send.poll_capacity(cx)) {
            Some(Ok(_)) => return Poll::Ready(Step::More),
            Some(Err(_)) | None => return Poll::Ready(Step::Over),
        }
    }
    let part = chunk.split_to(chunk.len().min(send.capacity()));
    let ends = is_last && chunk.is_empty();
    Poll::Ready(match send.send_data(part, ends) {
        Ok(()) if !ends => Step::More,
        _ => Step::Over,
    })
}

/// An answer's body over a stream of its own. Dropping it resets the stream.
pub(super) struct SharedBody {
    recv: RecvStream,
    upload: Upload,
    trailers_due: bool,
    stream: Stream,
}

impl SharedBody {
    pub(super) fn is_end_stream(&self) -> bool {
        self.recv.is_end_stream()
    }

    /// The next frame; an error where the body did not come whole.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ()>>> {
        self.upload.poll(cx);
        match ready!(self.recv.poll_data(cx)) {
            Some(Ok(data)) => {
                // Who asks for the next has taken this one, and nobody asks before.
                let _ = self.recv.flow_control().release_capacity(data.len());
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            Some(Err(error)) => return Poll::Ready(self.end(&error)),
            None if !self.trailers_due => return Poll::Ready(None),
            None => {}
        }
        let trailers = ready!(self.recv.poll_trailers(cx));
        self.trailers_due = false;
        Poll::Ready(match trailers {
            Ok(Some(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Ok(None) => None,
            Err(error) => self.end(&error),
        })
    }

    /// A peer that answered without the whole request may say so after a whole answer
    /// (RFC 9113, 8.1).
    fn end(&self, error: &Error) -> Option<Result<Frame<Bytes>, ()>> {
        let is_whole =
            error.reason() == Some(Reason::NO_ERROR) && self.stream.evidence.seen().answer_ended;
        (!is_whole).then_some(Err(()))
    }

    /// The body is given up because nothing came for too long.
    pub(super) fn suspect(&self, since: MonoTime) {
        self.stream.leave.suspect(since);
    }
}
