//! The front: accepts connections, frames what comes over them strictly, calls one service a
//! request, and ends everything in order. It speaks HTTP/1.1, and HTTP/2 where a connection begins
//! with its preface (prior knowledge, RFC 9113, 3.3).
//!
//! It knows nothing of routes or keys. What it promises a service:
//! - A request reaches it only when its head is framed without doubt (`framing`), with the caller's
//!   address as [`Peer`] among the extensions. A body that turns out malformed ends in
//!   [`BodyError::Malformed`]; the caller gets the refusal and the service's future is dropped.
//! - The caller's leaving shows as a drop: of the service's future while it has not answered, of
//!   the answer's body afterwards. A caller who leaves inside the request body shows as
//!   [`BodyError::Cut`] first. Closing only the sending side counts as leaving. It is not seen
//!   while a next request already waits on the connection. Work that must go on belongs on a task
//!   of its own.
//! - `100 Continue` is sent when the body is first polled, not before.
//! - An answer given before the body was read closes the connection behind it, after lingering; in
//!   HTTP/2 it ends its stream with NO_ERROR.
//! - An answer's body that ends in an error resets the connection; in HTTP/2 its stream.
//!
//! In HTTP/2 a stream is what a connection is in HTTP/1.1: a caller leaves by resetting it.

mod alarm;
mod body;
mod connection;
mod exchange;
mod gate;
mod http2;

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use steadfast::clock;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower::{Service, ServiceExt};

use super::framing::{HeadLimits, Violation};

pub use body::{BodyError, RequestBody};

/// How long no connection is accepted after the system refused one: long enough that a process
/// without descriptors does not spin, short enough that nobody notices.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The bounds of the front.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The size of a request's head.
    pub head: HeadLimits,
    /// From a head's first byte to its last.
    pub head_time: Duration,
    /// Without any request on a connection.
    pub idle: Duration,
    /// Without the caller taking a byte of an answer that waits for it.
    pub write_stall: Duration,
    /// Bytes read and dropped after an early refusal.
    pub linger_bytes: u64,
    /// How long they are read and dropped.
    pub linger_time: Duration,
    /// Connections at once; more wait in the system's queue. So many requests may be at work at
    /// once, too: HTTP/2's streams beyond it, of all connections together, are refused.
    pub connections: usize,
    /// From the stop to the cut of what still runs.
    pub drain: Duration,
    /// The bounds of HTTP/2; none where it is not spoken.
    pub http2: Option<Http2Limits>,
}

/// The bounds of HTTP/2 beyond those that it shares with HTTP/1.1.
#[derive(Clone, Copy, Debug)]
pub struct Http2Limits {
    /// Streams of one connection at once; more are refused unprocessed.
    pub streams: u32,
    /// Streams that a connection's caller may reset unanswered beyond those that were answered.
    pub resets: u32,
    /// Streams reset for what is malformed in them.
    pub malformed: usize,
    /// Bytes of one body that its caller may send before they are read.
    pub window: u32,
    /// Without a byte from the caller before it is asked for a sign of life.
    pub ping_every: Duration,
    /// How long the sign may take.
    pub ping_answer: Duration,
}

impl Default for Http2Limits {
    fn default() -> Self {
        Http2Limits {
            // RFC 9113, 6.5.2, recommends no smaller value; twice as many are as many again to
            // hold for one connection.
            streams: 100,
            // As Envoy has it: a caller who gives up that often asks for work to be thrown away.
            resets: 500,
            // Whoever sends so many does not correct itself.
            malformed: 100,
            // HTTP/2's own default: what keeps a link busy while the reader turns round.
            window: 65_535,
            // A caller who vanished holds its streams for less than a minute.
            ping_every: Duration::from_secs(30),
            ping_answer: Duration::from_secs(20),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head: HeadLimits::default(),
            // A head is a few segments; a caller who needs longer holds a connection on purpose.
            head_time: Duration::from_secs(30),
            // Longer than the 60 s that load balancers keep one, so that they close first.
            idle: Duration::from_secs(75),
            // As nginx's send_timeout is per write, and half of it: nothing comes from waiting.
            write_stall: Duration::from_secs(30),
            // Both as documented for callers: an upload that fits is read to the answer.
            linger_bytes: 8 * 1024 * 1024,
            linger_time: Duration::from_secs(2),
            // More than the 10,000 callers that may wait for keyed work, each on a connection.
            connections: 16_384,
            // The default lease of 30 s and a little: what holds one can still settle.
            drain: Duration::from_secs(35),
            http2: Some(Http2Limits::default()),
        }
    }
}

