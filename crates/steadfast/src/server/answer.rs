//! The answer of an attempt, or that there is none: collected, kept, passed on, judged.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};
use steadfast_core::attempt::{AttemptEnd, Failure};
use steadfast_core::deadline::Deadline;
use steadfast_core::effect::{Effect, verdict};
use steadfast_core::record::{Answer, Ended};
use steadfast_core::replay;
use steadfast_core::retry::{Decision, Next, Reason, Signs};
use tokio::sync::mpsc;

use super::caller::{Given, Reply, Teller};
use super::execute::{Execute, Executed, Failed};
use super::reply;
use super::work::{Work, bounded};
use crate::attempts::Leave;
use crate::body::{Body, BoxError, Cut, failure_of};
use crate::clock;
use crate::event::{End, KeyedOutcome};

/// Chunks of a streamed answer on their way to the caller: enough to keep both sides busy, little
/// to hold.
const STREAM_CHUNKS: usize = 4;

struct Head {
    status: StatusCode,
    headers: HeaderMap,
    request_written: bool,
}

/// What one attempt came to: its end, and what there is to write down and to give of it.
pub(super) struct Came {
    pub(super) end: AttemptEnd,
    pub(super) signs: Signs,
    pub(super) ended: Ended,
    /// The whole answer, for the caller.
    answer: Option<(StatusCode, HeaderMap, Bytes)>,
    /// It failed on a connection that had been used before.
    pub(super) was_reused: bool,
    /// Its end has been told to whoever observes.
    pub(super) is_told: bool,
}

impl<E: Execute> Work<E> {
    /// No whole answer came.
    pub(super) fn failed(&self, failed: Failed, leave: Option<Leave>, stale: bool) -> Came {
        let end = AttemptEnd::Failed(failed.failure);
        if let Some(leave) = leave {
            leave.ended(&end, stale);
        }
        Came {
            end,
            signs: Signs {
                stale,
                ..Signs::NONE
            },
            ended: self.ended(&end, Answer::None, &failed.detail),
            answer: None,
            was_reused: stale,
            is_told: false,
        }
    }

    /// Nothing follows: the end is written down, and the caller given what is its to know.
    pub(super) async fn conclude(&mut self, mut came: Came, decision: Decision) {
        came.ended.later = Box::pin(self.later(&came, &decision)).await;
        if !came.is_told {
            let answered = matches!(came.end, AttemptEnd::Answered(_));
            self.tell_attempt(&came, (!answered).then_some(decision.reason));
        }
        if came.ended.later.is_some() {
            return Box::pin(self.settle_into_queue(&came.ended)).await;
        }
        let own = match came.answer {
            Some((status, headers, body)) => {
                let headers = replay::executing_headers(headers, unknown(&came.ended));
                let answer = reply::whole(status, headers, body);
                self.given(reply::with_attempts(answer, self.sent), &came.ended)
            }
            None => self.without_answer(&came, decision),
        };
        self.settle(&came.ended, Some(Reply::Answer(Box::new(own))))
            .await;
    }

    fn without_answer(&self, came: &Came, decision: Decision) -> Given {
        let id = self.held.hold.id;
        let problem = match decision.next {
            Next::GiveUp if decision.reason == Reason::Deadline => reply::too_late(),
            Next::GiveUp => reply::unreachable(Some(id)),
            // This request came to nothing; what an earlier one did is as unknown as before (U1).
            _ if came.ended.nothing_sent => reply::unknown(id, self.held.repeats()),
            _ => reply::unknown_now(id, self.held.repeats()),
        };
        let mut given = Given::problem(&problem).own();
        given.outcome = KeyedOutcome::of_attempt(came.ended.verdict.meaning);
        if self.sent > 0 {
            given.response = reply::with_attempts(given.response, self.sent);
        }
        given
    }

