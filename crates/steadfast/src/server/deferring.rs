//! On the way into the queue: a request that begins there, and one that goes on there because it
//! does not come to its end in time (U3). Whether is [`steadfast_core::deferral`]'s to say.

use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderMap;
use http::{HeaderName, HeaderValue, Response};
use steadfast_core::deadline::Deadline;
use steadfast_core::deferral::{self, Begins, Defer, GoesOn, Last, Why};
use steadfast_core::policy::RoutePolicy;
use steadfast_core::principal::PrincipalRule;
use steadfast_core::record::{Ended, KeptRequest, Later, OperationId, Record, Start, State};
use steadfast_core::retry::Decision;
use steadfast_core::time::WallTime;

use super::answer::Came;
use super::caller::{Gate, Given, Reply};
use super::claim::{Claim, Looked, look, rounds};
use super::execute::Execute;
use super::hold::End;
use super::work::Work;
use super::{Asked, Call, Server, reply};
use crate::body::Body;
use crate::clock;
use crate::event::RouteId;
use crate::store::StoreError;

/// What of a caller's deadline is kept, at most, for writing down that its request is deferred.
const RESERVE: Duration = Duration::from_millis(500);

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// How the request begins.
pub(super) fn begins(asked: &Asked, is_shut: bool) -> Begins {
    let prefers_async = prefers_async(&asked.parts.headers);
    deferral::begins(asked.policy.defer, prefers_async, is_shut)
}

/// The caller would rather be sent away than wait (RFC 7240, 4.1). One that names a time as well
/// waits that long first, so that it begins at once.
fn prefers_async(headers: &HeaderMap) -> bool {
    let lines = headers.get_all("prefer").iter();
    let all = lines.flat_map(|line| line.as_bytes().split(|b| matches!(b, b',' | b';')));
    let names = all.map(|one| {
        let name = one.split(|b| *b == b'=').next().unwrap_or_default();
        name.trim_ascii().to_ascii_lowercase()
    });
    let (mut asks, mut waits) = (false, false);
    for name in names {
        asks |= name == b"respond-async";
        waits |= name == b"wait";
    }
    asks && !waits
}

/// Puts the request into the queue of `server`, whatever its route says, and gives the answer that
/// its caller is given: 202 with the address of its operation, or what an earlier one with its key
/// came to. `to` is scheme and authority where no route says where it goes; whoever runs the queue
/// has to know the way ([`super::Routes`]). Nothing is sent here (U3).
pub async fn hand_over(server: &Server, call: Call, to: Option<String>) -> Response<Body> {
    let asked = server.asked(call);
    let gate = Gate::default();
    let reply = put(server, &asked, &gate, (Why::Always, to)).await;
    match reply {
        Reply::Answer(given) => given.response,
        Reply::InFlight(row) => Given::accepted(&row).response,
    }
}

/// Puts the request of a route into the queue, as [`put`] does.
pub(super) async fn accept(server: &Server, asked: &Asked, gate: &Gate, why: Why) -> Reply {
    put(server, asked, gate, (why, None)).await
}

/// Puts the request into the queue: 202, or what stands already.
///
/// Nothing is withdrawn where the store's reply does not come: what is in the queue is nobody's
/// hold, so any process may have sent it by the time that a withdrawal reached it. The caller is
/// told that it may be there, and the same key finds out.
async fn put(
    server: &Server,
    asked: &Asked,
    gate: &Gate,
    (why, to): (Why, Option<String>),
) -> Reply {
    if !gate.queue() {
        return Reply::problem(&reply::too_late());
    }
    let id = OperationId::new(&asked.scope, clock::random_bits());
    let mut request = asked.request(server.owner(), id);
    let limit = asked.policy.idempotency.store_timeout;
    let insert = async {
        let now = server.store().now().await?;
        let mut kept = request.kept.take().unwrap_or_default();
        kept.request = Some(KeptRequest {
            to,
            ..asked.kept(now)
        });
        request.kept = Some(kept);
        rounds(server, asked, &request, Start::Deferred).await
    };
    match clock::within(limit, insert).await {
        Ok(Ok(Claim::Own(row, _))) => {
            server.inner.alarm.ring_in(Duration::ZERO);
            Reply::Answer(Box::new(accepted(&row, why)))
        }
        Ok(Ok(Claim::Meets(reply))) => reply,
        Ok(Err(StoreError::Full(_) | StoreError::ReadOnly(_))) => {
            match Box::pin(look(server, asked)).await {
                Looked::Met(reply) => reply,
                Looked::Nothing | Looked::NoStore => Reply::problem(&asked.store_unavailable()),
            }
        }
        Ok(Err(StoreError::Closed)) => Reply::problem(&asked.store_unavailable()),
        Ok(Err(StoreError::Unreadable(why))) => {
            tracing::error!(
                reason = why.to_string(),
                "a stored record cannot be read; refused"
            );
            Reply::problem(&asked.store_unavailable())
        }
        Ok(Ok(Claim::NoStore) | Err(StoreError::Unavailable(_))) | Err(clock::Elapsed) => {
            Reply::problem(&reply::queue_in_doubt())
        }
    }
}

fn accepted(row: &Record, why: Why) -> Given {
    let mut given = Given::accepted(row);
    if why == Why::Asked {
        let applied = HeaderValue::from_static("respond-async");
        given
            .response
            .headers_mut()
            .insert(PREFERENCE_APPLIED, applied);
    }
    given
}

