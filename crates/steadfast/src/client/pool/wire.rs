//! What hyper reads and writes: the socket itself, or TLS over it.
//!
//! Decides when a request under TLS is written whole, and keeps what TLS said of a side's identity
//! after the handshake: a TLS 1.3 peer judges our certificate only when we are done with ours.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::counted::{Counted, Evidence};
use crate::client::tls::refuses_identity;

/// Bytes of plain text that are read at once: a whole TLS record (RFC 8446, 5.1).
const READ_BYTES: usize = 16 * 1024;

/// A connection's bytes.
pub(super) enum Wire {
    Plain(Counted),
    Tls(Box<Secured>),
}

impl Wire {
    pub(super) fn plain(tcp: Arc<TcpStream>, evidence: Evidence) -> Wire {
        Wire::Plain(Counted::plain(tcp, evidence))
    }
}

/// TLS over a socket, its handshake done.
pub(super) struct Secured {
    stream: TlsStream<Counted>,
    evidence: Evidence,
    read: Box<[u8]>,
}

impl Secured {
    pub(super) fn new(stream: TlsStream<Counted>, evidence: Evidence) -> Secured {
        Secured {
            stream,
            evidence,
            read: Box::default(),
        }
    }

    pub(super) fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Bytes that the socket took.
    pub(super) fn bytes_written(&self) -> u64 {
        self.evidence.seen().bytes_written
    }

    /// Keeps what `error` says of a side's identity.
    fn noted(&self, error: io::Error) -> io::Error {
        if let Some(why) = identity_refused(&error) {
            self.evidence.seen().identity = Some(why);
        }
        error
    }
}

/// What TLS said, where it ended because a side is not who it should be.
pub(super) fn identity_refused(error: &io::Error) -> Option<String> {
    let told = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    refuses_identity(told).then(|| told.to_string())
}

impl AsyncRead for Secured {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = ready!(Pin::new(&mut this.stream).poll_read(cx, into));
        Poll::Ready(read.map_err(|error| this.noted(error)))
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(counted) => Read::poll_read(Pin::new(counted), cx, into),
            Wire::Tls(secured) => {
                let mut buffer = std::mem::take(&mut secured.read);
                if buffer.is_empty() {
                    buffer = vec![0; READ_BYTES].into_boxed_slice();
                }
                let room = into.remaining().min(READ_BYTES);
                let mut read = ReadBuf::new(&mut buffer[..room]);
                let ended = AsyncRead::poll_read(Pin::new(&mut **secured), cx, &mut read);
                into.put_slice(read.filled());
                secured.read = buffer;
                ended
            }
        }
    }
}

impl Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(counted) => Write::poll_write(Pin::new(counted), cx, bytes),
            Wire::Tls(secured) => AsyncWrite::poll_write(Pin::new(&mut **secured), cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(counted) => Write::poll_write_vectored(Pin::new(counted), cx, bytes),
            Wire::Tls(secured) => {
                AsyncWrite::poll_write_vectored(Pin::new(&mut **secured), cx, bytes)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(counted) => Write::poll_flush(Pin::new(counted), cx),
            Wire::Tls(secured) => {
                ready!(AsyncWrite::poll_flush(Pin::new(&mut **secured), cx))?;
                secured.evidence.seen().flushed();
                Poll::Ready(Ok(()))
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(counted) => Write::poll_shutdown(Pin::new(counted), cx),
            Wire::Tls(secured) => AsyncWrite::poll_shutdown(Pin::new(&mut **secured), cx),
        }
    }
}
