//! The work itself, on a task that outlives its caller: prepare, mark, send, settle, answer.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};
use steadfast_core::attempt::{AttemptEnd, Failure};
use steadfast_core::deadline::Deadline;
use steadfast_core::effect::{Effect, verdict};
use steadfast_core::policy::OnStoreFailure;
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::record::{Answer, Ended, OperationId, Record, Start};
use steadfast_core::replay;
use steadfast_core::retry::{self, Decision, Facts, Reason};
use tokio::sync::{mpsc, oneshot};

use super::claim::{Claim, claim, put_back};
use super::execute::{Execute, Executed, Failed};
use super::hold::{End, Held, Mark};
use super::layer::KeyedOperation;
use super::{Asked, Server, reply, withdraw};
use crate::body::{Body, BoxError, Cut, failure_of};
use crate::clock;

/// What a work tells its caller.
pub(super) enum Reply {
    /// This is the answer.
    Answer(Box<Response<Body>>),
    /// Another is at work: its row.
    InFlight(Box<Record>),
}

impl Reply {
    pub(super) fn problem(problem: &Problem) -> Reply {
        Reply::Answer(Box::new(reply::problem(problem)))
    }
}

/// Where the caller's leaving and the work's beginning meet: exactly one of them is first.
#[derive(Default)]
pub(super) struct Gate {
    state: AtomicU8,
    id: OnceLock<OperationId>,
}

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const LEFT: u8 = 2;

impl Gate {
    /// The work is about to send; false when the caller's deadline came first.
    fn begin(&self, id: OperationId) -> bool {
        let _ = self.id.set(id);
        self.turn(BEGUN)
    }

    /// The caller's deadline has passed; the operation's id when the work has begun.
    pub(super) fn leave(&self) -> Option<OperationId> {
        if self.turn(LEFT) {
            None
        } else {
            self.id.get().copied()
        }
    }

    fn turn(&self, to: u8) -> bool {
        let turned = self
            .state
            .compare_exchange(OPEN, to, Ordering::AcqRel, Ordering::Acquire);
        turned.is_ok() || turned == Err(to)
    }
}

/// The caller's end of the work; says one thing, once.
struct Teller(Option<oneshot::Sender<Reply>>);

impl Teller {
    fn tell(&mut self, reply: Reply) {
        if let Some(sender) = self.0.take() {
            // A caller that left does not hear it; the record has it.
            let _ = sender.send(reply);
        }
    }
}

/// Claims, and works under the claim.
pub(super) async fn run<E: Execute>(
    server: Server,
    asked: Arc<Asked>,
    execute: E,
    gate: Arc<Gate>,
    answer: oneshot::Sender<Reply>,
) {
    let mut teller = Teller(Some(answer));
    let ready = execute.at_hand();
    let start = if ready.is_some() {
        Start::Dispatched
    } else {
        Start::Reserved
    };
    let (row, since) = match claim(&server, &asked, start).await {
        Claim::Own(row, since) => (*row, since),
        Claim::Meets(reply) => return teller.tell(reply),
        Claim::NoStore => {
            let reply = without_store(&asked, execute, ready).await;
            return teller.tell(reply);
        }
    };
    let held = Arc::new(Held::new(server.clone(), Arc::clone(&asked), row, since));
    let renewing = held.renewing();
    let work = Work {
        server,
        asked,
        held,
        execute,
        teller,
    };
    work.go(ready, &gate).await;
    drop(renewing);
}

/// A keyed request whose store gave no answer: refused, unless the operator chose otherwise (I12).
async fn without_store<E: Execute>(asked: &Asked, execute: E, ready: Option<E::Ready>) -> Reply {
    if asked.policy.idempotency.on_store_failure == OnStoreFailure::Refuse {
        return Reply::problem(&asked.store_unavailable());
    }
    let deadline = Deadline::after(clock::mono_now(), asked.policy.deadline);
    let ready = match ready {
        Some(ready) => ready,
        None => match execute.prepare(deadline.earlier(asked.deadline)).await {
            Ok(ready) => ready,
            Err(_) => return Reply::problem(&reply::unreachable(None)),
        },
    };
    tracing::warn!(operation = %asked.operation, "sent on unprotected: the store gave no answer");
    match execute
        .run(ready, request(asked, None, deadline), deadline)
        .await
    {
        Ok(executed) => {
            let (mut parts, body) = executed.response.into_parts();
            steadfast_core::fields::strip_hop_of_answer(&mut parts.headers);
            steadfast_core::fields::strip_ours_from_answer(&mut parts.headers);
            Reply::Answer(Box::new(Response::from_parts(parts, body)))
        }
        Err(failed) if failed.failure.never_sent() => Reply::problem(&reply::unreachable(None)),
        Err(_) => {
            let detail = "The request was sent unprotected, since the record store gave no answer, and no \
                          whole answer came. Look up at the service itself whether it happened.";
            let problem = Problem::new(Slug::OutcomeUnknown, detail);
            Reply::problem(&problem.with_status(StatusCode::GATEWAY_TIMEOUT))
        }
    }
}

