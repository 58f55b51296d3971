//! What goes over a shared HTTP/2 connection, frame by frame, as evidence.
//!
//! The library that speaks HTTP/2 says when a stream failed, but neither how much of it had been
//! handed to a write nor which stream the peer names as the last that it may have processed. Both
//! decide whether a request may have executed, so the heads of the frames are read here as they
//! pass (RFC 9113, 4.1): those going out when a write took them, those coming in before the library
//! sees them. Nothing is changed on the way.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use steadfast_core::time::MonoTime;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::counted::Evidence;
use super::frames::{ACK, DATA, END_STREAM, Frame, GOAWAY, HEADERS, Part, SETTINGS, Scanner};
use super::wire::Secured;
use crate::clock;

/// What has passed on a connection.
#[derive(Debug, Default)]
pub(super) struct Passed {
    streams: HashMap<u32, Watching>,
    /// Streams whose last frame was taken, but perhaps not yet by the socket.
    ended: Vec<u32>,
    /// The last stream that the peer may have processed, once it has said so; of several the
    /// latest.
    pub(super) goaway: Option<u32>,
    /// The peer's first settings came: it speaks HTTP/2.
    pub(super) greeted: bool,
    /// Nothing more comes.
    pub(super) ended_at_all: bool,
    /// When the last bytes came.
    pub(super) heard: Option<MonoTime>,
    greeting_awaited: Option<Waker>,
}

#[derive(Debug)]
struct Watching {
    evidence: Evidence,
    waker: Option<Waker>,
}

/// [`Passed`], shared by the connection and its streams. Held for a moment only; no call into the
/// library is made under it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Arc<Mutex<Passed>>);

impl Ledger {
    pub(super) fn passed(&self) -> MutexGuard<'_, Passed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Passed {
    /// Keeps what passes of stream `id` in `evidence` from now on.
    pub(super) fn watch(&mut self, id: u32, evidence: Evidence) {
        let waker = None;
        self.streams.insert(id, Watching { evidence, waker });
    }

    pub(super) fn forget(&mut self, id: u32) {
        self.streams.remove(&id);
    }

    /// Whoever waits for `id` is woken when its last frame is written.
    pub(super) fn wake_when_written(&mut self, id: u32, waker: &Waker) {
        if let Some(watching) = self.streams.get_mut(&id) {
            watching.waker = Some(waker.clone());
        }
    }

    /// Ready once the peer has greeted, or never will.
    pub(super) fn poll_greeted(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.greeted || self.ended_at_all {
            return Poll::Ready(self.greeted);
        }
        self.greeting_awaited = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The connection has ended, whatever the reason.
    pub(super) fn end(&mut self) {
        self.ended_at_all = true;
        self.wake_greeted();
    }

    fn wake_greeted(&mut self) {
        if let Some(waker) = self.greeting_awaited.take() {
            waker.wake();
        }
    }

    fn went_out(&mut self, frame: &Frame) {
        let Some(watching) = self.streams.get_mut(&frame.stream) else {
            return;
        };
        match (frame.part, frame.kind) {
            (Part::Head, HEADERS | DATA) => {
                watching.evidence.seen().bytes_written += frame.bytes;
            }
            (Part::Whole, HEADERS | DATA) if frame.flags & END_STREAM != 0 => {
                self.ended.push(frame.stream);
            }
            _ => {}
        }
    }

    fn came_in(&mut self, frame: &Frame) {
        match (frame.part, frame.kind) {
            (Part::Whole, HEADERS | DATA) if frame.flags & END_STREAM != 0 => {
                if let Some(watching) = self.streams.get(&frame.stream) {
                    watching.evidence.seen().answer_ended = true;
                }
            }
            (Part::Whole, GOAWAY) => self.goaway = Some(frame.last_stream),
            (Part::Whole, SETTINGS) if frame.flags & ACK == 0 => {
                self.greeted = true;
                self.wake_greeted();
            }
            _ => {}
        }
    }

    /// All that was taken is written.
    fn flushed(&mut self) {
        for id in self.ended.drain(..) {
            if let Some(watching) = self.streams.get_mut(&id) {
                watching.evidence.seen().written_whole = true;
                if let Some(waker) = watching.waker.take() {
                    waker.wake();
                }
            }
        }
    }
}

/// A connection's bytes as the library reads and writes them.
pub(super) struct Framed {
    wire: Secured,
    ledger: Ledger,
    out: Scanner,
    into: Scanner,
}

impl Framed {
    pub(super) fn new(wire: Secured, ledger: Ledger) -> Framed {
        Framed {
            wire,
            ledger,
            out: Scanner::of_client(),
            into: Scanner::default(),
        }
    }

