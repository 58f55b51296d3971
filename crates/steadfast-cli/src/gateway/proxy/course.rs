//! One request and its attempts, one after another.

use http::header::{IF_MATCH, IF_UNMODIFIED_SINCE};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use steadfast::body::Body;
use steadfast::client::pool::{NeverSent, RequestBody, Reuse, SendEnd, UpstreamBody};
use steadfast::client::{Asked, Attempts, Leave, Rules};
use steadfast::clock;
use steadfast::event::{Attempt, End, Leaving, Watched};
use steadfast_core::attempt::{AttemptEnd, Failure};
use steadfast_core::deadline::Deadline;
use steadfast_core::effect::Effect;
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::repeat::{BodyKind, KeyUse};
use steadfast_core::replay;
use steadfast_core::retry::{Decision, Next, Reason, Signs};
use steadfast_core::upstream::Refused;

use super::held::Held;
use super::staying::Stage;
use super::tape::Tape;
use super::{Given, given, told};
use crate::gateway::upstream::{Upstream, saying_how_cut};

/// One request and its attempts.
pub(super) struct Course {
    pub(super) upstream: Upstream,
    pub(super) parts: Parts,
    tape: Option<Tape>,
    pub(super) attempts: Attempts,
    pub(super) takes_trailers: bool,
    pub(super) stage: Stage,
    reuse: Reuse,
    /// Attempts of which something was sent.
    pub(super) sent: u32,
    /// The end after which the attempt that is due was decided.
    pub(super) last: Option<Last>,
}

/// The end of an attempt after which another was decided.
pub(super) struct Last {
    pub(super) end: AttemptEnd,
    pub(super) signs: Signs,
    pub(super) effect: Effect,
    pub(super) answer: Option<Response<Held>>,
}

/// What follows an attempt.
enum Step {
    Done(Given),
    Again(Decision),
}

impl Course {
    pub(super) fn new(
        upstream: Upstream,
        request: Request<Body>,
        deadline: Deadline,
        takes_trailers: bool,
    ) -> Course {
        let (parts, body) = request.into_parts();
        let policy = &upstream.policy;
        let asked = Asked {
            method: parts.method.clone(),
            key: KeyUse::None,
            body: BodyKind::Whole,
            conditional: [IF_MATCH, IF_UNMODIFIED_SINCE]
                .iter()
                .any(|name| parts.headers.contains_key(name)),
        };
        let shared = upstream.shared.clone();
        let mut attempts = Attempts::new(Rules::of(policy), asked, deadline, shared);
        if policy.honor_attempts && upstream.incoming_attempt >= 2 {
            attempts = attempts.only_unsent();
        }
        // A connection that turns out to be closed can be made good where the request goes again.
        let again = parts.method.is_safe() && policy.retry.max_attempts.get() > 1;
        Course {
            reuse: if again { Reuse::Safe } else { Reuse::Unsafe },
            tape: Tape::of(body, policy.body_limit),
            upstream,
            parts,
            attempts,
            takes_trailers,
            stage: Stage::default(),
            sent: 0,
            last: None,
        }
    }

    pub(super) async fn run(mut self) -> Given {
        loop {
            let decision = match self.attempt().await {
                Step::Done(given) => return given,
                Step::Again(decision) => decision,
            };
            self.attempts.wait(&decision).await;
            if let Some(answer) = self.last.as_mut().and_then(|last| last.answer.as_mut()) {
                answer.body_mut().read_on();
            }
        }
    }

    /// The attempt that is due.
    async fn attempt(&mut self) -> Step {
        if self.attempts.share().is_none() {
            return Step::Done(self.out_of_time());
        }
        let mut leave = match self.attempts.admit() {
            Ok(leave) => leave,
            Err(shut) => return Step::Done(self.refused(Refused::Open(shut))),
        };
        if let Some(last) = &mut self.last {
            last.answer.take_if(|answer| !answer.body().is_whole());
        }
        let upstream = &self.upstream;
        let (method, headers) = (&self.parts.method, &self.parts.headers);
        let attempt = Attempt::begin(&upstream.observer, upstream.route, method, headers);
        let mut leaving = Leaving::new(attempt.numbered(self.attempts.number()));
        let deadline = self.attempts.deadline();
        let ready = match upstream.acquire(self.reuse, deadline).await {
            Ok(ready) => ready,
            Err(NeverSent { failure, .. }) => return self.failed(leave, leaving, failure, false),
        };
        if let Err(refused) = leave.pay() {
            // It did not go out, so there is no attempt to tell of.
            drop(leaving.stays());
            return Step::Done(self.refused(refused));
        }
        let is_reused = ready.is_reused();
        let request = self.request();
        let effect = self.last.take().map_or(Effect::None, |last| last.effect);
        leaving.sending();
        self.stage.sending(true);
        let number = self.attempts.number();
        let end = self.upstream.send(ready, request, deadline, number).await;
        self.stage.sending(false);
        match end {
            SendEnd::Head {
                response,
                request_written,
            } => self.answered(leave, leaving, response, request_written),
            SendEnd::Failed { failure, .. } => self.failed(leave, leaving, failure, is_reused),
            SendEnd::CallerLeft { failure, detail } => {
                Step::Done(self.cut_short(leaving, (failure, detail), effect))
            }
        }
    }