    /// Tells the attempt's end; `skipped` is why no other follows it.
    pub(super) fn tell_attempt(&self, came: &Came, skipped: Option<Reason>) {
        let told = match came.end {
            AttemptEnd::Answered(answered) => End::Answered(answered.status),
            AttemptEnd::Failed(failure) => End::Failed(failure),
        };
        self.attempt.ended(told, came.ended.verdict.effect, skipped);
    }

    /// An answer's head came. `None` where it was passed on as it came, and is settled.
    pub(super) async fn answered(
        &mut self,
        executed: Executed,
        leave: Leave,
        deadline: Deadline,
    ) -> Option<Came> {
        self.attempt.head_came();
        let (parts, mut body) = executed.response.into_parts();
        let head = Head {
            status: parts.status,
            headers: parts.headers,
            request_written: executed.request_written,
        };
        let limit = self.asked.policy.response_limit;
        let announced = body.size_hint().lower() > limit as u64;
        if announced || replay::is_stream(&head.headers) {
            Box::pin(self.stream(head, Bytes::new(), body, leave, deadline)).await;
            return None;
        }
        let mut collected = BytesMut::new();
        loop {
            match bounded(&self.server, deadline, pin!(next_chunk(&mut body))).await {
                Ok(Some(chunk)) => collected.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(failed) => return Some(self.failed(failed, Some(leave), false)),
            }
            if collected.len() > limit {
                let prefix = collected.freeze();
                Box::pin(self.stream(head, prefix, body, leave, deadline)).await;
                return None;
            }
        }
        Some(self.whole(head, collected.freeze(), leave))
    }

    /// A whole answer is in hand: it goes out once it is on record.
    fn whole(&self, head: Head, body: Bytes, leave: Leave) -> Came {
        let problem = problem_type(&head.headers, &body);
        let read = replay::read(
            head.status,
            &head.headers,
            problem.as_deref(),
            head.request_written,
        );
        let end = AttemptEnd::Answered(read);
        leave.ended(&end, false);
        let honoured = self.held.earlier().key_honoured;
        let now = clock::wall_now();
        let problem = problem.as_deref();
        let signs = replay::signs(head.status, &head.headers, problem, honoured, now);
        let kept = replay::kept(head.status, &head.headers, body.clone());
        Came {
            end,
            signs,
            ended: self.ended(&end, Answer::Stored(kept), ""),
            answer: Some((head.status, head.headers, body)),
            was_reused: false,
            is_told: false,
        }
    }

    /// An answer that is too large to keep, or has no end to wait for: its head goes out at once,
    /// and the record stays dispatched until the last byte.
    async fn stream(
        &mut self,
        head: Head,
        prefix: Bytes,
        mut body: Body,
        leave: Leave,
        deadline: Deadline,
    ) {
        let read = replay::read(head.status, &head.headers, None, head.request_written);
        let end = AttemptEnd::Answered(read);
        let mut ended = self.ended(&end, Answer::NotStored(head.status), "not stored");
        let told = End::Answered(head.status);
        let chunks = self.pass_on(head, &ended);
        let mut chunk = Some(prefix).filter(|prefix| !prefix.is_empty());
        loop {
            if let Some(data) = chunk.take() {
                // A caller that left does not stop the upstream's answer from reaching its end.
                let sent = {
                    let send = pin!(async { Ok(chunks.send(data).await) });
                    bounded(&self.server, deadline, send).await
                };
                if let Err(failed) = sent {
                    drop(chunks);
                    return self.cut(failed, leave).await;
                }
            }
            match bounded(&self.server, deadline, pin!(next_chunk(&mut body))).await {
                Ok(Some(data)) => chunk = Some(data),
                Ok(None) => break,
                Err(failed) => {
                    drop(chunks);
                    return self.cut(failed, leave).await;
                }
            }
        }
        drop(chunks);
        leave.ended(&end, false);
        self.attempt.ended(told, ended.verdict.effect, None);
        ended.later = Box::pin(self.run_again(None)).await;
        // The caller sees the end of the answer once it is on record.
        self.settle(&ended, None).await;
    }