impl Asked {
    /// What the queue keeps of it, from `now` on.
    pub(super) fn kept(&self, now: WallTime) -> KeptRequest {
        let rules = &self.policy.deferral;
        let principal = PrincipalRule::parse(&self.rule).ok();
        let principal = principal.as_ref().and_then(PrincipalRule::guarded_field);
        let key = &self.policy.idempotency.header;
        KeptRequest {
            to: None,
            target: self.target.clone(),
            headers: deferral::kept(&self.parts.headers, rules, key, principal),
            body: self.body.clone(),
            give_up_at: now.plus(rules.max_age),
        }
    }
}

impl<E: Execute> Work<E> {
    /// What is not sent now may be sent later.
    pub(super) fn may_go_later(&self) -> bool {
        self.is_run || self.asked.policy.defer != Defer::Never
    }

    /// Until when a way to the effect is waited for: a request that is to go into the queue must be
    /// there before its caller's time is over.
    pub(super) fn until(&self) -> Deadline {
        let deadline = self.asked.deadline;
        if self.is_run || self.asked.policy.defer == Defer::Never {
            return deadline;
        }
        let now = clock::mono_now();
        let left = deadline.remaining(now);
        let left = left.saturating_sub(RESERVE.min(left / 4));
        Deadline::after(now, left)
    }

    /// When the operation goes again from the queue, if it does.
    pub(super) async fn later(&self, came: &Came, decision: &Decision) -> Option<Later> {
        let retry_after = came.signs.retry_after.wait();
        if self.is_run {
            return self.run_again(retry_after).await;
        }
        let last = Last {
            decision,
            meaning: came.ended.verdict.meaning,
            never_sent: came.ended.nothing_sent && self.sent == 0,
            ambiguous: self.held.earlier().ambiguous || self.attempts.ambiguous(),
            retry_after,
            remaining: self.asked.deadline.remaining(clock::mono_now()),
        };
        let goes_on = deferral::on_the_way(self.asked.policy.defer, &last);
        let GoesOn::Later(_, not_before) = goes_on else {
            return None;
        };
        // A caller that left was told that nothing is sent, or that it is at work.
        if !self.gate.begin(Some(self.held.hold.id)) {
            return None;
        }
        let limit = self.asked.policy.idempotency.store_timeout;
        let now = clock::within(limit, self.server.store().now())
            .await
            .ok()?
            .ok()?;
        let request = self.asked.kept(now);
        let rules = &self.asked.policy.deferral;
        let told = Some(not_before);
        let at = deferral::due(rules, 1, told, clock::draw(), now, request.give_up_at);
        let request = Some(Box::new(request));
        Some(Later { at, request })
    }

    /// When the queue runs it again, if this is a run and it does not end here; `told` is what the
    /// service asked for.
    pub(super) async fn run_again(&self, told: Option<Duration>) -> Option<Later> {
        if !self.is_run {
            return None;
        }
        let limit = self.asked.policy.idempotency.store_timeout;
        let now = match clock::within(limit, self.server.store().now()).await {
            Ok(Ok(now)) => now,
            // Its date is at most ahead of this clock, so that the run is not late by it.
            Ok(Err(_)) | Err(clock::Elapsed) => clock::wall_now(),
        };
        let row = self.held.row().await;
        let give_up_at = row.request().map_or(now, |request| request.give_up_at);
        let runs = row.standing.pending.steps.saturating_add(1);
        let rules = &self.asked.policy.deferral;
        let at = deferral::due(rules, runs, told, clock::draw(), now, give_up_at);
        self.server.inner.alarm.ring_in(at.since(now));
        Some(Later { at, request: None })
    }

    /// Writes an end after which the queue goes on, and sends the caller to the status address.
    pub(super) async fn settle_into_queue(&mut self, ended: &Ended) {
        if self.is_run {
            return self.settle(ended, None).await;
        }
        let in_doubt = || Reply::problem(&reply::queue_in_doubt());
        match self.held.settle(ended).await {
            Ok(End::Written) => {
                let row = self.held.row().await;
                let given = match row.standing.state {
                    State::Deferred => Given::accepted(&row),
                    _ => Given::settled(row.id, &row.standing, self.held.repeats(), true),
                };
                self.server.inner.alarm.ring_in(Duration::ZERO);
                self.teller.tell(Reply::Answer(Box::new(given)));
            }
            Ok(End::Lost(None)) => self.teller.tell(in_doubt()),
            Ok(End::Lost(Some(row))) => self.overtaken(*row, ended, Some(in_doubt())).await,
            Err(_) => {
                self.teller.tell(in_doubt());
                self.settle_later(ended).await;
            }
        }
    }
}

/// The request of `row` as one that is asked again, without its caller.
pub(super) fn asked_again(
    row: &Record,
    policy: &Arc<RoutePolicy>,
    route: RouteId,
) -> Option<Asked> {
    let request = row.request()?;
    let mut builder = http::Request::builder()
        .method(row.operation.method())
        .uri(&request.target);
    if let Some(headers) = builder.headers_mut() {
        *headers = deferral::of_run(&request.headers, &policy.deferral);
    }
    let (parts, ()) = builder.body(()).ok()?.into_parts();
    let deadline = Deadline::after(clock::mono_now(), policy.deadline);
    Some(Asked {
        parts,
        target: request.target.clone(),
        body: request.body.clone(),
        key: row.key.clone(),
        policy: Arc::clone(policy),
        deadline,
        route,
        scope: row.scope,
        tenant: row.tenant.clone(),
        rule: row.principal_rule.clone(),
        operation: row.operation.clone(),
        fingerprint: row.standing.fingerprint.clone(),
    })
}
