//! The waiting for an answer's head, and what ends it.
//!
//! Decides which limit runs, and what is no answer although it is one in form.

use std::task::{Context, Poll};

use http::header::TRANSFER_ENCODING;
use http::{Response, StatusCode};

use super::connection::MAX_RESPONSE_FIELDS;
use super::counted::Evidence;
use super::judgement::Short;
use super::limits::Limits;
use super::stream::Ended;
use crate::clock::{self, Timer};

/// Informational (1xx) responses before an answer, at most. A 100 and a few 103 are usual; a peer
/// that sends more is not about to answer.
pub const MAX_INFORMATIONAL: u32 = 64;

/// Why the waiting stopped.
pub(super) enum Stop<T> {
    Answer(Response<T>),
    Short(Short),
}

/// Why an answer cannot be taken as one, if so.
fn unusable<T>(head: &Response<T>) -> Option<&'static str> {
    if head.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Some("it switched protocols without being asked; turn that off there");
    }
    if head.headers().len() > MAX_RESPONSE_FIELDS {
        return Some("its head had more fields than are taken; let it send fewer");
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

/// One waiting.
pub(super) struct Wait<'a> {
    limits: Limits,
    timer: Timer,
    evidence: &'a Evidence,
    offered: bool,
}

impl<'a> Wait<'a> {
    pub(super) fn new(limits: Limits, evidence: &'a Evidence) -> Wait<'a> {
        Wait {
            timer: Timer::at(limits.next().0),
            limits,
            evidence,
            offered: false,
        }
    }

    /// No time is left to begin: a deadline that is spent keeps the first byte back.
    pub(super) fn too_late(&self) -> Option<Short> {
        let (ends, limit) = self.limits.next();
        (ends <= clock::mono_now()).then_some(Short::Limit(limit))
    }

    /// `look` moves the request on and looks for the head of its answer.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        look: impl FnOnce(&mut Context<'_>) -> Poll<Result<Response<T>, Ended>>,
    ) -> Poll<Stop<T>> {
        if !std::mem::replace(&mut self.offered, true)
            && let Some(late) = self.too_late()
        {
            return Poll::Ready(Stop::Short(late));
        }
        match look(cx) {
            Poll::Ready(Ok(head)) => {
                return Poll::Ready(match unusable(&head) {
                    Some(why) => Stop::Short(Short::NoAnswer(why)),
                    None => Stop::Answer(head),
                });
            }
            Poll::Ready(Err(ended)) => return Poll::Ready(Stop::Short(Short::Ended(ended))),
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
