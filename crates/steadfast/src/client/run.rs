//! The loop of one operation: share of the deadline, breaker, means to send, budget, attempt,
//! decision, wait, and again.
//!
//! Decides nothing: each step asks [`Attempts`]. Dropping the future lets everything go: the leave
//! of the upstream, the timer, the connection.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body::Body;
use steadfast_core::attempt::{AttemptEnd, Failure};
use steadfast_core::effect::Effect;
use steadfast_core::repeat::KeyUse;
use steadfast_core::replay;
use steadfast_core::retry::{Decision, Next, Reason, Signs};
use steadfast_core::retry_after::Advice;
use steadfast_core::time::MonoTime;
use steadfast_core::upstream::Refused;

use super::answer_body::{Ahead, AnswerBody, AnswerCut};
use super::ended::{Account, Ended};
use super::hop;
use super::request_body::AttemptBody;
use super::settings::{Prepared, Settings};
use super::story::{Story, Told};
use super::way::{Came, Fell, Way};
use crate::attempts::Attempts;
use crate::attempts::{Leave, SharedUpstream};
use crate::body::BoxError;
use crate::clock;

/// Bytes of an answer that is kept while its repeat waits, at most. An answer that asks to be
/// repeated is small; a larger one is not worth its connection.
const KEPT_WHILE_WAITING: usize = 16 * 1024;

/// A problem document larger than this is not one of ours.
const PROBLEM: usize = 16 * 1024;

/// One operation on its way.
pub(super) struct Run<'a, W: Way> {
    pub(super) settings: &'a Settings,
    pub(super) operation: &'a mut Prepared,
    way: W,
    attempts: Attempts,
    story: Story,
    last: Option<Last<W::Body>>,
}

/// How the last attempt ended.
struct Last<B: Body> {
    end: AttemptEnd,
    signs: Signs,
    answer: Option<Response<AnswerBody<B>>>,
    detail: Option<String>,
    own_fault: bool,
}

/// Why the attempt that was due was not made.
enum Withheld {
    /// By breaker or budget.
    Refused(Refused),
    /// There was no time for it.
    TooLate,
}

impl<'a, W: Way> Run<'a, W> {
    pub(super) fn new(
        settings: &'a Settings,
        operation: &'a mut Prepared,
        upstream: SharedUpstream,
        way: W,
    ) -> Self {
        let attempts = operation.attempts(settings, upstream);
        Run {
            settings,
            operation,
            way,
            attempts,
            story: Story::default(),
            last: None,
        }
    }

    /// The attempts of `story` stand before its own.
    pub(super) fn after(self, story: Story) -> Self {
        Run { story, ..self }
    }

    /// Runs it to its end.
    pub(super) async fn until_its_end(&mut self) -> Ended<AnswerBody<W::Body>> {
        loop {
            let began = clock::mono_now();
            let tried = self.attempt().await;
            match self.judge(began, tried) {
                ControlFlow::Continue(decision) => self.wait(decision).await,
                ControlFlow::Break(ended) => return ended,
            }
        }
    }

    /// What comes after an attempt: another one, after the decision's wait, or the end.
    fn judge(
        &mut self,
        began: MonoTime,
        tried: Result<Last<W::Body>, Withheld>,
    ) -> ControlFlow<Ended<AnswerBody<W::Body>>, Decision> {
        let last = match tried {
            Ok(last) => last,
            Err(Withheld::Refused(by)) => return ControlFlow::Break(self.refused(by)),
            Err(Withheld::TooLate) => return ControlFlow::Break(self.too_late()),
        };
        let decision = self.decide(&last);
        self.story.add(Told {
            number: self.attempts.number(),
            started: began.since(self.operation.began),
            took: clock::mono_now().since(began),
            end: last.end,
            decision,
        });
        self.last = Some(last);
        match decision.next {
            Next::Retry { .. } => ControlFlow::Continue(decision),
            _ => ControlFlow::Break(self.ends(decision, None)),
        }
    }

