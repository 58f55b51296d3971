//! One request on one connection, once. There is no hidden retry.
//!
//! Decides which limit ends the waiting, and what the end proves. The evidence is read only when
//! the connection has been dropped, so "not written" is never said while bytes may still go out.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use steadfast_core::time::MonoTime;
use steadfast_core::timeouts::Timeouts;

use super::body::UpstreamBody;
use super::connection::Link;
use super::counted::Evidence;
use super::host::Slot;
use super::judgement::{Short, ended_before, judge, unsent};
use super::limits::{Limit, Limits};
use super::request::{self, RequestBody};
use super::shared::Leave;
use super::stream::{Ended, Exchange};
use super::waiting::{Stop, Wait};
use crate::client::Target;

/// A connection in hand, nothing written. Dropped unused, it goes back to the pool.
#[derive(Debug)]
pub struct Ready {
    target: Target,
    /// Taken by sending.
    held: Option<Held>,
    began: MonoTime,
}

/// What may carry one request, and the right to it.
#[derive(Debug)]
pub(super) enum Held {
    /// A connection that carries a request at a time.
    Alone {
        link: Link,
        slot: Slot,
        rested_since: MonoTime,
        is_reused: bool,
    },
    /// Leave for a stream of a connection that many share.
    Shared(Leave),
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
    pub(super) fn new(target: Target, held: Held, began: MonoTime) -> Ready {
        Ready {
            target,
            held: Some(held),
            began,
        }
    }

    /// The connection has carried a request before. Its peer may be closing it just now, so a
    /// [`Failure::NotWritten`] on it says nothing of the peer's health: nothing was written, and a
    /// new connection may do.
    pub fn is_reused(&self) -> bool {
        match &self.held {
            Some(Held::Alone { is_reused, .. }) => *is_reused,
            Some(Held::Shared(leave)) => leave.is_reused(),
            None => false,
        }
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
        let asked = Asked {
            target: &self.target,
            limits: Limits::new(self.began, timeouts, deadline),
            idle: timeouts.idle,
            deadline,
        };
        match held {
            Held::Alone {
                link,
                slot,
                rested_since,
                is_reused,
            } => {
                let carried = (link, slot, rested_since);
                asked.send_alone(request, carried, is_reused).await
            }
            Held::Shared(leave) => asked.send_shared(request, leave).await,
        }
    }
}

/// What one sending is held to.
struct Asked<'a> {
    target: &'a Target,
    limits: Limits,
    idle: Duration,
    deadline: Deadline,
}

impl Asked<'_> {
    async fn send_alone(
        self,
        request: Request<RequestBody>,
        (mut link, slot, rested_since): (Link, Slot, MonoTime),
        is_reused: bool,
    ) -> SendEnd {
        // Asked again: whoever decides between the taking and the sending may wait for a store.
        if !link.is_quiet() {
            return ended_before(&link.evidence().seen(), is_reused);
        }
        let evidence = link.evidence().clone();
        evidence.begin();
        let request = match request::prepare(request, self.target, &evidence) {
            Ok(request) => request,
            Err(unsendable) => {
                slot.lay_down(link, rested_since);
                return unsent(unsendable);
            }
        };
        let stop = {
            let mut answer = pin!(link.offer(request));
            let mut wait = Wait::new(self.limits, &evidence);
            std::future::poll_fn(|cx| {
                wait.poll(cx, |cx| {
                    link.drive(cx);
                    let ended = |error: hyper::Error| Ended {
                        why: error.to_string(),
                        promised: None,
                    };
                    answer.as_mut().poll(cx).map_err(ended)
                })
            })
            .await
        };
        match stop {
            Stop::Answer(head) => {
                let request_written = evidence.seen().written_whole;
                let mut response = UpstreamBody::of(head, (link, slot), self.idle, self.deadline);
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
                judge(short, &evidence.seen(), true, is_reused)
            }
        }
    }

    async fn send_shared(self, request: Request<RequestBody>, leave: Leave) -> SendEnd {
        let evidence = Evidence::default();
        let request = match request::prepare_shared(request, self.target, &evidence) {
            Ok(request) => request,
            Err(unsendable) => return unsent(unsendable),
        };
        let mut wait = Wait::new(self.limits, &evidence);
        if let Some(late) = wait.too_late() {
            return judge(late, &evidence.seen(), true, true);
        }
        let Some(mut exchange) = Exchange::begin(leave, request, &evidence) else {
            return ended_before(&evidence.seen(), true);
        };
        let stop = std::future::poll_fn(|cx| wait.poll(cx, |cx| exchange.poll_head(cx))).await;
        match stop {
            Stop::Answer(head) => {
                let request_written = evidence.seen().written_whole;
                SendEnd::Head {
                    response: UpstreamBody::of_shared(
                        exchange.answered(head),
                        self.idle,
                        self.deadline,
                    ),
                    request_written,
                }
            }
            Stop::Short(short) => {
                let is_late = matches!(short, Short::Limit(Limit::Response | Limit::Whole));
                let is_final = exchange.give_up(is_late);
                judge(short, &evidence.seen(), is_final, true)
            }
        }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(Held::Alone {
            link,
            slot,
            rested_since,
            ..
        }) = self.held.take()
        {
            slot.lay_down(link, rested_since);
        }
    }
}
