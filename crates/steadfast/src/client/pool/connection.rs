//! One HTTP/1.1 connection, driven by whoever holds it.
//!
//! No task of its own: a connection moves only while its request or its answer is polled. So
//! dropping either closes it at once, and once it is dropped its evidence cannot change any more.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::{fmt, io};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use socket2::SockRef;
use tokio::net::TcpStream;

use super::counted::Evidence;
use super::request::Watched;
use super::wire::Wire;

/// Bytes of a response's head, and of its trailers, at most. Common servers send 8 to 32 KiB at
/// most; more is no answer.
pub const MAX_RESPONSE_HEAD_BYTES: usize = 64 * 1024;

/// Fields of a response's head at most: hyper's own number. Naming another would put the fields of
/// every answer on the heap.
pub const MAX_RESPONSE_FIELDS: usize = 100;

/// Bytes that hyper buffers per connection and direction at most, so that many slow exchanges have
/// a bound. At least [`MAX_RESPONSE_HEAD_BYTES`], which must fit.
const MAX_BUFFER_BYTES: usize = 128 * 1024;

/// An open connection, at rest or carrying one request.
pub(super) struct Link {
    sender: SendRequest<Watched>,
    /// Gone once it has ended.
    connection: Option<Box<Connection<Wire, Watched>>>,
    tcp: Arc<TcpStream>,
    is_secured: bool,
    evidence: Evidence,
    address: SocketAddr,
}

impl Link {
    /// Speaks HTTP/1.1 on `tcp`. Writes nothing yet.
    pub(super) async fn plain(tcp: TcpStream, address: SocketAddr) -> Result<Link, hyper::Error> {
        let (tcp, evidence) = (Arc::new(tcp), Evidence::default());
        let wire = Wire::plain(Arc::clone(&tcp), evidence.clone());
        Link::over(wire, tcp, evidence, address).await
    }

    /// Speaks HTTP/1.1 on `wire`, which leads to `tcp`. Writes nothing yet.
    pub(super) async fn over(
        wire: Wire,
        tcp: Arc<TcpStream>,
        evidence: Evidence,
        address: SocketAddr,
    ) -> Result<Link, hyper::Error> {
        let is_secured = matches!(wire, Wire::Tls(_));
        let (sender, connection) = Builder::new()
            .max_header_size(MAX_RESPONSE_HEAD_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES)
            .handshake(wire)
            .await?;
        Ok(Link {
            sender,
            connection: Some(Box::new(connection)),
            tcp,
            is_secured,
            evidence,
            address,
        })
    }

    pub(super) fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Hands the request to hyper. It goes out when the link is driven.
    pub(super) fn offer(
        &mut self,
        request: Request<Watched>,
    ) -> impl Future<Output = Result<Response<Incoming>, hyper::Error>> + use<> {
        let offered = self.sender.try_send_request(request);
        async move { offered.await.map_err(|refused| refused.into_error()) }
    }

    /// Moves bytes both ways as far as the socket lets it.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(&mut **connection).poll(cx).is_ready()
        {
            // Why it ended is told to whoever waits for the answer or its body; an idle
            // connection's end is nobody's.
            self.connection = None;
        }
    }

    /// The last request went out whole, its answer came in whole, nothing is left, and both sides
    /// keep the connection.
    pub(super) fn may_carry_another(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready() && self.evidence.seen().written_whole
    }

    /// Nothing stands in the receive buffer: neither the peer's end nor bytes that nobody asked
    /// for. Asks the socket itself, not the runtime, whose news of it may be older.
    ///
    /// Under TLS a peer may speak of the connection alone (RFC 8446, 4.6), so that what came is
    /// read first.
    pub(super) fn is_quiet(&mut self) -> bool {
        if self.is_secured && !nothing_came(&self.tcp) {
            self.evidence.seen().asks_socket = true;
            self.drive(&mut Context::from_waker(Waker::noop()));
            self.evidence.seen().asks_socket = false;
        }
        self.connection.is_some() && !self.sender.is_closed() && nothing_came(&self.tcp)
    }
}

/// The socket has neither bytes to read nor its end.
pub(super) fn nothing_came(tcp: &TcpStream) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    let peeked = SockRef::from(tcp).peek(&mut byte);
    matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