/// The request as it goes out: the key in its one spelling, the fence, and no coding that a later
/// caller might not take.
fn request(asked: &Asked, fence: Option<u64>, deadline: Deadline) -> Request<Bytes> {
    let mut request = Request::from_parts(asked.parts.clone(), asked.body.clone());
    let rules = &asked.policy.idempotency;
    let headers = request.headers_mut();
    headers.insert(rules.header.clone(), asked.key.forward(rules.forward_as));
    headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    if let Some(fence) = fence {
        headers.insert(replay::FENCE, HeaderValue::from(fence));
    }
    let key = asked.key.clone();
    request.extensions_mut().insert(KeyedOperation {
        key,
        fence,
        deadline,
    });
    request
}

struct Work<E> {
    server: Server,
    asked: Arc<Asked>,
    held: Arc<Held>,
    execute: E,
    teller: Teller,
}

impl<E: Execute> Work<E> {
    async fn go(mut self, ready: Option<E::Ready>, gate: &Gate) {
        let Some(ready) = self.get_ready(ready).await else {
            return;
        };
        let id = self.held.hold.id;
        if !self.held.may_start() || *self.server.inner.stop.borrow() || !gate.begin(id) {
            self.give_back().await;
            return self.teller.tell(Reply::problem(&reply::too_late()));
        }
        let deadline = Deadline::after(clock::mono_now(), self.asked.policy.deadline);
        let fence = Some(self.held.hold.fence);
        let sent = request(&self.asked, fence, deadline);
        let run = self.execute.run(ready, sent, deadline);
        match self.bounded(deadline, run).await {
            Ok(executed) => self.answered(executed, deadline).await,
            Err(failed) => self.failed(failed).await,
        }
    }

    /// A way to the effect with the dispatch mark written; `None` when the work ends here.
    async fn get_ready(&mut self, ready: Option<E::Ready>) -> Option<E::Ready> {
        if ready.is_some() {
            return ready;
        }
        let made = self
            .bounded(
                self.asked.deadline,
                self.execute.prepare(self.asked.deadline),
            )
            .await;
        let ready = match made {
            Ok(ready) => ready,
            Err(Failed {
                failure: Failure::Abandoned | Failure::ReadTimeout,
                ..
            }) => {
                self.give_back().await;
                self.teller.tell(Reply::problem(&reply::too_late()));
                return None;
            }
            Err(failed) => {
                self.failed(failed).await;
                return None;
            }
        };
        match self.held.mark().await {
            Mark::Done => Some(ready),
            Mark::Lost => {
                // Whoever stands there now answers; nothing was sent from here.
                self.teller.tell(self.what_stands().await);
                None
            }
            Mark::NoStore => {
                let hold = self.held.hold;
                let lease = self.asked.policy.idempotency.lease;
                withdraw::begin(&self.server, self.asked.scope, hold.owner, lease);
                self.teller
                    .tell(Reply::problem(&self.asked.store_unavailable()));
                None
            }
        }
    }

    async fn what_stands(&self) -> Reply {
        match self.server.store().get(self.asked.scope).await {
            Ok(Some(row)) if row.is_held() => Reply::InFlight(Box::new(row)),
            Ok(Some(row)) => {
                let repeats = self.asked.may_repeat(row.standing.honours_key);
                Reply::Answer(Box::new(reply::settled(row.id, &row.standing, repeats)))
            }
            Ok(None) => Reply::problem(&reply::in_progress(self.held.hold.id)),
            Err(_) => Reply::problem(&self.asked.store_unavailable()),
        }
    }

    /// Nothing was sent: what stood before stands again.
    async fn give_back(&self) {
        let (scope, token) = (self.asked.scope, self.held.hold.owner);
        let row = self.server.store().get(scope).await;
        let done = match row {
            Ok(Some(row)) => put_back(&self.server, scope, &row, token).await,
            Ok(None) => Ok(true),
            Err(error) => Err(error),
        };
        if !matches!(done, Ok(true)) {
            withdraw::begin(
                &self.server,
                scope,
                token,
                self.asked.policy.idempotency.lease,
            );
        }
    }