    async fn attempt(&mut self) -> Result<Last<W::Body>, Withheld> {
        let Some(limit) = self.attempts.share() else {
            return Err(Withheld::TooLate);
        };
        let mut leave = match self.attempts.admit() {
            Ok(leave) => leave,
            Err(shut) => return Err(Withheld::Refused(Refused::Open(shut))),
        };
        let ends = clock::mono_now().plus(limit);
        let ready = match self.way.ready(ends).await {
            Ok(ready) => ready,
            Err(seen) => return Ok(self.fell(leave, seen.into())),
        };
        if let Err(by) = leave.pay() {
            return Err(Withheld::Refused(by));
        }
        let Some(request) = self.request() else {
            // Only a stream that was read has nothing to lend, and nothing goes again after it.
            return Err(Withheld::TooLate);
        };
        let Came {
            answer,
            request_written,
        } = match self.way.send(ready, request, ends).await {
            Ok(came) => came,
            Err(fell) => return Ok(self.fell(leave, fell)),
        };
        let (idle, deadline) = (self.settings.policy.timeouts.idle, self.operation.deadline);
        let mut answer = answer.map(|body| AnswerBody::new(body, idle, deadline));
        let (ahead, problem) = match self.reads_ahead(&answer) {
            (Some(limit), problem) => look_into(&mut answer, limit, problem).await,
            (None, _) => (None, None),
        };
        Ok(match ahead {
            Some(Ahead::Cut(cut)) => self.was_cut(leave, &cut),
            _ => self.came(leave, answer, request_written, problem.as_deref()),
        })
    }

    /// The request of the attempt that is due.
    fn request(&mut self) -> Option<Request<AttemptBody>> {
        let head = &self.operation.head;
        let mut request = Request::new(self.operation.body.lend()?);
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.version_mut() = head.version;
        *request.headers_mut() = head.headers.clone();
        *request.extensions_mut() = head.extensions.clone();
        if self.settings.hop_fields {
            let policy = &self.settings.policy;
            let remaining = self.operation.deadline.remaining(clock::mono_now());
            let told = (policy.timeouts.attempt, remaining, policy.margin);
            let before = self.operation.carried.attempt() - 1;
            let number = before.saturating_add(self.attempts.number());
            hop::write(request.headers_mut(), told, number);
        }
        Some(request)
    }

    fn fell(&self, leave: Leave, Fell { seen, own_fault }: Fell) -> Last<W::Body> {
        let body = &self.operation.body;
        // "Not even touched" is not said of a body that was read.
        let failure = match seen.failure.never_sent() && body.is_gone() {
            true => Failure::NotWritten,
            false => seen.failure,
        };
        let end = AttemptEnd::Failed(failure);
        let own_fault = own_fault || body.has_failed();
        match own_fault {
            true => drop(leave),
            false => leave.ended(&end, seen.stale),
        }
        Last {
            end,
            signs: Signs {
                stale: seen.stale,
                ..Signs::NONE
            },
            answer: None,
            detail: seen.detail,
            own_fault,
        }
    }

    /// What the answer says.
    fn came(
        &self,
        leave: Leave,
        answer: Response<AnswerBody<W::Body>>,
        request_written: bool,
        problem: Option<&str>,
    ) -> Last<W::Body> {
        let (status, headers) = (answer.status(), answer.headers());
        let read = replay::read(status, headers, problem, request_written);
        let honoured = self.operation.key_use == KeyUse::Honoured;
        let signs = replay::signs(status, headers, problem, honoured, clock::wall_now());
        let end = AttemptEnd::Answered(read);
        leave.ended(&end, false);
        Last {
            end,
            signs,
            answer: Some(answer),
            detail: None,
            own_fault: false,
        }
    }

    /// The answer was to be read whole, and did not come whole.
    fn was_cut(&self, leave: Leave, cut: &AnswerCut) -> Last<W::Body> {
        let end = AttemptEnd::Failed(cut.failure());
        leave.ended(&end, false);
        Last {
            end,
            signs: Signs::NONE,
            answer: None,
            detail: Some(cut.to_string()),
            own_fault: false,
        }
    }

