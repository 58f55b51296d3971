//! A request's body as it comes over a stream, and what its reader and the stream's task tell each
//! other: that it is asked for, that it is malformed, that the answer is over.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::gateway::framing::{Violation, check_http2_trailers};
use crate::gateway::listen::BodyError;
use crate::gateway::listen::alarm::{Alarm, poll_alarm};

/// What is known of one stream on both sides.
#[derive(Debug, Default)]
pub(super) struct Talk(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// The caller waits to be asked for its body, and it was not yet.
    expects: bool,
    /// Somebody reads the body, and nothing of it has come.
    asked: bool,
    violation: Option<Violation>,
    over: bool,
    task: Option<Waker>,
}

impl Talk {
    /// `expects` where the caller sends its body only when it is asked.
    pub(super) fn new(expects: bool) -> Talk {
        Talk(Mutex::new(Told {
            expects,
            ..Told::default()
        }))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task of `waker` when something is told from now on.
    pub(super) fn listen(&self, waker: &Waker) {
        self.told().task = Some(waker.clone());
    }

    /// Why the body was refused, if it was.
    pub(super) fn violation(&self) -> Option<Violation> {
        self.told().violation
    }

    /// Whether the caller is to be asked for its body now; true once.
    pub(super) fn take_asked(&self) -> bool {
        let mut told = self.told();
        let ask = told.expects && told.asked;
        told.expects &= !ask;
        ask
    }

    /// The answer is over.
    pub(super) fn end(&self) {
        self.told().over = true;
    }

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        let mut told = self.told();
        change(&mut told);
        let woken = told.task.take();
        drop(told);
        if let Some(waker) = woken {
            waker.wake();
        }
    }
}

/// A request's body that comes over a stream.
pub struct StreamBody {
    stream: RecvStream,
    talk: Arc<Talk>,
    /// Bytes that are still to come, where the caller said how many.
    left: Option<u64>,
    /// The bytes that complete that length. They are kept until the stream has ended as it must:
    /// whoever has them has a whole request (RFC 9113, 8.1.1).
    last: Option<Bytes>,
    trailers: Option<HeaderMap>,
    data_ended: bool,
    /// The stream has ended, and all of it is here.
    whole: bool,
    ended: bool,
    idle: Duration,
    waiting: Option<Alarm<()>>,
    /// Tells the connection that somebody still reads.
    _held: Arc<()>,
}

impl StreamBody {
    pub(super) fn new(
        stream: RecvStream,
        talk: Arc<Talk>,
        length: Option<u64>,
        idle: Duration,
        held: Arc<()>,
    ) -> StreamBody {
        StreamBody {
            stream,
            talk,
            left: length,
            last: None,
            trailers: None,
            data_ended: false,
            whole: false,
            ended: false,
            idle,
            waiting: None,
            _held: held,
        }
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let data = match ready!(self.stream.poll_data(cx)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => {
                // A caller who has its answer may give the rest of the body up.
                let given_up = error.reason() == Some(Reason::NO_ERROR);
                tracing::debug!(%error, given_up, "a request's body was cut");
                return Poll::Ready(Some(Err(BodyError::Cut)));
            }
            Some(Ok(data)) => data,
        };
        // Room for as many more. It fails only where the stream is over already.
        let _ = self.stream.flow_control().release_capacity(data.len());
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(data.len() as u64);
        }
        Poll::Ready(Some(Ok(data)))
    }

    /// The stream's end behind its data, with its trailers.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        while !self.data_ended {
            match ready!(self.poll_data(cx)) {
                None => self.data_ended = true,
                Some(Ok(data)) if data.is_empty() => {}
                // The parser lets no byte more than was announced come.
                Some(Ok(_)) => return Poll::Ready(Err(BodyError::Cut)),
                Some(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        let trailers = ready!(self.stream.poll_trailers(cx));
        self.trailers = trailers.map_err(|_| BodyError::Cut)?;
        if let Some(Err(violation)) = self.trailers.as_ref().map(check_http2_trailers) {
            self.talk.tell(|told| told.violation = Some(violation));
            return Poll::Ready(Err(BodyError::Malformed(violation)));
        }
        self.whole = true;
        Poll::Ready(Ok(()))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.whole {
            if self.data_ended || self.left == Some(0) {
                if let Err(error) = ready!(self.poll_end(cx)) {
                    return Poll::Ready(Some(Err(error)));
                }
                break;
            }
            match ready!(self.poll_data(cx)) {
                None => self.data_ended = true,
                Some(Ok(data)) if self.left == Some(0) => self.last = Some(data),
                polled => return Poll::Ready(polled.map(|data| data.map(Frame::data))),
            }
        }
        let last = self.last.take().map(Frame::data);
        let next = last.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(next.map(Ok))
    }

    /// Waits until a body that was announced as empty is, for a request without one is whole with
    /// its head. Whether it came to that.
    pub(super) async fn is_empty_as_announced(&mut self) -> bool {
        if self.left != Some(0) {
            return true;
        }
        let end = poll_fn(|cx| {
            let polled = self.poll_end(cx);
            if polled.is_pending() {
                self.ask();
            }
            polled
        });
        end.await.is_ok()
    }

    fn ask(&self) {
        if !self.talk.told().asked {
            self.talk.tell(|told| told.asked = true);
        }
    }

    /// Asks the caller for what does not come, and gives up on what stalls behind its answer.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.ask();
        loop {
            ready!(poll_alarm(&mut self.waiting, (), self.idle, cx));
            self.waiting = None;
            if self.talk.told().over {
                return Poll::Ready(());
            }
        }
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let body = &mut *self;
        if body.ended {
            return Poll::Ready(None);
        }
        let mut polled = body.poll_next(cx);
        if polled.is_pending() {
            ready!(body.wait(cx));
            polled = Poll::Ready(Some(Err(BodyError::Cut)));
        }
        body.waiting = None;
        body.ended = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        let kept = self.last.is_some() || self.trailers.is_some();
        self.ended || (!kept && self.stream.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let kept = self.last.as_ref().map_or(0, Bytes::len) as u64;
        let left = self.left.map(|left| left + kept);
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for StreamBody {
    /// No byte of it (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamBody")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