    /// Runs `step` inside `deadline`, and no longer than the process may still work.
    async fn bounded<T>(
        &self,
        deadline: Deadline,
        step: impl Future<Output = Result<T, Failed>>,
    ) -> Result<T, Failed> {
        let mut stop = self.server.inner.stop.subscribe();
        let left = deadline.remaining(clock::mono_now()) + GRACE;
        tokio::select! {
            biased;
            ended = clock::within(left, step) => ended.unwrap_or_else(|_| Err(Failed {
                failure: Failure::ReadTimeout,
                detail: "the route's deadline passed".to_owned(),
            })),
            _ = stop.wait_for(|stop| *stop) => Err(Failed {
                failure: Failure::Abandoned,
                detail: "shutdown".to_owned(),
            }),
        }
    }

    /// No whole answer came.
    async fn failed(&mut self, failed: Failed) {
        let end = AttemptEnd::Failed(failed.failure);
        let ended = self.ended(&end, Answer::None, &failed.detail).await;
        let id = self.held.hold.id;
        let repeats = self.asked.may_repeat(false);
        let facts = Facts {
            method: &self.asked.parts.method,
            keyed: true,
        };
        let left = self.asked.deadline.remaining(clock::mono_now());
        let problem = match retry::on_end(&end, facts, left) {
            Decision::GiveUp {
                reason: Reason::Deadline,
                ..
            } => reply::too_late(),
            Decision::GiveUp { .. } => reply::unreachable(Some(id)),
            _ => reply::unknown_now(id, repeats),
        };
        self.settle(&ended, Reply::problem(&problem)).await;
    }

    /// An answer's head came.
    async fn answered(&mut self, executed: Executed, deadline: Deadline) {
        let (parts, mut body) = executed.response.into_parts();
        let limit = self.asked.policy.response_limit;
        let announced = body.size_hint().lower() > limit as u64;
        if announced || replay::is_stream(&parts.headers) {
            let head = Head {
                status: parts.status,
                headers: parts.headers,
            };
            return self
                .stream(head, Bytes::new(), body, executed.request_written, deadline)
                .await;
        }
        let mut collected = BytesMut::new();
        loop {
            let next = self.bounded(deadline, next_chunk(&mut body)).await;
            match next {
                Ok(Some(chunk)) => collected.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(failed) => return self.failed(failed).await,
            }
            if collected.len() > limit {
                let head = Head {
                    status: parts.status,
                    headers: parts.headers,
                };
                let (prefix, written) = (collected.freeze(), executed.request_written);
                return self.stream(head, prefix, body, written, deadline).await;
            }
        }
        let body = collected.freeze();
        let problem = problem_type(&parts.headers, &body);
        let written = executed.request_written;
        let read = replay::read(parts.status, &parts.headers, problem.as_deref(), written);
        let end = AttemptEnd::Answered(read);
        let kept = replay::kept(parts.status, &parts.headers, body.clone());
        let ended = self.ended(&end, Answer::Stored(kept), "").await;
        let effect = Some(ended.verdict.effect).filter(|effect| *effect == Effect::Unknown);
        let headers = replay::executing_headers(parts.headers, effect);
        let answer = reply::whole(parts.status, headers, body);
        let answer = reply::with_attempts(answer, 1);
        self.settle(&ended, Reply::Answer(Box::new(answer))).await;
    }

    /// An answer that is too large to keep, or has no end to wait for: its head goes out at once, and
    /// the record stays dispatched until the last byte.
    async fn stream(
        &mut self,
        head: Head,
        prefix: Bytes,
        mut body: Body,
        request_written: bool,
        deadline: Deadline,
    ) {
        let read = replay::read(head.status, &head.headers, None, request_written);
        let end = AttemptEnd::Answered(read);
        let ended = self
            .ended(&end, Answer::NotStored(head.status), "not stored")
            .await;
        let effect = Some(ended.verdict.effect).filter(|effect| *effect == Effect::Unknown);
        let (sender, receiver) = mpsc::channel(STREAM_CHUNKS);
        let mut response = Response::new(streamed(receiver));
        *response.status_mut() = head.status;
        *response.headers_mut() = replay::executing_headers(head.headers, effect);
        self.teller
            .tell(Reply::Answer(Box::new(reply::with_attempts(response, 1))));
        let mut chunk = Some(prefix).filter(|prefix| !prefix.is_empty());
        loop {
            if let Some(data) = chunk.take() {
                // A caller that left does not stop the upstream's answer from reaching its end.
                let send = async { Ok(sender.send(Ok(Frame::data(data))).await) };
                if let Err(failed) = self.bounded(deadline, send).await {
                    return self.cut(sender, failed).await;
                }
            }
            match self.bounded(deadline, next_chunk(&mut body)).await {
                Ok(Some(data)) => chunk = Some(data),
                Ok(None) => break,
                Err(failed) => return self.cut(sender, failed).await,
            }
        }
        // The caller sees the end of the answer once it is on record.
        self.settle(
            &ended,
            Reply::problem(&reply::unknown(self.held.hold.id, false)),
        )
        .await;
        drop(sender);
    }

