//! One connection, from its first byte to its close. Its first bytes say which HTTP it speaks.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

use super::body::{AnswerBody, RequestBody};
use super::exchange::{Exchange, Turn};
use super::gate::Gate;
use super::{Front, Handler, Peer, Refuse, http2};
use crate::gateway::framing::MAX_FIELDS;

/// Serves one connection until it is closed by either side or `draining` turns true.
pub(super) async fn run<S: Handler>(
    stream: TcpStream,
    peer: SocketAddr,
    front: Front<S>,
    streams: Arc<Semaphore>,
    mut draining: watch::Receiver<bool>,
) {
    // An answer's last segment must not wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let limits = front.limits;
    let exchange = Arc::new(Exchange::default());
    let gate = Gate::new(stream, Arc::clone(&exchange), limits);
    let answering = Answering {
        service: front.service,
        refuse: front.refuse,
        peer,
        exchange,
    };
    let mut builder = http1::Builder::new();
    // The gate's limits of time begin with a head's first byte; hyper's begin before it.
    builder.header_read_timeout(None);
    if limits.head.fields > MAX_FIELDS {
        builder.max_headers(limits.head.fields);
    }
    let mut connection = builder.serve_connection(gate, answering);
    let later = draining.clone();
    let mut drain = pin!(draining.wait_for(|draining| *draining));
    let mut asked = false;
    let end = poll_fn(|cx| {
        // First what has come: a request that was sent before the drain is answered.
        let polled = connection.poll_without_shutdown(cx);
        if polled.is_pending() && !asked && drain.as_mut().poll(cx).is_ready() {
            asked = true;
            Pin::new(&mut connection).graceful_shutdown();
            return connection.poll_without_shutdown(cx);
        }
        polled
    })
    .await;
    let parts = connection.into_parts();
    let gate = parts.io;
    if gate.opened_http2() {
        let Answering {
            service, refuse, ..
        } = parts.service;
        let front = Front {
            service,
            refuse,
            limits,
        };
        let (stream, held) = gate.into_inner();
        // On the heap, since most connections are not HTTP/2's.
        return Box::pin(http2::run(stream, held, peer, (front, streams), later)).await;
    }
    match end {
        Ok(()) => gate.close().await,
        Err(error) => {
            tracing::debug!(%error, "a connection was cut");
            // A reset, so that a caller whose answer ends with the connection sees that it is cut.
            let _ = gate.get_ref().set_zero_linger();
        }
    }
}

/// The service as hyper calls it: the caller's own, unless the gate refused the message.
struct Answering<S> {
    service: S,
    refuse: Refuse,
    peer: SocketAddr,
    exchange: Arc<Exchange>,
}

impl<S: Handler> hyper::service::Service<Request<Incoming>> for Answering<S> {
    type Response = Response<AnswerBody<S::Answer>>;
    type Error = Infallible;
    type Future = Answered<S::Answer>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let has_body = !hyper::body::Body::is_end_stream(request.body());
        let turn = self.exchange.begin(has_body);
        let exchange = Arc::clone(&self.exchange);
        let mut request = request.map(|body| RequestBody::http1(body, exchange));
        request.extensions_mut().insert(Peer(self.peer));
        Answered {
            service: Box::pin(self.service.clone().handle(request)),
            turn: Some(turn),
            refuse: Arc::clone(&self.refuse),
        }
    }
}

/// Waits for the service's answer, and gives the refusal in its place as soon as there is one. The
/// service is first called by the first poll, so that a refused head never reaches it.
///
/// Written by hand: an `async fn` would hold the service's future twice over.
struct Answered<B> {
    service: Pin<Box<dyn Future<Output = Response<B>> + Send>>,
    /// Taken by the answer.
    turn: Option<Turn>,
    refuse: Refuse,
}

impl<B: Unpin> Future for Answered<B> {
    type Output = Result<Response<AnswerBody<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let refusal = this.turn.as_ref().and_then(Turn::refusal);
        let answered = match refusal {
            Some(violation) => Err(violation),
            None => Ok(ready!(this.service.as_mut().poll(cx))),
        };
        let turn = this.turn.take().expect("not polled behind its end");
        // hyper closes a connection whose request is not read; the caller is told before.
        let closes = answered.is_err() || turn.exchange().body_open();
        let mut response = match answered {
            Ok(response) => response.map(|body| AnswerBody::of_service(body, turn)),
            Err(violation) => {
                (this.refuse)(&violation).map(|body| AnswerBody::of_refusal(body, turn))
            }
        };
        if closes {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(Ok(response))
    }
}
