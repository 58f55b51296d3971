//! The socket as hyper sees it, with the evidence of one request kept beside it.
//!
//! *Written* means that a write to the socket returned more than zero, counted from
//! [`Evidence::begin`] on, so that a handshake is no part of it. With TLS the count stands outside
//! of it, between TLS and the socket: what TLS has taken is not written yet.
//!
//! A write that fails after the first byte is not reported to hyper, which would give up at once:
//! the answer that made the peer stop reading (an early 413) may already stand in the receive
//! buffer. The failure is kept, writing stays pending, and reading finds either that answer or the
//! end.

use std::io::{self, Read as _};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::request::CallerLeft;

/// Bytes read from the socket at once. One buffer of this size is kept per connection; 16 KiB is
/// what one read of a loopback or a TLS record brings.
const READ_BYTES: usize = 16 * 1024;

/// What is known of the request that a connection is carrying.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Bytes that writes took.
    pub(super) bytes_written: u64,
    /// The request's body has given its last frame to hyper.
    pub(super) body_ended: bool,
    /// Everything was written, the body's end included.
    pub(super) written_whole: bool,
    /// A write failed after the first byte.
    pub(super) write_failed: Option<io::ErrorKind>,
    /// The request's own body failed.
    pub(super) caller_left: Option<CallerLeft>,
    /// Informational responses so far.
    pub(super) informational: u32,
    /// TLS ended because a side is not who it should be: what was said of it.
    pub(super) identity: Option<String>,
    /// The answer's last frame came (HTTP/2).
    pub(super) answer_ended: bool,
    /// The next read asks the socket itself, not the runtime, whose news of it may be older.
    pub(super) asks_socket: bool,
}

impl Seen {
    /// Everything that hyper gave was written.
    pub(super) fn flushed(&mut self) {
        self.written_whole = self.body_ended && self.bytes_written > 0;
    }
}

/// [`Seen`], shared by the socket, the request's body and whoever judges the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence(Arc<Mutex<Seen>>);

impl Evidence {
    /// A new request begins: nothing is known of it yet.
    pub(super) fn begin(&self) {
        *self.seen() = Seen::default();
    }

    /// What is known now. Held for a moment only; nothing is awaited under it.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A TCP stream whose writes are counted.
#[derive(Debug)]
pub(super) struct Counted {
    tcp: Arc<TcpStream>,
    evidence: Evidence,
    read: Box<[u8]>,
}

impl Counted {
    /// For hyper to read from.
    pub(super) fn plain(tcp: Arc<TcpStream>, evidence: Evidence) -> Counted {
        let read = vec![0; READ_BYTES].into_boxed_slice();
        Counted {
            tcp,
            evidence,
            read,
        }
    }

    /// For TLS to read from, which has a buffer of its own.
    pub(super) fn under_tls(tcp: Arc<TcpStream>, evidence: Evidence) -> Counted {
        Counted {
            tcp,
            evidence,
            read: Box::default(),
        }
    }

    /// One write, by `attempt`, which does not wait.
    fn poll_counted(
        &self,
        cx: &mut Context<'_>,
        attempt: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if self.evidence.seen().write_failed.is_some() {
            return Poll::Pending;
        }
        loop {
            let ended = match ready!(self.tcp.poll_write_ready(cx)) {
                Ok(()) => attempt(&self.tcp),
                Err(error) => Err(error),
            };
            let mut seen = self.evidence.seen();
            match ended {
                Ok(written) => {
                    seen.bytes_written += written as u64;
                    return Poll::Ready(Ok(written));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if seen.bytes_written == 0 => return Poll::Ready(Err(error)),
                Err(error) => {
                    seen.write_failed = Some(error.kind());
                    return Poll::Pending;
                }
            }
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.evidence.seen().asks_socket {
            let read = (&*SockRef::from(&*this.tcp)).read(into.initialize_unfilled());
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                ended => return Poll::Ready(ended.map(|read| into.advance(read))),
            }
        }
        loop {
            ready!(this.tcp.poll_read_ready(cx))?;
            match this.tcp.try_read(into.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                ended => return Poll::Ready(ended.map(|read| into.advance(read))),
            }
        }
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_counted(cx, |tcp| tcp.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_counted(cx, |tcp| tcp.try_write_vectored(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.evidence.seen().write_failed {
            Some(_) => Poll::Pending,
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.tcp).shutdown(Shutdown::Write))
    }
}

impl Read for Counted {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let room = into.remaining().min(READ_BYTES);
        loop {
            ready!(this.tcp.poll_read_ready(cx))?;
            match this.tcp.try_read(&mut this.read[..room]) {
                Ok(read) => {
                    into.put_slice(&this.read[..read]);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Write for Counted {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_counted(cx, |tcp| tcp.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_counted(cx, |tcp| tcp.try_write_vectored(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper flushes only once its own buffer is empty, so this is where a whole request is seen.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut seen = self.evidence.seen();
        if seen.write_failed.is_some() {
            return Poll::Pending;
        }
        seen.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.tcp).shutdown(Shutdown::Write))
    }
}