    /// The answer was cut while it was passed on: so is the caller's connection, and the outcome is
    /// unknown.
    async fn cut(&mut self, sender: mpsc::Sender<Result<Frame<Bytes>, BoxError>>, failed: Failed) {
        let end = AttemptEnd::Failed(failed.failure);
        let ended = self.ended(&end, Answer::None, &failed.detail).await;
        let _ = sender.try_send(Err(Box::new(Cut(failed.failure))));
        drop(sender);
        self.settle(
            &ended,
            Reply::problem(&reply::unknown(self.held.hold.id, false)),
        )
        .await;
    }

    async fn ended(&self, end: &AttemptEnd, answer: Answer, detail: &str) -> Ended {
        let rules = &self.asked.policy.idempotency;
        let verdict = verdict(end, &rules.statuses, self.held.earlier());
        let reason = match (end.slug(), detail) {
            (slug, "") => slug,
            (_, "shutdown") => "shutdown".to_owned(),
            (slug, detail) => format!("{slug}: {detail}"),
        };
        let (nothing_sent, retention) = (end.never_sent(), rules.retention);
        Ended {
            verdict,
            answer,
            reason,
            nothing_sent,
            retention,
        }
    }

    /// Writes the end, then tells the caller. A store that fails to take it does not keep the real
    /// answer from the caller; the write goes on under the same owner and fence. A write that is
    /// refused because a newer one stands gives the caller what stands.
    async fn settle(&mut self, ended: &Ended, reply: Reply) {
        let limit = self.asked.policy.idempotency.store_timeout;
        match clock::within(limit, self.held.settle(ended)).await {
            Ok(Ok(End::Written | End::Lost(None))) => self.teller.tell(reply),
            Ok(Ok(End::Lost(Some(_)))) => self.overtaken(ended, reply).await,
            Ok(Err(_)) | Err(clock::Elapsed) => {
                self.teller.tell(reply);
                self.settle_later(ended).await;
            }
        }
    }

    /// Another holds a newer fence, or an operator has settled the record.
    async fn overtaken(&mut self, ended: &Ended, reply: Reply) {
        let given = loop {
            match self.held.wait_for_rest().await {
                Ok(true) => {}
                // Nothing stands that could be given instead of the real answer.
                Ok(false) => break reply,
                Err(_) => break Reply::problem(&self.asked.store_unavailable()),
            }
            match self.held.settle(ended).await {
                Ok(End::Written) => break reply,
                Ok(End::Lost(Some(row))) if row.is_held() => {}
                Ok(End::Lost(_)) => break self.what_stands().await,
                Err(_) => break Reply::problem(&self.asked.store_unavailable()),
            }
        };
        tracing::warn!(operation = %self.held.hold.id, "a newer holder or an operator was faster");
        self.teller.tell(given);
    }

    /// Goes on writing the end until it stands or the process has to end.
    async fn settle_later(&mut self, ended: &Ended) {
        let mut stop = self.server.inner.stop.subscribe();
        let mut pause = LATER_FIRST;
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = clock::sleep(pause) => {}
            }
            let id = self.held.hold.id;
            match self.held.settle(ended).await {
                Ok(End::Written) => return,
                Ok(End::Lost(_)) => {
                    tracing::warn!(operation = %id, "an answer came too late to be recorded");
                    return;
                }
                Err(error) => {
                    tracing::warn!(operation = %id, %error, "an answer is not recorded yet");
                    pause = (pause * 2).min(LATER_MAX);
                }
            }
        }
    }
}

/// What an inner limit may take beyond the deadline to report its end with its evidence.
const GRACE: Duration = Duration::from_millis(250);

/// Chunks of a streamed answer on their way to the caller: enough to keep both sides busy, little to
/// hold.
const STREAM_CHUNKS: usize = 4;

/// Between two tries of a late write.
const LATER_FIRST: Duration = Duration::from_millis(100);
const LATER_MAX: Duration = Duration::from_secs(5);

struct Head {
    status: StatusCode,
    headers: HeaderMap,
}

/// The next chunk of data; `None` at the body's end. Trailers are read and dropped: a replay could not
/// give them.
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
                let failure = failure_of(&error);
                return Err(Failed {
                    failure,
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

fn streamed(receiver: mpsc::Receiver<Result<Frame<Bytes>, BoxError>>) -> Body {
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|frame| (frame, receiver))
    });
    Body::new(StreamBody::new(frames))
}
