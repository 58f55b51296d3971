//! The work itself, on a task that outlives its caller: prepare, mark, send.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderValue, Request, header};
use steadfast_core::attempt::Failure;
use steadfast_core::breaker::Shut;
use steadfast_core::deadline::{Deadline, attempt_share};
use steadfast_core::deferral::{Begins, Defer};
use steadfast_core::policy::OnUnknown;
use steadfast_core::problem::Problem;
use steadfast_core::record::{Record, Start};
use steadfast_core::repeat::{BodyKind, KeyUse};
use steadfast_core::replay;
use steadfast_core::retry::{Decision, Next, RetryPolicy};
use steadfast_core::time::MonoTime;
use tokio::sync::oneshot;

use super::answer::Came;
use super::caller::{Gate, Reply, Teller};
use super::claim::{Claim, Looked, claim, look};
use super::deferring;
use super::execute::{AttemptNumber, Execute, Failed};
use super::hold::{Held, Mark, Renewing};
use super::operation::KeyedOperation;
use super::unprotected::without_store;
use super::{Asked, Server, reply, withdraw};
use crate::attempts::{self, Attempts, Leave, Rules, SharedUpstream};
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
    let begins = execute.upstream().map(SharedUpstream::may_begin);
    let is_shut = begins.as_ref().is_some_and(Result::is_err);
    if let Begins::Queued(why) = deferring::begins(&asked, is_shut) {
        return teller.tell(Box::pin(deferring::accept(&server, &asked, &gate, why)).await);
    }
    if let Some(Err(shut)) = begins {
        return teller.tell(Box::pin(shut_out(&server, &asked, shut)).await);
    }
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
    let attempts = course(&asked, &execute, &row, false);
    let held = Arc::new(Held::new(server, asked, row, since));
    let work = Work::new(held, execute, attempts, teller, gate);
    let held = Arc::clone(&work.held);
    work.go(ready).await;
    held.tell_end(since);
}

/// Works for the queue, under the hold of `row`, which it took at `since`: a single attempt, for
/// no caller. Gives the row as it is known at the end.
pub(super) async fn run_kept<E: Execute>(
    server: Server,
    asked: Arc<Asked>,
    execute: E,
    row: Record,
    since: MonoTime,
) -> Record {
    let attempts = course(&asked, &execute, &row, true);
    let held = Arc::new(Held::new(server, asked, row, since));
    let mut work = Work::new(held, execute, attempts, Teller::Told, Arc::default());
    work.is_run = true;
    let held = Arc::clone(&work.held);
    work.go(None).await;
    held.tell_end(since);
    held.row().await
}

/// What is given where the breaker lets no new work through: it hides nothing that is finished, and
/// nothing that is at work.
async fn shut_out(server: &Server, asked: &Asked, shut: Shut) -> Reply {
    match look(server, asked).await {
        Looked::Met(reply) => reply,
        Looked::Nothing => Reply::problem(&reply::circuit_open(shut)),
        Looked::NoStore => Reply::problem(&asked.store_unavailable()),
    }
}

/// The attempts of a claim. One, where it is not this layer's to repeat; more under the route's
/// rules. Its key lets it go again after an unknown end only where the record's and the route's way
/// out both say that the upstream honours it.
///
/// A run of the queue is a single attempt: its next one is the queue's to say.
fn course<E: Execute>(asked: &Asked, execute: &E, row: &Record, is_run: bool) -> Attempts {
    let policy = &asked.policy;
    let stricter = row.standing.on_unknown.min(policy.idempotency.on_unknown);
    let headers = &asked.parts.headers;
    let operation = attempts::Asked {
        method: asked.parts.method.clone(),
        key: match stricter {
            OnUnknown::Repeat => KeyUse::Honoured,
            OnUnknown::Hold | OnUnknown::Lookup => KeyUse::Carried,
        },
        body: BodyKind::Whole,
        conditional: headers.contains_key(header::IF_MATCH)
            || headers.contains_key(header::IF_UNMODIFIED_SINCE),
    };
    let mut rules = Rules::of(policy);
    let upstream = match execute.upstream() {
        Some(upstream) => upstream.clone(),
        None => {
            rules.retry = Arc::new(RetryPolicy::once());
            SharedUpstream::new(policy.budget, policy.breaker)
        }
    };
    match is_run {
        true => rules.retry = Arc::new(RetryPolicy::once()),
        false => rules.may_defer = policy.defer != Defer::Never,
    }
    let attempts = Attempts::new(rules, operation, asked.deadline, upstream);
    let attempts = attempts.after(row.earlier());
    match execute.only_unsent() {
        true => attempts.only_unsent(),
        false => attempts,
    }
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
    /// Of the present hold; dropped, it renews no more.
    pub(super) renewing: Renewing,
    pub(super) execute: E,
    pub(super) teller: Teller,
    pub(super) attempt: Attempt,
    pub(super) attempts: Attempts,
    /// Attempts of which a byte may have gone out.
    pub(super) sent: u32,
    /// Where its caller's leaving is met.
    pub(super) gate: Arc<Gate>,
    /// It is the queue's: no caller waits.
    pub(super) is_run: bool,
}

impl<E: Execute> Work<E> {
    fn new(
        held: Arc<Held>,
        execute: E,
        attempts: Attempts,
        teller: Teller,
        gate: Arc<Gate>,
    ) -> Work<E> {
        Work {
            server: held.server.clone(),
            asked: Arc::clone(&held.asked),
            renewing: held.renewing(),
            attempt: held.attempt(1),
            held,
            execute,
            teller,
            attempts,
            sent: 0,
            gate,
            is_run: false,
        }
    }

