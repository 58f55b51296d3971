//! A keyed request whose store gave no answer (I12): refused, or sent on unprotected where the
//! operator chose so. Nothing is recorded of it.

use std::pin::pin;
use std::sync::Arc;

use http::Response;
use steadfast_core::attempt::AttemptEnd;
use steadfast_core::deadline::Deadline;
use steadfast_core::effect::{Earlier, Effect, verdict};
use steadfast_core::fields::{strip_hop_of_answer, strip_ours_from_answer};
use steadfast_core::policy::OnStoreFailure;
use steadfast_core::replay;
use steadfast_core::retry::Reason;

use super::caller::{Gate, Given, Reply};
use super::execute::{Execute, Executed, Failed};
use super::work::{bounded, request};
use super::{Asked, Server, reply};
use crate::body::Body;
use crate::clock;
use crate::event::{Attempt, End, Event, Watched};

/// What the caller is given. `ready` is what was at hand.
pub(super) async fn without_store<E: Execute>(
    server: &Server,
    asked: &Arc<Asked>,
    execute: E,
    ready: Option<E::Ready>,
    gate: &Gate,
) -> Reply {
    if asked.policy.idempotency.on_store_failure == OnStoreFailure::Refuse {
        return Reply::problem(&asked.store_unavailable());
    }
    let (method, headers) = (&asked.parts.method, &asked.parts.headers);
    let attempt = Attempt::begin(&server.inner.observer, asked.route, method, headers);
    let mut attempt = attempt.keyed();
    let ready = match ready {
        Some(ready) => ready,
        None => {
            let prepare = pin!(execute.prepare(asked.deadline));
            match bounded(server, asked.deadline, prepare).await {
                Ok(ready) => ready,
                Err(Failed { failure, .. }) => {
                    attempt.ended(End::Failed(failure), Effect::None, Some(Reason::NeverSent));
                    let given = Given::problem(&reply::unreachable(None)).own();
                    return Reply::Answer(Box::new(given));
                }
            }
        }
    };
    if server.is_stopping() {
        return Reply::problem(&reply::stopping());
    }
    if !gate.begin(None) {
        return Reply::problem(&reply::too_late());
    }
    // Not the operation's name: its path may hold what is personal.
    tracing::warn!(method = %asked.parts.method, "sent on unprotected: the store gave no answer");
    server.inner.observer.on(Event::Unprotected(asked.route));
    let deadline = Deadline::after(clock::mono_now(), asked.policy.deadline);
    let sent = request(asked, None, deadline);
    let run = pin!(async { execute.run(ready, sent, deadline).await });
    match bounded(server, deadline, run).await {
        Ok(Executed {
            response,
            request_written,
        }) => {
            attempt.head_came();
            let (mut parts, body) = response.into_parts();
            let read = replay::read(parts.status, &parts.headers, None, request_written);
            let statuses = &asked.policy.idempotency.statuses;
            let verdict = verdict(&AttemptEnd::Answered(read), statuses, Earlier::default());
            strip_hop_of_answer(&mut parts.headers);
            strip_ours_from_answer(&mut parts.headers);
            let body = Body::new(Watched::new(body, attempt, parts.status, verdict.effect));
            let response = reply::with_attempts(Response::from_parts(parts, body), 1);
            Reply::Answer(Box::new(Given::answer(response, verdict.meaning, None)))
        }
        Err(Failed { failure, .. }) => {
            let never = failure.never_sent();
            let (effect, reason, problem) = if never {
                (Effect::None, Reason::NeverSent, reply::unreachable(None))
            } else {
                let problem = reply::unprotected_unknown();
                (Effect::Unknown, Reason::MaybeExecuted, problem)
            };
            attempt.ended(End::Failed(failure), effect, Some(reason));
            Reply::Answer(Box::new(Given::problem(&problem).own()))
        }
    }
}