    /// Gives the caller the head, and the way for the body.
    fn pass_on(&mut self, head: Head, ended: &Ended) -> mpsc::Sender<Bytes> {
        let (chunks, receiver) = mpsc::channel(STREAM_CHUNKS);
        let tail = Tail {
            whole: Arc::default(),
            _open: chunks.clone(),
        };
        let mut response = Response::new(streamed(receiver, Arc::clone(&tail.whole)));
        *response.status_mut() = head.status;
        *response.headers_mut() = replay::executing_headers(head.headers, unknown(ended));
        let response = reply::with_attempts(response, self.sent);
        let given = self.given(response, ended);
        self.teller.tell(Reply::Answer(Box::new(given)));
        self.teller = Teller::Body(tail);
        chunks
    }

    /// The answer was cut while it was passed on: so is the caller's connection, and the outcome is
    /// unknown.
    async fn cut(&mut self, failed: Failed, leave: Leave) {
        self.teller = Teller::Told;
        self.attempts.passed_on();
        let mut came = self.failed(failed, Some(leave), false);
        let decision = self.attempts.decide(&came.end, &came.signs);
        self.tell_attempt(&came, Some(decision.reason));
        came.ended.later = Box::pin(self.run_again(None)).await;
        self.settle(&came.ended, None).await;
    }

    /// The attempt's own answer, for its caller.
    fn given(&self, response: Response<Body>, ended: &Ended) -> Given {
        Given::answer(response, ended.verdict.meaning, Some(self.held.hold.id))
    }

    fn ended(&self, end: &AttemptEnd, answer: Answer, detail: &str) -> Ended {
        let rules = &self.asked.policy.idempotency;
        let verdict = verdict(end, &rules.statuses, self.held.earlier());
        let reason = match (end.slug(), detail) {
            (slug, "") => slug,
            (_, "shutdown") => "shutdown".to_owned(),
            (slug, detail) => format!("{slug}: {detail}"),
        };
        let nothing_sent = end.never_sent();
        Ended {
            verdict,
            answer,
            reason,
            nothing_sent,
            later: None,
        }
    }
}

/// The effect, where an answer has to say it.
fn unknown(ended: &Ended) -> Option<Effect> {
    Some(ended.verdict.effect).filter(|effect| *effect == Effect::Unknown)
}

/// The next chunk of data; `None` at the body's end. Trailers are read and dropped: a replay could
/// not give them.
async fn next_chunk(body: &mut Body) -> Result<Option<Bytes>, Failed> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => {
                // Behind a head, no evidence says that nothing was sent.
                let failure = Some(failure_of(&error)).filter(|failure| !failure.never_sent());
                return Err(Failed {
                    failure: failure.unwrap_or(Failure::Truncated),
                    detail: "in the answer's body".to_owned(),
                });
            }
        }
    }
}

/// The `type` of a problem body.
fn problem_type(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    if !replay::is_problem(headers) {
        return None;
    }
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    value.get("type")?.as_str().map(str::to_owned)
}

/// The end of a streamed body. Dropping it without a word cuts the body: a caller must never take a
/// part for the whole.
pub(super) struct Tail {
    whole: Arc<AtomicBool>,
    /// Keeps the body open until the end is on record.
    _open: mpsc::Sender<Bytes>,
}

impl Tail {
    /// All of the body was passed on.
    pub(super) fn whole(self) {
        self.whole.store(true, Ordering::Release);
    }
}

/// The chunks as a body, which ends well only where it was said to be whole.
fn streamed(receiver: mpsc::Receiver<Bytes>, whole: Arc<AtomicBool>) -> Body {
    let frames = futures_util::stream::unfold(Some((receiver, whole)), |state| async move {
        let (mut receiver, whole) = state?;
        match receiver.recv().await {
            Some(data) => Some((Ok(Frame::data(data)), Some((receiver, whole)))),
            None if whole.load(Ordering::Acquire) => None,
            None => {
                let cut: BoxError = Box::new(Cut(Failure::Truncated));
                Some((Err(cut), None))
            }
        }
    });
    Body::new(StreamBody::new(frames))
}
