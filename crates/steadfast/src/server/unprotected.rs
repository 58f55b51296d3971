//! A keyed request whose store gave no answer (I12): refused, or sent on unprotected where the
//! operator chose so. Nothing is recorded of it.

use std::pin::pin;
use std::sync::Arc;

use http::Response;
use steadfast_core::deadline::Deadline;
use steadfast_core::fields::{strip_hop_of_answer, strip_ours_from_answer};
use steadfast_core::policy::OnStoreFailure;

use super::caller::{Gate, Reply};
use super::execute::{Execute, Executed, Failed};
use super::work::{bounded, request};
use super::{Asked, Server, reply};
use crate::clock;

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
    let ready = match ready {
        Some(ready) => ready,
        None => {
            let prepare = pin!(execute.prepare(asked.deadline));
            match bounded(server, asked.deadline, prepare).await {
                Ok(ready) => ready,
                Err(_) => return Reply::problem(&reply::unreachable(None)),
            }
        }
    };
    if server.is_stopping() {
        return Reply::problem(&reply::stopping());
    }
    if !gate.begin(None) {
        return Reply::problem(&reply::too_late());
    }
    tracing::warn!(operation = %asked.operation, "sent on unprotected: the store gave no answer");
    let deadline = Deadline::after(clock::mono_now(), asked.policy.deadline);
    let sent = request(asked, None, deadline);
    let run = pin!(async { execute.run(ready, sent, deadline).await });
    match bounded(server, deadline, run).await {
        Ok(Executed { response, .. }) => {
            let (mut parts, body) = response.into_parts();
            strip_hop_of_answer(&mut parts.headers);
            strip_ours_from_answer(&mut parts.headers);
            let response = Response::from_parts(parts, body);
            Reply::Answer(Box::new(reply::with_attempts(response, 1)))
        }
        Err(Failed { failure, .. }) if failure.never_sent() => {
            Reply::problem(&reply::unreachable(None))
        }
        Err(_) => Reply::problem(&reply::unprotected_unknown()),
    }
}
