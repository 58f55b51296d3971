//! The work itself, on a task that outlives its caller: prepare, mark, send.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderValue, Request, header};
use steadfast_core::attempt::Failure;
use steadfast_core::deadline::{Deadline, attempt_share};
use steadfast_core::problem::Problem;
use steadfast_core::record::Start;
use steadfast_core::replay;
use tokio::sync::oneshot;

use super::caller::{Gate, Reply, Teller};
use super::claim::{Claim, Looked, claim, look};
use super::execute::{Execute, Failed};
use super::hold::{Held, Mark};
use super::operation::KeyedOperation;
use super::unprotected::without_store;
use super::{Asked, Server, reply, withdraw};
use crate::clock;
use crate::event::Attempt;

/// Claims, and works under the claim.
pub(super) async fn run<E: Execute>(
    server: Server,
    asked: Arc<Asked>,
    execute: E,
    gate: Arc<Gate>,
    answer: oneshot::Sender<Reply>,
) {
    let mut teller = Teller::Answer(answer);
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
            let reply = Box::pin(without_store(&server, &asked, execute, ready, &gate)).await;
            return teller.tell(reply);
        }
    };
    let held = Arc::new(Held::new(server.clone(), Arc::clone(&asked), row, since));
    let renewing = held.renewing();
    let attempt = held.attempt();
    let work = Work {
        server,
        asked,
        held,
        execute,
        teller,
        attempt,
    };
    let held = Arc::clone(&work.held);
    work.go(ready, &gate).await;
    drop(renewing);
    held.tell_end(since);
}

/// The request as it goes out: the key in its one spelling, the fence, and no coding that a later
/// caller might not take.
pub(super) fn request(asked: &Asked, fence: Option<u64>, deadline: Deadline) -> Request<Bytes> {
    let mut request = Request::from_parts(asked.parts.clone(), asked.body.clone());
    let rules = &asked.policy.idempotency;
    let headers = request.headers_mut();
    headers.insert(rules.header.clone(), asked.key.forward(rules.forward_as));
    headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    // A caller's own never passes, whoever drives this layer.
    headers.remove(replay::FENCE);
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

/// Runs `step` inside `deadline`, and no longer than the process may still work. A panic in it ends
/// the attempt and not the task, which still has to write down what it means.
///
/// Takes the step pinned: moved in here, it would be held once more by each future around it.
pub(super) async fn bounded<T>(
    server: &Server,
    deadline: Deadline,
    step: Pin<&mut impl Future<Output = Result<T, Failed>>>,
) -> Result<T, Failed> {
    let failed = |failure, detail: &str| {
        let detail = detail.to_owned();
        Err(Failed { failure, detail })
    };
    let mut stop = server.inner.stop.subscribe();
    let left = deadline.remaining(clock::mono_now()) + GRACE;
    tokio::select! {
        biased;
        ended = clock::within(left, AssertUnwindSafe(step).catch_unwind()) => match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(_)) => failed(Failure::Abandoned, "panic"),
            Err(clock::Elapsed) => failed(Failure::ReadTimeout, "the route's deadline passed"),
        },
        _ = stop.wait_for(|stop| *stop) => failed(Failure::Abandoned, "shutdown"),
    }
}

pub(super) struct Work<E> {
    pub(super) server: Server,
    pub(super) asked: Arc<Asked>,
    pub(super) held: Arc<Held>,
    execute: E,
    pub(super) teller: Teller,
    pub(super) attempt: Attempt,
}

impl<E: Execute> Work<E> {
    async fn go(mut self, ready: Option<E::Ready>, gate: &Gate) {
        let Some(ready) = self.get_ready(ready).await else {
            return;
        };
        let stops = if !self.held.may_start() {
            Some(self.asked.store_unavailable())
        } else if self.server.is_stopping() {
            Some(reply::stopping())
        } else if !self.is_worth_starting() {
            Some(reply::too_late())
        } else {
            let begun = gate.begin(Some(self.held.hold.id));
            (!begun).then(reply::too_late)
        };
        if let Some(problem) = stops {
            return self.give_back(&problem).await;
        }
        let deadline = Deadline::after(clock::mono_now(), self.asked.policy.deadline);
        let sent = request(&self.asked, Some(self.held.hold.fence), deadline);
        let ended = {
            let run = pin!(async { self.execute.run(ready, sent, deadline).await });
            bounded(&self.server, deadline, run).await
        };
        match ended {
            Ok(executed) => self.answered(executed, deadline).await,
            Err(failed) => self.failed(failed).await,
        }
    }

    /// What the caller has left is enough for an attempt (T2).
    fn is_worth_starting(&self) -> bool {
        let left = self.asked.deadline.remaining(clock::mono_now());
        let limits = self.asked.policy.timeouts;
        attempt_share(left, limits.attempt, limits.min_attempt).is_some()
    }

    /// A way to the effect with the dispatch mark written; `None` when the work ends here.
    async fn get_ready(&mut self, ready: Option<E::Ready>) -> Option<E::Ready> {
        if ready.is_some() {
            return ready;
        }
        let deadline = self.asked.deadline;
        let prepared = {
            // Boxed: with a connection at hand, which is the rule, there is nothing to prepare.
            let mut prepare = Box::pin(async { self.execute.prepare(deadline).await });
            bounded(&self.server, deadline, prepare.as_mut()).await
        };
        let ready = match prepared {
            Ok(ready) => ready,
            Err(failed) => {
                self.not_ready(failed).await;
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
                self.withdraw();
                let problem = self.asked.store_unavailable();
                self.teller.tell(Reply::problem(&problem));
                None
            }
        }
    }

    async fn not_ready(&mut self, failed: Failed) {
        match failed.failure {
            Failure::Abandoned if self.server.is_stopping() => {
                self.give_back(&reply::stopping()).await;
            }
            Failure::Abandoned => self.give_back(&reply::unreachable(None)).await,
            Failure::ReadTimeout => self.give_back(&reply::too_late()).await,
            _ => self.failed(failed).await,
        }
    }

    /// What the caller is given of the row that took this hold's place. That may be another
    /// request's, so it is met as by anybody else.
    async fn what_stands(&self) -> Reply {
        match look(&self.server, &self.asked).await {
            Looked::Met(reply) => reply,
            Looked::Nothing | Looked::NoStore => Reply::problem(&self.asked.store_unavailable()),
        }
    }

    /// Nothing was sent: what stood before stands again, and the caller is told `problem`.
    async fn give_back(&mut self, problem: &Problem) {
        if self.held.give_back().await.is_err() {
            self.withdraw();
        }
        self.teller.tell(Reply::problem(problem));
    }

    /// Goes on putting back what stood before, from a task of its own.
    fn withdraw(&self) {
        let lease = self.asked.policy.idempotency.lease;
        withdraw::begin(&self.server, self.asked.scope, self.held.hold.owner, lease);
    }
}

/// What an inner limit may take beyond the deadline to report its end with its evidence.
const GRACE: Duration = Duration::from_millis(250);