/// Where a request came from: the address of the connection's other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Makes the whole answer to a message that was refused. `Connection: close` is added to it.
pub type Refuse = Arc<dyn Fn(&Violation) -> Response<Bytes> + Send + Sync>;

/// What the front is made of.
#[derive(Clone)]
pub struct Front<S> {
    /// Called once a request.
    pub service: S,
    /// Called once for each refused message.
    pub refuse: Refuse,
    /// The bounds.
    pub limits: Limits,
}

/// A service that always has an answer. To cut a caller off, it answers with a body that fails.
/// Every tower service of this shape is one.
pub trait Handler: Clone + Send + Unpin + 'static {
    /// The answer's body.
    type Answer: AnswerStream;

    /// Answers one request; begins with the first poll.
    fn handle(
        self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<Self::Answer>> + Send + 'static;
}

impl<S, B> Handler for S
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Unpin
        + 'static,
    B: AnswerStream,
{
    type Answer = B;

    async fn handle(self, request: Request<RequestBody>) -> Response<B> {
        let Ok(response) = self.oneshot(request).await;
        response
    }
}

/// The body of a service's answer.
pub trait AnswerStream:
    Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

impl<B> AnswerStream for B where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static
{
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut because they were not over within the limit.
    pub cut: usize,
}

/// Serves `listener` until `stop` is ready, then drains: accepts no more, closes connections that
/// wait for a request, lets running requests end with `Connection: close`, and cuts what is left
/// after `limits.drain`.
pub async fn serve<S: Handler>(
    listener: TcpListener,
    front: Front<S>,
    stop: impl Future<Output = ()>,
) -> Drained {
    let (drain, draining) = watch::channel(false);
    let mut open = JoinSet::new();
    let limit = front.limits.drain;
    accept(&listener, front, &draining, &mut open, stop).await;
    drop(listener);
    let _ = drain.send(true);
    let ended = async { while open.join_next().await.is_some() {} };
    let _ = clock::within(limit, ended).await;
    let cut = open.len();
    open.shutdown().await;
    Drained { cut }
}

async fn accept<S: Handler>(
    listener: &TcpListener,
    front: Front<S>,
    draining: &watch::Receiver<bool>,
    open: &mut JoinSet<()>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let mut pausing = false;
    let streams = Arc::new(Semaphore::new(front.limits.connections));
    loop {
        let room = open.len() < front.limits.connections;
        let accepted = tokio::select! {
            biased;
            () = &mut stop => return,
            Some(ended) = open.join_next() => {
                if ended.is_err_and(|error| error.is_panic()) {
                    tracing::error!("a connection ended in a panic; report this as a bug");
                }
                continue;
            }
            accepted = listener.accept(), if room => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                pausing = false;
                open.spawn(connection::run(
                    stream,
                    peer,
                    front.clone(),
                    Arc::clone(&streams),
                    draining.clone(),
                ));
            }
            Err(error) if is_of_one_caller(&error) => {}
            Err(error) => {
                if !std::mem::replace(&mut pausing, true) {
                    tracing::warn!(
                        error = error.to_string(),
                        "accepts nothing for now; raise the open files limit"
                    );
                }
                tokio::select! {
                    () = &mut stop => return,
                    () = clock::sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
}

/// Whether a refused accept speaks of the connection alone, not of this process.
fn is_of_one_caller(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_one_caller_did_is_no_reason_to_pause() {
        // Linux: EMFILE, ENFILE, ENOBUFS, ENOMEM are the process's or the machine's.
        for (code, of_one_caller) in [
            (103, true), // ECONNABORTED
            (104, true), // ECONNRESET
            (4, true),   // EINTR
            (24, false),
            (23, false),
            (105, false),
            (12, false),
        ] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(is_of_one_caller(&error), of_one_caller, "{error}");
        }
    }
}
