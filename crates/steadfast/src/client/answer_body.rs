//! An answer's body: each chunk within the idle limit, the whole before the operation's deadline.
//!
//! The part that was read before the answer was decided upon comes first, then the rest. A body
//! that is cut says so, and by what; what came until then is not known to be the answer.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use steadfast_core::time::MonoTime;

use super::pool::BodyError;
use crate::body::{BoxError, Cut};
use crate::clock::{self, Timer};

/// Why an answer's body did not come whole.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnswerCut {
    /// No chunk came within the idle limit.
    Idle,
    /// The operation's deadline came first.
    Deadline,
    /// The service's body failed.
    Failed(BoxError),
}

impl AnswerCut {
    /// The evidence of the attempt. A deadline cuts the body, so it reads as one cut.
    pub fn failure(&self) -> Failure {
        match self {
            AnswerCut::Idle => Failure::Idle,
            AnswerCut::Deadline => Failure::Truncated,
            AnswerCut::Failed(error) => {
                let pools = error.downcast_ref::<BodyError>().map(|cut| cut.failure());
                let ours = || error.downcast_ref::<Cut>().map(|cut| cut.0);
                pools.or_else(ours).unwrap_or(Failure::Truncated)
            }
        }
    }
}

impl fmt::Display for AnswerCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AnswerCut::Idle => "the answer's body paused for longer than the idle limit",
            AnswerCut::Deadline => "the deadline came before the answer's body had ended",
            AnswerCut::Failed(_) => "the answer's body ended before its end",
        })
    }
}

impl Error for AnswerCut {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AnswerCut::Failed(error) => Some(&**error),
            AnswerCut::Idle | AnswerCut::Deadline => None,
        }
    }
}

/// The body of an answer.
pub struct AnswerBody<B: Body> {
    /// Read already.
    kept: VecDeque<Frame<B::Data>>,
    /// Still to be read; gone once it ended, either way.
    rest: Option<B>,
    was_cut: bool,
    idle: Duration,
    deadline: Deadline,
    /// Since when a chunk is being waited for. Time in which nobody asked is not the service's.
    waiting_since: Option<MonoTime>,
    timer: Option<Timer>,
}

/// What reading ahead came to.
pub(super) enum Ahead {
    /// All of the body is kept.
    Whole,
    /// It is longer than what is kept of an answer; the rest is still to come.
    Longer,
    /// It was cut.
    Cut(AnswerCut),
}

impl<B> AnswerBody<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(body: B, idle: Duration, deadline: Deadline) -> AnswerBody<B> {
        AnswerBody {
            kept: VecDeque::new(),
            rest: Some(body),
            was_cut: false,
            idle,
            deadline,
            waiting_since: None,
            timer: None,
        }
    }

    /// Reads until the end, or until more than `limit` bytes are kept.
    pub(super) fn poll_ahead(&mut self, cx: &mut Context<'_>, limit: usize) -> Poll<Ahead> {
        loop {
            match ready!(self.poll_rest(cx)) {
                None => return Poll::Ready(Ahead::Whole),
                Some(Err(cut)) => return Poll::Ready(Ahead::Cut(cut)),
                Some(Ok(frame)) => {
                    // Most answers that are kept have one frame, and wait with many others.
                    self.kept.reserve_exact(1);
                    self.kept.push_back(frame);
                }
            }
            if self.kept_bytes() > limit as u64 {
                return Poll::Ready(Ahead::Longer);
            }
        }
    }

    fn kept_bytes(&self) -> u64 {
        let data = self.kept.iter().filter_map(|frame| frame.data_ref());
        data.map(|data| data.remaining() as u64).sum()
    }

    /// The bytes of what was read ahead.
    pub(super) fn read(&self) -> Vec<u8> {
        let data = self.kept.iter().filter_map(|frame| frame.data_ref());
        // Frames of several pieces have their first one read: these are our own small problems.
        data.flat_map(|data| data.chunk().iter().copied()).collect()
    }

    /// All of it is in hand.
    pub(super) fn is_whole(&self) -> bool {
        !self.was_cut && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn poll_rest(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, AnswerCut>>> {
        let Some(rest) = &mut self.rest else {
            return Poll::Ready(None);
        };
        if self.deadline.is_spent(clock::mono_now()) {
            return self.cut(AnswerCut::Deadline);
        }
        match Pin::new(rest).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.waiting_since = None;
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => self.cut(AnswerCut::Failed(error.into())),
            Poll::Ready(None) => {
                self.rest = None;
                self.timer = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let since = *self.waiting_since.get_or_insert_with(clock::mono_now);
                let (idle_ends, ends) = (since.plus(self.idle), self.deadline.ends());
                let first = idle_ends.min(ends);
                let timer = self.timer.get_or_insert_with(|| Timer::at(first));
                timer.set(first);
                match timer.poll_rung(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) if ends <= idle_ends => self.cut(AnswerCut::Deadline),
                    Poll::Ready(()) => self.cut(AnswerCut::Idle),
                }
            }
        }
    }

    /// Drops the service's body at once: what carries it is let go.
    fn cut(&mut self, cut: AnswerCut) -> Poll<Option<Result<Frame<B::Data>, AnswerCut>>> {
        self.rest = None;
        self.timer = None;
        self.was_cut = true;
        Poll::Ready(Some(Err(cut)))
    }
}

impl<B> Body for AnswerBody<B>
where
    B: Body + Unpin,
    B::Data: Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = AnswerCut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, AnswerCut>>> {
        let this = self.get_mut();
        match this.kept.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => this.poll_rest(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        let ended = self.rest.as_ref().is_none_or(Body::is_end_stream);
        self.kept.is_empty() && ended
    }

    fn size_hint(&self) -> SizeHint {
        let kept = self.kept_bytes();
        let rest = match &self.rest {
            Some(rest) => rest.size_hint(),
            None => SizeHint::with_exact(0),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(kept));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(kept));
        }
        hint
    }
}

impl<B: Body> fmt::Debug for AnswerBody<B> {
    /// Whether some of it is kept: no byte of a body is ever printed (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody")
            .field("kept_frames", &self.kept.len())
            .finish_non_exhaustive()
    }
}

impl<B> AnswerBody<B>
where
    B: Body + Unpin,
    B::Data: Unpin,
    B::Error: Into<BoxError>,
{
    /// Reads it to its end.
    ///
    /// # Errors
    /// [`AnswerCut`]: what came until then is not known to be the answer.
    pub async fn bytes(self) -> Result<bytes::Bytes, AnswerCut> {
        self.collect().await.map(|whole| whole.to_bytes())
    }
}