    /// How much of an answer's body is read before it is judged, if any; and whether that is for a
    /// problem about our key.
    fn reads_ahead(&self, answer: &Response<AnswerBody<W::Body>>) -> (Option<usize>, bool) {
        let keyed = self.operation.key_use != KeyUse::None;
        let conflict = answer.status() == StatusCode::CONFLICT;
        let problem = keyed && conflict && replay::is_problem(answer.headers());
        let whole = self.settings.whole_answers;
        match problem {
            true => (Some(whole.unwrap_or_default().max(PROBLEM)), true),
            false => (whole, false),
        }
    }

    fn decide(&self, last: &Last<W::Body>) -> Decision {
        let decision = self.attempts.decide(&last.end, &last.signs);
        match last.own_fault {
            true => Decision {
                next: match decision.next {
                    Next::Unknown => Next::Unknown,
                    _ => Next::GiveUp,
                },
                reason: Reason::CallerLeft,
                ..decision
            },
            false => decision,
        }
    }

    /// Waits. Meanwhile the answer that came is read, so that its connection is free for the
    /// repeat, and kept if it is small: it is the last one, should the repeat be kept back.
    async fn wait(&mut self, decision: Decision) {
        let waiting = self.attempts.wait(&decision);
        let answer = self.last.as_mut().and_then(|last| last.answer.as_mut());
        let Some(answer) = answer.filter(|answer| !answer.body().is_whole()) else {
            waiting.await;
            return;
        };
        let (mut waiting, mut reading) = (pin!(waiting), true);
        poll_fn(|cx| {
            if reading {
                reading = answer
                    .body_mut()
                    .poll_ahead(cx, KEPT_WHILE_WAITING)
                    .is_pending();
            }
            waiting.as_mut().poll(cx)
        })
        .await;
        // What has not come by now is not waited for; what is too long is let go.
        if !answer.body().is_whole()
            && let Some(last) = &mut self.last
        {
            last.answer = None;
        }
    }

    /// The attempt that was decided upon was kept back.
    fn refused(&mut self, by: Refused) -> Ended<AnswerBody<W::Body>> {
        let again = match by {
            Refused::Open(shut) => Some(shut.retry_after),
            Refused::Budget => None,
        };
        let decision = match &self.last {
            Some(last) => self.attempts.refused(&last.end, &last.signs, by),
            None => unsent(match by {
                Refused::Open(_) => Reason::CircuitOpen,
                Refused::Budget => Reason::Budget,
            }),
        };
        self.turned_out(decision);
        self.ends(decision, again)
    }

    fn too_late(&mut self) -> Ended<AnswerBody<W::Body>> {
        let decision = match &self.last {
            Some(last) => self.attempts.too_late(&last.end, &last.signs),
            None => unsent(Reason::Deadline),
        };
        self.turned_out(decision);
        self.ends(decision, None)
    }

    /// After the last attempt another was decided, and this came of it.
    fn turned_out(&mut self, decision: Decision) {
        if self.last.is_some() {
            self.story.decided(decision);
        }
    }

    fn ends(
        &mut self,
        decision: Decision,
        retry_after: Option<Duration>,
    ) -> Ended<AnswerBody<W::Body>> {
        let (answer, detail, told) = match self.last.take() {
            Some(last) => (last.answer, last.detail, last.signs.retry_after),
            None => (None, None, Advice::Absent),
        };
        let account = Account {
            effect: decision.effect,
            reason: decision.reason,
            key: self.operation.key.clone(),
            story: std::mem::take(&mut self.story),
            detail,
            retry_after: retry_after.or(told.wait()),
        };
        Ended::new(decision, answer, account)
    }
}

/// Reads ahead as far as is said; the type of the problem, where it is one.
async fn look_into<B>(
    answer: &mut Response<AnswerBody<B>>,
    limit: usize,
    problem: bool,
) -> (Option<Ahead>, Option<String>)
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    let ahead = poll_fn(|cx| answer.body_mut().poll_ahead(cx, limit)).await;
    let kind = match (problem, &ahead) {
        (true, Ahead::Whole) => problem_type(&answer.body().read()),
        _ => None,
    };
    (Some(ahead), kind)
}

/// Nothing was sent at all.
fn unsent(reason: Reason) -> Decision {
    Decision {
        next: Next::GiveUp,
        effect: Effect::None,
        reason,
    }
}

fn problem_type(body: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    value.get("type")?.as_str().map(str::to_owned)
}
