//! The socket as hyper sees it: only bytes that the framer let pass, and an end where a limit of
//! time ends a connection.
//!
//! A refused head is replaced by a request of the gate's own, which the service above answers with
//! the refusal: so it is written in its turn, behind the answers of the messages before it. A
//! refused body ends in an error, and the service above answers in its handler's place.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use hyper::rt::{Read, ReadBufCursor, Write};
use steadfast::clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Limits;
use super::alarm::{Alarm, poll_alarm};
use super::exchange::Exchange;
use crate::gateway::framing::{Framer, HTTP2_PREFACE, Violation};

/// Bytes asked of the socket at once inside a body: what one TLS record or a few segments hold.
const BODY_READ: usize = 16 * 1024;

/// Bytes asked for between bodies: most heads are shorter, and every idle connection has as many.
const HEAD_READ: usize = 4 * 1024;

/// What hyper reads in the place of a refused head.
const IN_PLACE: &[u8] = b"GET / HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";

/// What reading waits for, with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    FirstByte,
    EndOfHead,
    Body,
}

/// A connection's bytes, framed. The adapter between tokio's and hyper's reading and writing.
pub(super) struct Gate<T> {
    io: T,
    framer: Framer,
    exchange: Arc<Exchange>,
    limits: Limits,
    /// Bytes that came and have not passed.
    held: BytesMut,
    /// Of these, how many may pass.
    passing: usize,
    /// What is left of `IN_PLACE` to give.
    in_place: &'static [u8],
    refused: bool,
    opened_http2: bool,
    read_ended: bool,
    write_blocked: bool,
    reading: Option<Alarm<Awaited>>,
    writing: Option<Alarm<()>>,
}

impl<T> Gate<T> {
    pub(super) fn new(io: T, exchange: Arc<Exchange>, limits: Limits) -> Gate<T> {
        Gate {
            io,
            framer: Framer::new(limits.head),
            exchange,
            limits,
            held: BytesMut::new(),
            passing: 0,
            in_place: &[],
            refused: false,
            opened_http2: false,
            read_ended: false,
            write_blocked: false,
            reading: None,
            writing: None,
        }
    }

    pub(super) fn get_ref(&self) -> &T {
        &self.io
    }

    /// Whether the connection turned out to be HTTP/2's: the reader above got an error then, and
    /// nothing else happened.
    pub(super) fn opened_http2(&self) -> bool {
        self.opened_http2
    }

    /// The socket, and what came and has not passed.
    pub(super) fn into_inner(self) -> (T, BytesMut) {
        (self.io, self.held)
    }

    /// Asks the framer about what is held.
    fn frame(&mut self) -> io::Result<()> {
        let in_body = self.framer.in_body();
        match self.framer.advance(&self.held) {
            Ok(bytes) => {
                self.passing = bytes;
                self.exchange.released(self.framer.heads());
                Ok(())
            }
            Err(Violation::Http2Preface) if self.begins_http2() => {
                self.opened_http2 = true;
                Err(io::ErrorKind::Unsupported.into())
            }
            Err(violation) => self.refuse(violation, in_body),
        }
    }

    /// Whether what is held opens the connection as HTTP/2's, and that is spoken here.
    fn begins_http2(&self) -> bool {
        let spoken = self.limits.http2.is_some() && self.framer.heads() == 0;
        spoken && self.held.starts_with(HTTP2_PREFACE)
    }

