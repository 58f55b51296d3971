//! The limits of one sending, phase after phase.
//!
//! Decides which limit runs now. [`Timeouts`] says how long each is and what it runs between; none
//! reaches beyond the deadline (requirement T1).

use std::time::Duration;

use steadfast_core::deadline::Deadline;
use steadfast_core::time::MonoTime;
use steadfast_core::timeouts::Timeouts;

use crate::clock;

/// Which limit ended first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Write,
    Response,
    /// The attempt's or the deadline.
    Whole,
}

impl Limit {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Limit::Write => "the write limit",
            Limit::Response => "the response limit",
            Limit::Whole => "the attempt's limit or the deadline",
        }
    }
}

/// The instants at which a sending is given up.
pub(super) struct Limits {
    write_ends: MonoTime,
    response: Duration,
    /// Set once the request is written.
    response_ends: Option<MonoTime>,
    whole_ends: MonoTime,
}

impl Limits {
    pub(super) fn new(began: MonoTime, timeouts: &Timeouts, deadline: Deadline) -> Limits {
        Limits {
            write_ends: clock::mono_now().plus(timeouts.write),
            response: timeouts.response,
            response_ends: None,
            whole_ends: began.plus(timeouts.attempt).min(deadline.ends()),
        }
    }

    /// The request is written in full: from the first time on, the response limit runs.
    pub(super) fn now_written(&mut self) {
        let response = self.response;
        self.response_ends
            .get_or_insert_with(|| clock::mono_now().plus(response));
    }

    /// The first limit to come.
    pub(super) fn next(&self) -> (MonoTime, Limit) {
        let phase = match self.response_ends {
            Some(ends) => (ends, Limit::Response),
            None => (self.write_ends, Limit::Write),
        };
        match self.whole_ends <= phase.0 {
            true => (self.whole_ends, Limit::Whole),
            false => phase,
        }
    }
}
