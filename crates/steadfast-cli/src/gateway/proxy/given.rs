//! What the caller of a request is given at its end: an answer, or a problem in its place.

use http::header::TRAILER;
use http::{HeaderMap, HeaderValue, Response};
use steadfast::body::Body;
use steadfast::event::{Event, RequestOutcome};
use steadfast::server::{problem, with_attempts};
use steadfast_core::attempt::{AttemptEnd, Failure};
use steadfast_core::effect::Effect;
use steadfast_core::fields::{strip_hop_of_answer, strip_ours_from_answer};
use steadfast_core::problem::Problem;
use steadfast_core::retry::{Decision, Next, Reason};
use steadfast_core::upstream::Refused;
use steadfast_core::{replay, trailers};

use super::course::{Course, Last};
use super::{Given, told};

impl Course {
    /// The attempt that is due may not go out.
    pub(super) fn refused(&mut self, by: Refused) -> Given {
        match (self.last.take(), by) {
            (Some(last), by) => {
                let decision = self.attempts.refused(&last.end, &last.signs, by);
                self.ends_with(last, decision)
            }
            (None, Refused::Open(by)) => self.told(&told::shut(by)),
            (None, Refused::Budget) => unreachable!("a first attempt costs nothing"),
        }
    }

    /// The attempt that is due is not worth starting.
    pub(super) fn out_of_time(&mut self) -> Given {
        match self.last.take() {
            Some(last) => {
                let (next, effect) = (Next::GiveUp, last.effect);
                let reason = Reason::Deadline;
                self.ends_with(
                    last,
                    Decision {
                        next,
                        effect,
                        reason,
                    },
                )
            }
            None => self.told(&told::too_late(Effect::None)),
        }
    }

    /// `last` was to be followed by another attempt, and is not.
    pub(super) fn ends_with(&mut self, last: Last, decision: Decision) -> Given {
        let (route, reason) = (self.upstream.route, decision.reason);
        let skipped = Event::NotRepeated { route, reason };
        self.upstream.observer.on(skipped);
        match (last.answer, last.end) {
            (Some(answer), end) if !answer.body().is_cut() => {
                self.passed_on(answer.map(Body::new), &end, decision)
            }
            (_, AttemptEnd::Failed(failure)) => {
                self.told(&told::failed(failure, decision, self.sent > 0))
            }
            (_, AttemptEnd::Answered(_)) => {
                self.told(&told::failed(Failure::Truncated, decision, true))
            }
        }
    }

    /// The upstream's own answer, less what is the hop's and what only steadfast says.
    pub(super) fn passed_on(
        &mut self,
        mut response: Response<Body>,
        end: &AttemptEnd,
        decision: Decision,
    ) -> Given {
        self.attempts.passed_on();
        let outcome = RequestOutcome::of_status(response.status());
        clean(response.headers_mut(), self.takes_trailers);
        if let Some(effect) = self.interpreted(end, decision) {
            let effect = HeaderValue::from_static(effect.as_str());
            response.headers_mut().insert(replay::EFFECT, effect);
        }
        (outcome, with_attempts(response, self.sent))
    }

    /// What the answer's caller could not see by itself (R11): what it leaves open or means behind
    /// an attempt that may have worked, or by its own word.
    pub(super) fn interpreted(&self, end: &AttemptEnd, decision: Decision) -> Option<Effect> {
        let says = matches!(end, AttemptEnd::Answered(answered) if answered.says_unknown);
        let ambiguous = self.attempts.ambiguous();
        match decision.effect {
            _ if self.parts.method.is_safe() => None,
            Effect::Unknown if ambiguous || says => Some(Effect::Unknown),
            effect if decision.reason == Reason::RepeatedDelete => Some(effect),
            _ => None,
        }
    }

    pub(super) fn told(&self, answer: &Problem) -> Given {
        let outcome = RequestOutcome::of_problem(answer.slug, answer.effect);
        let response = problem(answer);
        match self.sent {
            0 => (outcome, response),
            sent => (outcome, with_attempts(response, sent)),
        }
    }
}

/// Why an answer that is not repeated is not, where it could have been.
pub(super) fn skipped(decision: Decision) -> Option<Reason> {
    match decision.reason {
        Reason::Answered
        | Reason::Replayed
        | Reason::RepeatedDelete
        | Reason::RepeatedCondition => None,
        reason => Some(reason),
    }
}

/// Takes off what is the hop's and what only steadfast says. Trailers that are not announced are
/// not written.
fn clean(headers: &mut HeaderMap, takes_trailers: bool) {
    let lines = headers.get_all(TRAILER).iter().filter(|_| takes_trailers);
    let trailers = trailers::announced(lines, &[]);
    strip_hop_of_answer(headers);
    strip_ours_from_answer(headers);
    if let Some(names) = trailers {
        headers.insert(TRAILER, names);
    }
}
