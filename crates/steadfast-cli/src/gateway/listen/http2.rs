//! One connection of HTTP/2: opens its streams, and ends it in order.
//!
//! The parser of frames is the `h2` crate, which refuses what is malformed (RFC 9113, 8.1.1) and
//! floods of frames that cost more than they say. Here are its bounds, and a connection's two ends;
//! what lies between them is `driver`'s.

mod body;
mod driver;
mod io;
mod pipe;
mod stream;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use steadfast::clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};

use super::{Front, Handler};
use driver::{Driver, End};
use io::Io;

pub use body::StreamBody;

/// Bytes of one stream's answer that wait for the socket.
const SEND_BUFFER: usize = 64 * 1024;

/// What a field costs in HTTP/2's measure of a head beyond its bytes (RFC 9113, 6.5.2).
const FIELD_OVERHEAD: usize = 32;

/// Serves a connection until it is closed by either side or `draining` turns true. `held` is what
/// came of it already; `streams` are those that all connections may have open. Any stream of bytes
/// will do: a TLS session that chose `h2` as well as a socket.
pub(super) async fn run<T, S>(
    socket: T,
    held: BytesMut,
    peer: SocketAddr,
    (front, streams): (Front<S>, Arc<Semaphore>),
    mut draining: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send,
    S: Handler,
{
    let mut io = Io::new(socket, held, front.limits);
    match drive(&mut io, peer, (front, streams), &mut draining).await {
        Ok(()) => io.close().await,
        Err(End::Silent) => tracing::debug!("a connection gave no sign of life"),
        Err(End::Error(error)) => {
            tracing::debug!(%error, "a connection was cut");
            // What was said last, and why, is to be read; where writing failed, there is no way.
            if !error.is_io() {
                io.close().await;
            }
        }
    }
}

/// From the preface to the last frame.
async fn drive<T, S>(
    io: &mut Io<T>,
    peer: SocketAddr,
    (front, streams): (Front<S>, Arc<Semaphore>),
    draining: &mut watch::Receiver<bool>,
) -> Result<(), End>
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
    S: Handler,
{
    let heard = io.heard();
    let mut drain = pin!(draining.wait_for(|draining| *draining));
    let handshake = clock::within(front.limits.head_time, opening(&front).handshake(io));
    let opened = tokio::select! {
        biased;
        opened = handshake => opened,
        _ = drain.as_mut() => return Ok(()),
    };
    let connection = match opened {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Err(End::Error(error)),
        Err(clock::Elapsed) => return Err(End::Silent),
    };
    let mut driver = Driver::new(connection, heard, peer, (front, streams));
    poll_fn(|cx| driver.poll(drain.as_mut(), cx)).await
}

/// The parser with the bounds of this front.
fn opening<S>(front: &Front<S>) -> h2::server::Builder {
    let limits = front.limits;
    let http2 = limits.http2.unwrap_or_default();
    // The same head as in HTTP/1.1 has to fit; its exact size is judged when it is whole.
    let head = limits.head.bytes + limits.head.fields * FIELD_OVERHEAD;
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(http2.streams)
        .initial_window_size(http2.window)
        // Room for all streams, so that none whose reader is slow holds the others up.
        .initial_connection_window_size(http2.window.saturating_mul(http2.streams))
        .max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER)
        .max_local_error_reset_streams(Some(http2.malformed));
    builder
}