    fn refuse(&mut self, violation: Violation, in_body: bool) -> io::Result<()> {
        tracing::debug!(?violation, "refused the framing of a request");
        self.refused = true;
        self.reading = None;
        self.held = BytesMut::new();
        if in_body {
            self.exchange.refuse_body(violation);
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.exchange.refuse_head(violation);
        self.in_place = IN_PLACE;
        Ok(())
    }

    /// Which limit runs while nothing comes. None runs while a message is being worked on: that
    /// time is its handler's.
    fn awaited(&self, cx: &Context<'_>) -> Option<Awaited> {
        if self.exchange.busy(cx.waker()) || self.write_blocked {
            None
        } else if self.framer.in_body() {
            Some(Awaited::Body)
        } else if self.framer.between_messages() && self.held.is_empty() {
            Some(Awaited::FirstByte)
        } else {
            Some(Awaited::EndOfHead)
        }
    }

    /// Whether the limit of what is awaited has run out.
    fn poll_too_slow(&mut self, cx: &mut Context<'_>) -> Poll<Awaited> {
        let Some(awaited) = self.awaited(cx) else {
            self.reading = None;
            return Poll::Pending;
        };
        let limit = match awaited {
            Awaited::EndOfHead => self.limits.head_time,
            _ => self.limits.idle,
        };
        ready!(poll_alarm(&mut self.reading, awaited, limit, cx));
        Poll::Ready(awaited)
    }

    /// Notes how a write went; a caller that takes no byte for too long is cut.
    fn watch_write<R>(
        &mut self,
        written: Poll<io::Result<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        let was_blocked = std::mem::replace(&mut self.write_blocked, written.is_pending());
        if !self.write_blocked {
            self.writing = None;
            if was_blocked {
                // The limits of reading may run again, and nobody else looks at them.
                cx.waker().wake_by_ref();
            }
            return written;
        }
        let limit = self.limits.write_stall;
        ready!(poll_alarm(&mut self.writing, (), limit, cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> Gate<T> {
    /// Reads more into `held`. Ready with false at the end of what comes.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let in_body = self.framer.in_body();
        self.held
            .reserve(if in_body { BODY_READ } else { HEAD_READ });
        let read = pin!(self.io.read_buf(&mut self.held)).poll(cx);
        read.map_ok(|bytes| bytes > 0)
    }

    /// Whether the caller may still be sending what nobody will read.
    fn unread(&self) -> bool {
        let whole = self.framer.between_messages() && self.held.is_empty();
        !self.read_ended && (self.refused || !whole)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Gate<T> {
    /// Ends the connection so that the caller reads the last answer: says that nothing more comes,
    /// then reads and drops what the caller still sends, within the limits. Closing at once
    /// would make the system answer those bytes with a reset, which takes the answer away again.
    pub(super) async fn close(mut self) {
        if self.io.shutdown().await.is_ok() && self.unread() {
            let (time, mut left) = (self.limits.linger_time, self.limits.linger_bytes);
            let dropped = clock::within(time, async {
                let mut sink = vec![0; BODY_READ];
                while left > 0 {
                    match self.io.read(&mut sink).await {
                        Ok(0) | Err(_) => break,
                        Ok(bytes) => left = left.saturating_sub(bytes as u64),
                    }
                }
            });
            let _ = dropped.await;
        }
    }
}

impl<T: AsyncRead + Unpin> Read for Gate<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let gate = &mut *self;
        loop {
            if !gate.in_place.is_empty() {
                let bytes = gate.in_place.len().min(buf.remaining());
                let (now, later) = gate.in_place.split_at(bytes);
                buf.put_slice(now);
                gate.in_place = later;
                return Poll::Ready(Ok(()));
            }
            if gate.refused {
                // Not the end: hyper would take it for a caller who left, and answer nothing.
                return Poll::Pending;
            }
            if gate.passing > 0 {
                let bytes = gate.passing.min(buf.remaining());
                buf.put_slice(&gate.held[..bytes]);
                gate.held.advance(bytes);
                gate.passing -= bytes;
                return Poll::Ready(Ok(()));
            }
            gate.frame()?;
            if gate.passing > 0 || gate.refused {
                gate.reading = None;
                continue;
            }
            if gate.read_ended {
                return Poll::Ready(Ok(()));
            }
            match gate.poll_more(cx)? {
                Poll::Ready(more) => gate.read_ended = !more,
                Poll::Pending => match ready!(gate.poll_too_slow(cx)) {
                    Awaited::EndOfHead => gate.refuse(Violation::HeadTooSlow, false)?,
                    _ => gate.read_ended = true,
                },
            }
        }
    }
}

impl<T: AsyncWrite + Unpin> Write for Gate<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.watch_write(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.watch_write(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.watch_write(written, cx)
    }
}
