//! One request on one connection, once. There is no hidden retry.
//!
//! Decides which limit ends the waiting, and what the end proves. The evidence is read only when
//! the connection has been dropped, so "not written" is never said while bytes may still go out.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use http::header::TRANSFER_ENCODING;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use steadfast_core::time::MonoTime;
use steadfast_core::timeouts::Timeouts;

use super::body::UpstreamBody;
use super::connection::Link;
use super::counted::{Evidence, Seen};
use super::host::Slot;
use super::limits::{Limit, Limits};
use super::request::{self, RequestBody};
use crate::client::Target;
use crate::clock::{self, Timer};

/// Informational (1xx) responses before an answer, at most. A 100 and a few 103 are usual; a peer
/// that sends more is not about to answer.
pub const MAX_INFORMATIONAL: u32 = 64;

/// A connection in hand, nothing written. Dropped unused, it goes back to the pool.
#[derive(Debug)]
pub struct Ready {
    target: Target,
    /// Taken by sending.
    held: Option<Held>,
    began: MonoTime,
    is_reused: bool,
}

#[derive(Debug)]
struct Held {
    link: Link,
    slot: Slot,
    rested_since: MonoTime,
}

/// How one sending ended.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "moved once per request; a box would cost every answer an allocation"
)]
pub enum SendEnd {
    /// The head of a whole final answer; its body is still to be read.
    Head {
        /// The answer.
        response: Response<UpstreamBody>,
        /// The whole request had been written when the head came. Where not, the connection is not
        /// used again.
        request_written: bool,
    },
    /// No answer, and not by the request's own fault.
    Failed {
        /// What the evidence proves.
        failure: Failure,
        /// What was seen, for people.
        detail: String,
    },
    /// The request's own body failed, or the request cannot be sent as it is: the caller's fault.
    CallerLeft {
        /// [`Failure::NotWritten`] or, after the first byte, [`Failure::Write`].
        failure: Failure,
        /// What was seen, for people.
        detail: String,
    },
}

impl Ready {
    pub(super) fn new(
        target: Target,
        (link, rested_since): (Link, MonoTime),
        slot: Slot,
        began: MonoTime,
    ) -> Ready {
        let held = Held {
            link,
            slot,
            rested_since,
        };
        Ready {
            target,
            held: Some(held),
            began,
            is_reused: true,
        }
    }

    /// Its connection was made for this request.
    pub(super) fn on_a_new_one(self) -> Ready {
        // Not by `..self`: what is dropped unused is laid to rest.
        let mut ready = self;
        ready.is_reused = false;
        ready
    }

    /// Its connection has carried another request before.
    pub fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// Sends `request` once and waits for the head of its answer.
    ///
    /// Limits, each cut by `deadline`: `write` from here until the request is written in full, then
    /// `response` until the head; `attempt` from the asking for this connection until the head. The
    /// answer's body has `idle` between chunks, and `deadline`.
    ///
    /// A connection that has ended since it was taken is a [`Failure::NotWritten`].
    ///
    /// A malformed head is a [`Failure::Reset`]: something answered, so it may have acted. So are a
    /// 101 and a transfer coding other than chunked, which nobody asked for.
    ///
    /// Dropping the future closes the connection and frees its place in the pool.
    pub async fn send(
        mut self,
        request: Request<RequestBody>,
        timeouts: &Timeouts,
        deadline: Deadline,
    ) -> SendEnd {
        let held = self.held.take().expect("only sending takes it");
        let Held { mut link, slot, .. } = held;
        // Asked again: whoever decides between the taking and the sending may wait for a store.
        if !link.is_quiet() {
            return SendEnd::Failed {
                failure: Failure::NotWritten,
                detail: "the connection ended before the request (0 bytes written)".to_owned(),
            };
        }
        let evidence = link.evidence().clone();
        evidence.begin();
        let request = match request::prepare(request, &self.target, &evidence) {
            Ok(request) => request,
            Err(unsendable) => {
                slot.lay_down(link, held.rested_since);
                return SendEnd::CallerLeft {
                    failure: Failure::NotWritten,
                    detail: format!("the request was not sent: {unsendable}"),
                };
            }
        };
        let limits = Limits::new(self.began, timeouts, deadline);
        let stop = {
            let mut answer = pin!(link.offer(request));
            let mut wait = Wait::new(limits, &evidence);
            std::future::poll_fn(|cx| wait.poll(&mut link, answer.as_mut(), cx)).await
        };
        match stop {
            Stop::Answer(head) => {
                let request_written = evidence.seen().written_whole;
                let mut response = UpstreamBody::of(head, (link, slot), timeouts.idle, deadline);
                std::future::poll_fn(|cx| {
                    response.body_mut().settle_if_ended(cx);
                    Poll::Ready(())
                })
                .await;
                SendEnd::Head {
                    response,
                    request_written,
                }
            }
            Stop::Short(short) => {
                drop(link);
                judge(short, &evidence.seen())
            }
        }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.slot.lay_down(held.link, held.rested_since);
        }
    }
}

