//! The socket as the HTTP/2 parser sees it: first the bytes that were read before anybody knew
//! whose they are, and an error where its other end takes nothing for too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use steadfast::clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::gateway::listen::Limits;
use crate::gateway::listen::alarm::{Alarm, poll_alarm};

/// Bytes read at once of what nobody will look at.
const SINK: usize = 16 * 1024;

/// Whether something came from a connection's other end since it was last asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(Arc<AtomicBool>);

impl Heard {
    /// Asks, and forgets.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// One connection's bytes.
pub(super) struct Io<T> {
    socket: T,
    before: BytesMut,
    limits: Limits,
    heard: Heard,
    ended: bool,
    writing: Option<Alarm<()>>,
}

impl<T> Io<T> {
    /// `before` is what was read of `socket` already.
    pub(super) fn new(socket: T, before: BytesMut, limits: Limits) -> Io<T> {
        Io {
            socket,
            before,
            limits,
            heard: Heard::default(),
            ended: false,
            writing: None,
        }
    }

    pub(super) fn heard(&self) -> Heard {
        self.heard.clone()
    }

    fn watch_write<R>(
        &mut self,
        written: Poll<io::Result<R>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        let limit = self.limits.write_stall;
        ready!(poll_alarm(&mut self.writing, (), limit, cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Io<T> {
    /// Ends the connection so that the caller reads what was written last: says that nothing more
    /// comes, then reads and drops what the caller still sends, within the limits.
    pub(super) async fn close(mut self) {
        if self.socket.shutdown().await.is_err() || self.ended {
            return;
        }
        let mut left = self.limits.linger_bytes;
        let dropped = clock::within(self.limits.linger_time, async {
            let mut sink = vec![0; SINK];
            while left > 0 {
                match self.socket.read(&mut sink).await {
                    Ok(0) | Err(_) => break,
                    Ok(bytes) => left = left.saturating_sub(bytes as u64),
                }
            }
        });
        let _ = dropped.await;
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.before.is_empty() {
            let bytes = self.before.len().min(buf.remaining());
            buf.put_slice(&self.before[..bytes]);
            self.before.advance(bytes);
            return Poll::Ready(Ok(()));
        }
        let had = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        if buf.filled().len() > had {
            self.heard.0.store(true, Ordering::Relaxed);
        } else {
            self.ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Io<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.watch_write(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.watch_write(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.watch_write(written, cx)
    }
}