    /// Takes note of what one write of `bytes` did. A write that failed may have sent a part under
    /// TLS; then all of it counts as sent.
    fn note(
        &mut self,
        bytes: &[io::IoSlice<'_>],
        ended: &Poll<io::Result<usize>>,
        sent_before: u64,
    ) {
        let mut left = match ended {
            Poll::Pending => return,
            Poll::Ready(Ok(taken)) => *taken,
            Poll::Ready(Err(_)) if self.wire.bytes_written() == sent_before => return,
            Poll::Ready(Err(_)) => usize::MAX,
        };
        let mut passed = self.ledger.passed();
        for slice in bytes {
            let taken = left.min(slice.len());
            self.out
                .take(&slice[..taken], |frame| passed.went_out(frame));
            left -= taken;
        }
    }
}

impl Framed {
    /// A write failed: nothing more goes out, ever. What the peer said before is still read, so
    /// what is written from now on goes nowhere, and passes for nothing.
    fn is_mute(&self) -> bool {
        self.wire.evidence().seen().write_failed.is_some()
    }

    /// `ended`, or `instead` where it waits for a socket that takes nothing any more.
    fn or<T>(&self, ended: Poll<io::Result<T>>, instead: T) -> Poll<io::Result<T>> {
        match ended.is_pending() && self.is_mute() {
            true => Poll::Ready(Ok(instead)),
            false => ended,
        }
    }
}

impl AsyncRead for Framed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let read = ready!(Pin::new(&mut this.wire).poll_read(cx, into));
        let came = &into.filled()[before..];
        let mut passed = this.ledger.passed();
        if read.is_err() || came.is_empty() {
            passed.end();
        } else {
            passed.heard = Some(clock::mono_now());
            this.into.take(came, |frame| passed.came_in(frame));
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Framed {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let sent_before = this.wire.bytes_written();
        let ended = Pin::new(&mut this.wire).poll_write(cx, bytes);
        this.note(&[io::IoSlice::new(bytes)], &ended, sent_before);
        this.or(ended, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let sent_before = this.wire.bytes_written();
        let ended = Pin::new(&mut this.wire).poll_write_vectored(cx, bytes);
        this.note(bytes, &ended, sent_before);
        this.or(ended, bytes.iter().map(|slice| slice.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let ended = Pin::new(&mut this.wire).poll_flush(cx);
        if let Poll::Ready(Ok(())) = ended {
            this.ledger.passed().flushed();
        }
        this.or(ended, ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let ended = Pin::new(&mut this.wire).poll_shutdown(cx);
        this.or(ended, ())
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::tests::frame;
    use super::*;

    #[test]
    fn a_request_is_whole_when_its_last_frame_was_flushed() {
        let (mut passed, evidence) = (Passed::default(), Evidence::default());
        passed.watch(1, evidence.clone());
        let mut scanner = Scanner::default();
        let bytes = frame(HEADERS, END_STREAM, 1, b"head");
        scanner.take(&bytes[..12], |frame| passed.went_out(frame));
        assert_eq!(evidence.seen().bytes_written, 13, "its head went out");
        passed.flushed();
        assert!(!evidence.seen().written_whole);
        scanner.take(&bytes[12..], |frame| passed.went_out(frame));
        assert!(!evidence.seen().written_whole);
        passed.flushed();
        assert!(evidence.seen().written_whole);
    }
}