    /// The request as the next attempt sends it.
    fn request(&self) -> Request<RequestBody> {
        let body = match &self.tape {
            Some(tape) => tape.play(),
            None => Empty::new().map_err(|never| match never {}).boxed_unsync(),
        };
        Request::from_parts(self.parts.clone(), body)
    }

    fn answered(
        &mut self,
        leave: Leave,
        leaving: Leaving,
        response: Response<UpstreamBody>,
        request_written: bool,
    ) -> Step {
        self.sent += 1;
        let (status, headers) = (response.status(), response.headers());
        let end = AttemptEnd::Answered(replay::read(status, headers, None, request_written));
        let signs = replay::signs(status, headers, None, false, clock::wall_now());
        leave.ended(&end, false);
        let decision = self.decide(&end, &signs);
        let attempt = leaving.stays();
        if let Next::Retry { .. } = decision.next {
            if let Some(mut attempt) = attempt {
                attempt.head_came();
                attempt.ended(End::Answered(status), decision.effect, None);
            }
            let answer = Held::of(response.map(|body| Body::new(saying_how_cut(body))));
            return self.again(end, signs, decision, Some(answer));
        }
        let skipped = given::skipped(decision);
        let response = response.map(|body| match attempt {
            Some(attempt) => {
                let mut attempt = attempt.not_repeated(skipped);
                attempt.head_came();
                let (body, effect) = (saying_how_cut(body), decision.effect);
                Body::new(Watched::new(body, attempt, status, effect))
            }
            None => Body::new(saying_how_cut(body)),
        });
        Step::Done(self.passed_on(response, &end, decision))
    }

    /// The attempt brought no answer.
    fn failed(
        &mut self,
        leave: Leave,
        leaving: Leaving,
        failure: Failure,
        is_reused: bool,
    ) -> Step {
        self.sent += u32::from(!failure.never_sent());
        let stale = is_reused && failure == Failure::NotWritten;
        let (end, signs) = (
            AttemptEnd::Failed(failure),
            Signs {
                stale,
                ..Signs::NONE
            },
        );
        leave.ended(&end, stale);
        if is_reused {
            // What else is at rest there may be closing, too.
            self.reuse = Reuse::Fresh;
        }
        let decision = self.decide(&end, &signs);
        let again = matches!(decision.next, Next::Retry { .. });
        let told = told::failed(failure, decision, self.sent > 0);
        if let Some(attempt) = leaving.stays() {
            let skipped = (!again).then_some(decision.reason);
            let effect = if again { decision.effect } else { told.effect };
            attempt.ended(End::Failed(failure), effect, skipped);
        }
        match again {
            true => self.again(end, signs, decision, None),
            false => Step::Done(self.told(&told)),
        }
    }

    /// The request's own body did not come whole; `earlier` is the effect of attempts before.
    fn cut_short(
        &mut self,
        leaving: Leaving,
        (failure, detail): (Failure, String),
        earlier: Effect,
    ) -> Given {
        let unsent = failure.never_sent() && earlier == Effect::None;
        let effect = match unsent || self.parts.method.is_safe() {
            true => Effect::None,
            false => Effect::Unknown,
        };
        if let Some(attempt) = leaving.stays() {
            attempt.ended(End::CallerLeft, effect, None);
        }
        self.told(&Problem::new(Slug::BadRequest, detail).with_effect(effect))
    }

    fn decide(&mut self, end: &AttemptEnd, signs: &Signs) -> Decision {
        if self.tape.as_ref().is_some_and(Tape::is_lost) {
            self.attempts.body_streams();
        }
        let decision = self.attempts.decide(end, signs);
        match decision.next {
            Next::Retry { .. } if self.stage.is_left() => {
                let (next, reason) = (Next::GiveUp, Reason::CallerLeft);
                Decision {
                    next,
                    reason,
                    ..decision
                }
            }
            _ => decision,
        }
    }

    fn again(
        &mut self,
        end: AttemptEnd,
        signs: Signs,
        decision: Decision,
        answer: Option<Response<Held>>,
    ) -> Step {
        let effect = decision.effect;
        self.last = Some(Last {
            end,
            signs,
            effect,
            answer,
        });
        Step::Again(decision)
    }
}