/// Why the waiting stopped.
enum Stop {
    Answer(Response<Incoming>),
    Short(Short),
}

/// Why it stopped without an answer.
enum Short {
    /// hyper gave up; its words are for people only.
    Ended(hyper::Error),
    /// The answer was no final one.
    NoAnswer(&'static str),
    CallerLeft,
    Limit(Limit),
}

/// Why an answer cannot be taken as one, if so.
fn unusable(head: &Response<Incoming>) -> Option<&'static str> {
    if head.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Some("it switched protocols without being asked; turn that off there");
    }
    // Another coding would be passed on without its name, since the field is for one hop only.
    let mut codings = head.headers().get_all(TRANSFER_ENCODING).iter();
    let plain = match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(one), None) => one.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    };
    (!plain).then_some("it used a transfer coding that nobody asked for; turn that off there")
}

/// The one door from what hyper and the socket said to what it proves.
fn judge(short: Short, seen: &Seen) -> SendEnd {
    let written = seen.bytes_written;
    let detail = match (&short, &seen.caller_left) {
        (Short::CallerLeft, Some(left)) => left.to_string(),
        (Short::CallerLeft, None) => "the request's body did not come whole".to_owned(),
        (Short::Ended(error), _) => format!("the connection ended without an answer: {error}"),
        (Short::NoAnswer(why), _) => (*why).to_owned(),
        (Short::Limit(limit), _) => format!("{} ended first", limit.as_str()),
    };
    let detail = format!("{detail} ({written} bytes written)");
    let failure = match short {
        _ if written == 0 => Failure::NotWritten,
        _ if seen.write_failed.is_some() => Failure::Write,
        Short::CallerLeft | Short::Limit(Limit::Write) => Failure::Write,
        Short::Limit(Limit::Response | Limit::Whole) => Failure::ReadTimeout,
        Short::Ended(_) | Short::NoAnswer(_) => Failure::Reset,
    };
    match short {
        Short::CallerLeft => SendEnd::CallerLeft { failure, detail },
        _ => SendEnd::Failed { failure, detail },
    }
}

struct Wait<'a> {
    limits: Limits,
    timer: Timer,
    evidence: &'a Evidence,
    offered: bool,
}

impl<'a> Wait<'a> {
    fn new(limits: Limits, evidence: &'a Evidence) -> Wait<'a> {
        Wait {
            timer: Timer::at(limits.next().0),
            limits,
            evidence,
            offered: false,
        }
    }

    fn poll<F>(&mut self, link: &mut Link, answer: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<Stop>
    where
        F: Future<Output = Result<Response<Incoming>, hyper::Error>>,
    {
        // Not begun once it is too late: a deadline that is spent keeps the first byte back.
        if !std::mem::replace(&mut self.offered, true) && self.limits.next().0 <= clock::mono_now()
        {
            return Poll::Ready(Stop::Short(Short::Limit(self.limits.next().1)));
        }
        link.drive(cx);
        match answer.poll(cx) {
            Poll::Ready(Ok(head)) => {
                return Poll::Ready(match unusable(&head) {
                    Some(why) => Stop::Short(Short::NoAnswer(why)),
                    None => Stop::Answer(head),
                });
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Stop::Short(Short::Ended(error))),
            Poll::Pending => {}
        }
        if let Some(short) = self.seen_enough() {
            return Poll::Ready(Stop::Short(short));
        }
        let (rings, limit) = self.limits.next();
        self.timer.set(rings);
        match self.timer.poll_rung(cx) {
            Poll::Ready(()) => Poll::Ready(Stop::Short(Short::Limit(limit))),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Takes note of the written request; what ends the waiting although hyper goes on.
    fn seen_enough(&mut self) -> Option<Short> {
        let seen = self.evidence.seen();
        if seen.written_whole {
            self.limits.now_written();
        }
        if seen.caller_left.is_some() {
            return Some(Short::CallerLeft);
        }
        let flooded = seen.informational > MAX_INFORMATIONAL;
        flooded.then_some(Short::NoAnswer(
            "it sent informational responses without end",
        ))
    }
}
