//! What the caller is given, as HTTP.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use steadfast_core::breaker::Shut;
use steadfast_core::effect::Effect;
use steadfast_core::problem::{Problem, Slug, status_address};
use steadfast_core::record::{Answer, OperationId, Record, Standing, State, StoredAnswer};
use steadfast_core::replay;

use super::status;
use crate::body::{Body, full};

/// A problem as a response.
pub fn problem(problem: &Problem) -> Response<Body> {
    whole(problem.status, problem.headers(), problem.body().into())
}

/// Adds how many attempts were made for this request, where any was.
pub fn with_attempts(mut response: Response<Body>, attempts: u32) -> Response<Body> {
    response
        .headers_mut()
        .insert("steadfast-attempts", HeaderValue::from(attempts));
    response
}

pub(super) fn whole(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A stored answer, marked as a replay.
fn replayed(stored: &StoredAnswer, effect: Option<Effect>) -> Response<Body> {
    whole(
        stored.status,
        replay::replayed_headers(stored, effect),
        stored.body.clone(),
    )
}

/// What a duplicate, or a holder that was overtaken, is given of a record that is at rest.
/// `repeats` says whether sending the same again may bring an unknown outcome to an end.
pub(super) fn settled(id: OperationId, standing: &Standing, repeats: bool) -> Response<Body> {
    // A duplicate that is given a released answer was joined to it: nothing was executed.
    let effect = match standing.state {
        State::Released => Some(Effect::None),
        _ => Some(standing.effect).filter(|effect| *effect == Effect::Unknown),
    };
    match (&standing.answer, standing.state) {
        (Answer::Stored(stored), _) => replayed(stored, effect),
        (Answer::NotStored(status), _) => problem(&not_stored(id, standing, Some(*status))),
        (Answer::None, State::Completed) => problem(&not_stored(id, standing, None)),
        (Answer::None, State::Released) => problem(&unreachable(Some(id))),
        (Answer::None, _) => problem(&unknown(id, repeats)),
    }
}

pub(super) fn not_stored(
    id: OperationId,
    standing: &Standing,
    status: Option<StatusCode>,
) -> Problem {
    let detail = "The operation has finished and its answer was not kept. It will not run again; \
                  look up what it made at the service itself.";
    let problem = Problem::new(Slug::ResponseNotStored, detail);
    problem
        .with_effect(standing.effect)
        .of_operation(id)
        .originally(status)
}

/// Never sent, so the key is free again.
pub(super) fn unreachable(id: Option<OperationId>) -> Problem {
    let detail = "The upstream could not be reached, so nothing was sent. Send the same request \
                  with the same key again.";
    let problem = Problem::new(Slug::UpstreamUnreachable, detail);
    Problem {
        operation_id: id,
        ..problem
    }
}

/// 409 `outcome-unknown`, as later callers are given it.
pub(super) fn unknown(id: OperationId, repeats: bool) -> Problem {
    let next = if repeats {
        "Send the same request with the same key again to learn the outcome."
    } else {
        "Look up at the service itself whether it happened; an operator can settle the record with \
         `steadfast keys resolve` or `keys release`."
    };
    let detail = format!("The request was sent and no whole answer came. {next}");
    Problem::new(Slug::OutcomeUnknown, detail)
        .with_retryable(repeats)
        .of_operation(id)
}

/// 504 `outcome-unknown`, to the caller whose own attempt ended so.
pub(super) fn unknown_now(id: OperationId, repeats: bool) -> Problem {
    unknown(id, repeats).with_status(StatusCode::GATEWAY_TIMEOUT)
}

/// 504 `outcome-unknown`, to a first caller whose deadline ended while the work goes on.
pub(super) fn still_running(id: OperationId) -> Problem {
    let detail = "The deadline has passed while the operation is running; it runs to its end. Send \
                  the same request with the same key again for its answer.";
    let problem = Problem::new(Slug::OutcomeUnknown, detail).with_retryable(true);
    problem
        .with_status(StatusCode::GATEWAY_TIMEOUT)
        .of_operation(id)
        .retry_after(1)
}

/// 504 `outcome-unknown`, for a request that went out without a record.
pub(super) fn unprotected_unknown() -> Problem {
    let detail = "The request was sent unprotected, since the record store gave no answer, and no \
                  whole answer came in time. Look up at the service itself whether it happened.";
    Problem::new(Slug::OutcomeUnknown, detail).with_status(StatusCode::GATEWAY_TIMEOUT)
}

/// 503 `overloaded`: nothing new may start.
pub(super) fn overloaded() -> Problem {
    let detail = "Too many keyed requests are at work; nothing was sent. Send the same request \
                  with the same key again.";
    Problem::new(Slug::Overloaded, detail)
}

/// 503 `overloaded`, because the process ends.
pub(super) fn circuit_open(shut: Shut) -> Problem {
    let detail = "Too many of this service's last answers failed, so it is not asked for a moment. \
                  Nothing was sent. Send the same request with the same key again.";
    let seconds = shut.retry_after.as_millis().div_ceil(1000).max(1);
    Problem::new(Slug::CircuitOpen, detail).retry_after(u64::try_from(seconds).unwrap_or(u64::MAX))
}

pub(super) fn stopping() -> Problem {
    let detail = "This process is ending, so nothing was sent. An earlier request with this key \
                  may have executed. Send the same request with the same key again.";
    Problem::new(Slug::Overloaded, detail)
}

/// 504 `deadline-exceeded`, with nothing sent.
pub(super) fn too_late() -> Problem {
    let detail = "The deadline passed before anything was sent. An earlier request with this key \
                  may have executed. Send the same request with the same key and more time.";
    Problem::new(Slug::DeadlineExceeded, detail).with_effect(Effect::None)
}

/// 429 `quota-exceeded`: a key that stands is never removed to make room for another.
pub(super) fn quota_exceeded(after: Duration) -> Problem {
    let detail = "This caller has as many live keys as it may (key_quota), so nothing was sent. \
                  None of them is removed before its time: send the same request with the same \
                  key again once some have expired.";
    let seconds = after.as_millis().div_ceil(1000).max(1);
    Problem::new(Slug::QuotaExceeded, detail)
        .retry_after(u64::try_from(seconds).unwrap_or(u64::MAX))
}

/// 409 `in-progress`.
pub(super) fn in_progress(id: OperationId) -> Problem {
    let detail = "An earlier request with this key is still running. Send the same request with \
                  the same key again, or ask the address in Location.";
    Problem::new(Slug::InProgress, detail)
        .of_operation(id)
        .retry_after(1)
}

/// 409 `in-progress` where no record stands any more that could be asked for.
pub(super) fn did_not_start() -> Problem {
    let detail = "An earlier request with this key did not start. Send the same request with the \
                  same key again.";
    Problem::new(Slug::InProgress, detail).retry_after(1)
}

/// 422 `key-reused`.
pub(super) fn key_reused(id: OperationId) -> Problem {
    let detail = "This key was used with another request, which stands. Look the original up \
                  before you do anything else; a new key for the same operation may execute it \
                  twice.";
    Problem::new(Slug::KeyReused, detail).of_operation(id)
}

/// 202 with the status address.
pub(super) fn accepted(row: &Record) -> Response<Body> {
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(
        replay::EFFECT,
        HeaderValue::from_static(Effect::Unknown.as_str()),
    );
    if let Ok(address) = HeaderValue::from_str(&status_address(row.id)) {
        headers.insert(header::LOCATION, address);
    }
    let body = status::operation(row).to_string();
    whole(StatusCode::ACCEPTED, headers, body.into())
}