    async fn go(mut self, ready: Option<E::Ready>) {
        let Some((mut ready, mut leave)) = self.begin(ready).await else {
            return;
        };
        let stops = if !self.held.may_start() {
            Some(self.asked.store_unavailable())
        } else if self.server.is_stopping() {
            Some(reply::stopping())
        } else if !self.is_worth_starting() {
            Some(reply::too_late())
        } else {
            let begun = self.gate.begin(Some(self.held.hold.id));
            (!begun).then(reply::too_late)
        };
        if let Some(problem) = stops {
            return self.give_back(&problem).await;
        }
        // What is sent is bounded by the route's own limits, whoever still waits for it.
        let deadline = Deadline::after(clock::mono_now(), self.asked.policy.deadline);
        self.attempts.until(deadline);
        loop {
            // `None` where the answer was passed on while it came, and is settled.
            let Some(came) = self.send(ready, leave, deadline).await else {
                return;
            };
            match self.again(came, deadline).await {
                Ok(next) => (ready, leave) = next,
                Err(last) => {
                    let (came, decision) = *last;
                    return self.conclude(came, decision).await;
                }
            }
        }
    }

    /// One attempt, marked and with its leave, to its end.
    async fn send(&mut self, ready: E::Ready, leave: Leave, deadline: Deadline) -> Option<Came> {
        let reused = E::is_reused(&ready);
        let mut sent = request(&self.asked, Some(self.held.hold.fence), deadline);
        let number = AttemptNumber(self.attempts.number());
        sent.extensions_mut().insert(number);
        let ended = {
            let run = pin!(async { self.execute.run(ready, sent, deadline).await });
            bounded(&self.server, deadline, run).await
        };
        match ended {
            Ok(executed) => {
                self.sent += 1;
                self.answered(executed, leave, deadline).await
            }
            Err(failed) => {
                let stale = reused && failed.failure == Failure::NotWritten;
                self.sent += u32::from(!failed.failure.never_sent());
                Some(self.failed(failed, Some(leave), stale))
            }
        }
    }

    /// What the caller has left is enough for an attempt (T2).
    fn is_worth_starting(&self) -> bool {
        let left = self.asked.deadline.remaining(clock::mono_now());
        let limits = self.asked.policy.timeouts;
        attempt_share(left, limits.attempt, limits.min_attempt).is_some()
    }

    /// A way to the effect with the dispatch mark written, and the leave to use it; `None` when the
    /// work ends here. While nothing is marked, whatever fails was never sent.
    async fn begin(&mut self, mut ready: Option<E::Ready>) -> Option<(E::Ready, Leave)> {
        loop {
            let mut leave = match self.attempts.admit() {
                Ok(leave) => leave,
                Err(shut) => {
                    self.give_back(&reply::circuit_open(shut)).await;
                    return None;
                }
            };
            let at_hand = ready.is_some();
            let prepared = match ready.take() {
                Some(ready) => Ok(ready),
                None => self.prepare(self.until(), false).await,
            };
            let failed = match prepared {
                Ok(ready) if at_hand => return Some((ready, leave)),
                Ok(ready) => match leave.pay() {
                    Ok(()) => return self.marked(ready).await.map(|ready| (ready, leave)),
                    // The retry that was to go out is refused: nothing was sent at all.
                    Err(_) => {
                        self.give_back(&reply::unreachable(None)).await;
                        return None;
                    }
                },
                Err(failed) => failed,
            };
            if !self.goes_on(failed, leave).await {
                return None;
            }
        }
    }

    /// Whether another connection is to be asked for, after the wait for it; else the work has
    /// ended.
    async fn goes_on(&mut self, mut failed: Failed, leave: Leave) -> bool {
        match failed.failure {
            Failure::Abandoned if self.server.is_stopping() => {
                self.give_back(&reply::stopping()).await;
                return false;
            }
            // For the queue, one that was never sent like any other.
            Failure::Abandoned | Failure::ReadTimeout if self.may_go_later() => {
                failed.failure = Failure::Connect;
            }
            Failure::Abandoned => {
                self.give_back(&reply::unreachable(None)).await;
                return false;
            }
            Failure::ReadTimeout => {
                self.give_back(&reply::too_late()).await;
                return false;
            }
            _ => {}
        }
        let came = self.failed(failed, Some(leave), false);
        let decision = self.attempts.decide(&came.end, &came.signs);
        if !matches!(decision.next, Next::Retry { .. }) {
            self.conclude(came, decision).await;
            return false;
        }
        self.tell_attempt(&came, None);
        if !self.waited(&decision).await {
            self.give_back(&reply::stopping()).await;
            return false;
        }
        if !self.held.may_start() {
            let problem = self.asked.store_unavailable();
            self.give_back(&problem).await;
            return false;
        }
        self.attempt = self.held.attempt(self.attempts.number());
        true
    }

    /// Waits as `decision` says; false where the process has to end meanwhile.
    pub(super) async fn waited(&mut self, decision: &Decision) -> bool {
        let mut stop = self.server.inner.stop.subscribe();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => false,
            _ = self.attempts.wait(decision) => true,
        }
    }

    /// A way to the effect, or in which phase it failed.
    pub(super) async fn prepare(
        &self,
        deadline: Deadline,
        is_new: bool,
    ) -> Result<E::Ready, Failed> {
        // Boxed: with a connection at hand, which is the rule, there is nothing to prepare.
        let mut prepare = Box::pin(async {
            match is_new {
                true => self.execute.prepare_new(deadline).await,
                false => self.execute.prepare(deadline).await,
            }
        });
        bounded(&self.server, deadline, prepare.as_mut()).await
    }

    /// Writes the dispatch mark, with `ready` in hand.
    async fn marked(&mut self, ready: E::Ready) -> Option<E::Ready> {
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
