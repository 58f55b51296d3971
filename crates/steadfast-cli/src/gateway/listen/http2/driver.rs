//! The time of a connection between its first frame and its last.
//!
//! Decides how long a connection may stand without a stream, how long a caller may show no sign of
//! life, how many streams it may give up, and how a connection is drained: the caller is told to
//! open no more streams, those that it opened end, then the connection does (RFC 9113, 6.8).

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use super::io::{Heard, Io};
use super::stream::{self, Ended};
use crate::gateway::listen::alarm::{Alarm, poll_alarm};
use crate::gateway::listen::{Front, Handler, Http2Limits};

/// Why a connection ended otherwise than in order.
#[derive(Debug)]
pub(super) enum End {
    /// The parser gave up, or the socket did.
    Error(h2::Error),
    /// The caller shows no sign of life.
    Silent,
}

/// What a connection without work waits for, with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// A stream.
    Stream,
    /// The end of a request's body that somebody still reads.
    Body,
    /// The last bytes of answers to be taken.
    Taken,
    /// The caller's own end, after it was told that this is over.
    Leaving,
}

/// What the caller's silence has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    Begins,
    Asked,
}

/// One connection at work.
pub(super) struct Driver<'a, T, S> {
    connection: Connection<&'a mut Io<T>, Bytes>,
    front: Front<S>,
    limits: Http2Limits,
    peer: SocketAddr,
    streams: JoinSet<Ended>,
    /// The room for streams of all connections.
    all: Arc<Semaphore>,
    /// Streams that their callers gave up, less those that were answered.
    given_up: u32,
    /// Held by everybody who reads a request's body.
    bodies: Arc<()>,
    leaving: bool,
    waiting: Option<Alarm<Awaited>>,
    heard: Heard,
    pings: Option<PingPong>,
    silence: Silence,
    listening: Option<Alarm<Silence>>,
}

impl<'a, T, S> Driver<'a, T, S>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Handler,
{
    pub(super) fn new(
        mut connection: Connection<&'a mut Io<T>, Bytes>,
        heard: Heard,
        peer: SocketAddr,
        (front, all): (Front<S>, Arc<Semaphore>),
    ) -> Driver<'a, T, S> {
        Driver {
            pings: connection.ping_pong(),
            connection,
            limits: front.limits.http2.unwrap_or_default(),
            front,
            peer,
            streams: JoinSet::new(),
            all,
            given_up: 0,
            bodies: Arc::default(),
            leaving: false,
            waiting: None,
            heard,
            silence: Silence::Begins,
            listening: None,
        }
    }

    /// Moves everything on; ready at the connection's end. `drain` is not polled once it was
    /// ready.
    pub(super) fn poll<D: Future>(
        &mut self,
        mut drain: Pin<&mut D>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), End>> {
        loop {
            while let Poll::Ready(Some(ended)) = self.streams.poll_join_next(cx) {
                self.count(ended);
            }
            match self.connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.open(request, respond);
                    continue;
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(End::Error(error))),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => {}
            }
            // First what has come: a request that was sent before the drain is answered.
            if !self.leaving && drain.as_mut().poll(cx).is_ready() {
                self.leave();
                continue;
            }
            if self.poll_silent(cx).is_ready() {
                return Poll::Ready(Err(End::Silent));
            }
            ready!(self.poll_over(cx));
        }
    }

    fn open(&mut self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let Ok(place) = Arc::clone(&self.all).try_acquire_owned() else {
            // Nothing of it was done, and it says so (RFC 9113, 8.7).
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        };
        let (front, held) = (self.front.clone(), Arc::clone(&self.bodies));
        let answered = stream::run(request, respond, front, self.peer, held);
        self.streams.spawn(async move {
            let _place = place;
            answered.await
        });
    }

    fn count(&mut self, ended: Result<Ended, JoinError>) {
        match ended {
            Ok(Ended::Answered) => self.given_up = self.given_up.saturating_sub(1),
            Ok(Ended::Left) => self.given_up += 1,
            Err(_) => tracing::error!("a stream ended in a panic; report this as a bug"),
        }
        if self.given_up > self.limits.resets {
            tracing::debug!("a caller gives up what it asks for again and again");
            self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    }

    /// Tells the caller to open no more streams; the connection ends with those that are open.
    fn leave(&mut self) {
        self.leaving = true;
        self.connection.graceful_shutdown();
    }

    /// What is awaited while no stream is worked on; that time is the service's.
    fn awaited(&self) -> Option<Awaited> {
        if !self.streams.is_empty() {
            None
        } else if Arc::strong_count(&self.bodies) > 1 {
            Some(Awaited::Body)
        } else if self.connection.has_streams() {
            Some(Awaited::Taken)
        } else if self.leaving {
            Some(Awaited::Leaving)
        } else {
            Some(Awaited::Stream)
        }
    }

    /// Ready when the limit of what is awaited has run out and something was done about it.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(awaited) = self.awaited() else {
            self.waiting = None;
            return Poll::Pending;
        };
        let limits = self.front.limits;
        let limit = match awaited {
            Awaited::Stream | Awaited::Body => limits.idle,
            Awaited::Taken => limits.write_stall,
            Awaited::Leaving => limits.linger_time,
        };
        ready!(poll_alarm(&mut self.waiting, awaited, limit, cx));
        self.waiting = None;
        match awaited {
            Awaited::Stream => self.leave(),
            // Who reads it has a limit of its own; this was only a look.
            Awaited::Body => {}
            Awaited::Taken | Awaited::Leaving => self.connection.abrupt_shutdown(Reason::NO_ERROR),
        }
        Poll::Ready(())
    }

    /// Ready when nothing came from the caller for the limit, and no answer to a ping either.
    fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.silence == Silence::Asked && self.heard.take() {
            self.silence = Silence::Begins;
        }
        loop {
            let limit = match self.silence {
                Silence::Begins => self.limits.ping_every,
                Silence::Asked => self.limits.ping_answer,
            };
            ready!(poll_alarm(&mut self.listening, self.silence, limit, cx));
            self.listening = None;
            self.silence = match (self.heard.take(), self.silence) {
                (true, _) => Silence::Begins,
                (false, Silence::Asked) => return Poll::Ready(()),
                (false, Silence::Begins) => {
                    self.ping(cx);
                    Silence::Asked
                }
            };
        }
    }

    fn ping(&mut self, cx: &mut Context<'_>) {
        if let Some(pings) = &mut self.pings {
            // An answer to an earlier one makes room for the next; any byte counts as a sign.
            let _ = pings.poll_pong(cx);
            let _ = pings.send_ping(Ping::opaque());
        }
    }
}
