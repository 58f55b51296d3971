//! Requests without a key: passed on once, streamed both ways.

use std::fmt::Write as _;

use http::header::TRAILER;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use steadfast::body::Body;
use steadfast::client::pool::{CallerLeft, NeverSent, RequestBody, SendEnd, UpstreamBody};
use steadfast::clock;
use steadfast::event::{Attempt, End, Leaving, RequestOutcome, Watched};
use steadfast::server::{problem, with_attempts};
use steadfast_core::attempt::{AttemptEnd, Failure};
use steadfast_core::deadline::{Deadline, attempt_share};
use steadfast_core::effect::{Earlier, Effect, verdict};
use steadfast_core::fields::{strip_hop_of_answer, strip_ours_from_answer};
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::repeat::{BodyKind, KeyUse, Operation};
use steadfast_core::retry::{self, Decision, Next, Reason};
use steadfast_core::{replay, trailers};

use super::upstream::{Upstream, saying_how_cut};

/// Passes `request` on, and its answer back, with its trailers where the caller takes them; in a
/// word, what its caller is given.
pub async fn forward(
    upstream: &Upstream,
    request: Request<Body>,
    deadline: Deadline,
    takes_trailers: bool,
) -> (RequestOutcome, Response<Body>) {
    let method = request.method().clone();
    let facts = Operation {
        method: &method,
        key: KeyUse::None,
        body: BodyKind::Whole,
        conditional: false,
    };
    let limits = upstream.policy.timeouts;
    let left = deadline.remaining(clock::mono_now());
    if attempt_share(left, limits.attempt, limits.min_attempt).is_none() {
        return given(&too_late(Effect::None), 0);
    }
    let (observer, headers) = (&upstream.observer, request.headers());
    let attempt = Attempt::begin(observer, upstream.route, &method, headers);
    let mut leaving = Leaving::new(attempt);
    let acquired = upstream.acquire(deadline).await;
    let ready = match acquired {
        Ok(ready) => ready,
        Err(NeverSent { failure, .. }) => return failed(leaving, failure, facts, deadline),
    };
    leaving.sending();
    match upstream
        .send(ready, request.map(request_body), deadline)
        .await
    {
        SendEnd::Head {
            response,
            request_written,
        } => {
            let outcome = RequestOutcome::of_status(response.status());
            let effect = effect(upstream, facts, &response, request_written);
            let mut response = watched(response, leaving.stays(), effect);
            clean(response.headers_mut(), takes_trailers);
            (outcome, with_attempts(response, 1))
        }
        SendEnd::Failed { failure, .. } => failed(leaving, failure, facts, deadline),
        SendEnd::CallerLeft { failure, detail } => {
            let effect = if failure.never_sent() || method.is_safe() {
                Effect::None
            } else {
                Effect::Unknown
            };
            if let Some(attempt) = leaving.stays() {
                attempt.ended(End::CallerLeft, effect, None);
            }
            let problem = Problem::new(Slug::BadRequest, detail).with_effect(effect);
            given(&problem, 0)
        }
    }
}

fn given(answer: &Problem, attempts: u32) -> (RequestOutcome, Response<Body>) {
    let outcome = RequestOutcome::of_problem(answer.slug, answer.effect);
    let response = problem(answer);
    (
        outcome,
        match attempts {
            0 => response,
            made => with_attempts(response, made),
        },
    )
}

/// The attempt brought no answer.
fn failed(
    leaving: Leaving,
    failure: Failure,
    facts: Operation<'_>,
    deadline: Deadline,
) -> (RequestOutcome, Response<Body>) {
    let left = deadline.remaining(clock::mono_now());
    let decision = retry::on_only_end(&AttemptEnd::Failed(failure), facts, left);
    let problem = refused(failure, decision);
    if let Some(attempt) = leaving.stays() {
        attempt.ended(End::Failed(failure), problem.effect, Some(decision.reason));
    }
    given(&problem, u32::from(!failure.never_sent()))
}

/// What an answer to a keyless request says of its effect.
fn effect<B>(
    upstream: &Upstream,
    facts: Operation<'_>,
    response: &Response<B>,
    request_written: bool,
) -> Effect {
    if facts.method.is_safe() {
        return Effect::None;
    }
    let read = replay::read(response.status(), response.headers(), None, request_written);
    let statuses = &upstream.policy.idempotency.statuses;
    verdict(&AttemptEnd::Answered(read), statuses, Earlier::default()).effect
}

/// The answer to `attempt`, whose end is told of with that of the body.
fn watched(
    response: Response<UpstreamBody>,
    attempt: Option<Attempt>,
    effect: Effect,
) -> Response<Body> {
    let status = response.status();
    response.map(|body| match attempt {
        Some(mut attempt) => {
            attempt.head_came();
            Body::new(Watched::new(saying_how_cut(body), attempt, status, effect))
        }
        None => Body::new(saying_how_cut(body)),
    })
}

/// Takes off what is the hop's and what only steadfast says. Trailers that are not announced are
/// not written.
fn clean(headers: &mut HeaderMap, takes_trailers: bool) {
    let lines = headers.get_all(TRAILER).iter().filter(|_| takes_trailers);
    let trailers = trailers::announced(lines, &[]);
    strip_hop_of_answer(headers);
    strip_ours_from_answer(headers);
    if let Some(names) = trailers {
        headers.insert(TRAILER, names);
    }
}

/// A body on its way to the upstream: its failure is the caller's leaving.
pub fn request_body(body: Body) -> RequestBody {
    body.map_err(|_| CallerLeft {
        detail: "The request body did not come to its end.".to_owned(),
    })
    .boxed_unsync()
}

fn too_late(effect: Effect) -> Problem {
    let detail = "The deadline passed before a whole answer came. Send it again with more time.";
    Problem::new(Slug::DeadlineExceeded, detail).with_effect(effect)
}

/// What the caller of a keyless request is told of an attempt that brought no answer.
fn refused(failure: Failure, decision: Decision) -> Problem {
    let effect = decision.effect;
    match decision.next {
        Next::GiveUp if decision.reason == Reason::Deadline => too_late(effect),
        Next::GiveUp if failure.never_sent() => {
            let detail = format!(
                "The upstream could not be reached ({}), so nothing was sent. Send it again.",
                failure.slug()
            );
            Problem::new(Slug::UpstreamUnreachable, detail)
        }
        Next::GiveUp => {
            let status = match failure {
                Failure::ReadTimeout | Failure::Idle => StatusCode::GATEWAY_TIMEOUT,
                _ => StatusCode::BAD_GATEWAY,
            };
            let detail = format!(
                "The request was sent and no whole answer came ({}). Sending it again is safe.",
                failure.slug()
            );
            Problem::new(Slug::UpstreamFailed, detail)
                .with_effect(effect)
                .with_status(status)
        }
        _ => {
            let detail = format!(
                "The request was sent and no whole answer came ({}), so it may have been executed. \
                 Look up at the service itself whether it happened; with an Idempotency-Key it \
                 could have been sent again safely.",
                failure.slug()
            );
            Problem::new(Slug::OutcomeUnknown, detail).with_status(StatusCode::GATEWAY_TIMEOUT)
        }
    }
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The fields that tell an upstream who called: appended to what a trusted peer said, else set
/// anew. `version` is that of the request.
pub fn write_forwarded(
    headers: &mut HeaderMap,
    version: Version,
    peer: std::net::IpAddr,
    trusted: bool,
) {
    if !trusted {
        strip_forwarded(headers);
    }
    let lines = headers.get_all(FORWARDED_FOR).iter();
    let mut value = String::new();
    let said = lines.filter_map(|line| line.to_str().ok());
    for line in said.filter(|line| !line.is_empty()) {
        value.push_str(line);
        value.push_str(", ");
    }
    // Writing to a string does not fail.
    let _ = write!(value, "{peer}");
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(FORWARDED_FOR, value);
    }
    if !headers.contains_key(FORWARDED_PROTO) {
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
    let host = headers.get(http::header::HOST).cloned();
    if let Some(host) = host.filter(|_| !headers.contains_key(FORWARDED_HOST)) {
        headers.insert(FORWARDED_HOST, host);
    }
    // The protocol that the request came over, not the one that it goes on with (RFC 9110, 7.6.3).
    let via = match version {
        Version::HTTP_2 => "2.0 steadfast",
        Version::HTTP_10 => "1.0 steadfast",
        _ => "1.1 steadfast",
    };
    headers.append(http::header::VIA, HeaderValue::from_static(via));
}

/// What says where a request came from, under whatever name: not a stranger's to say.
fn strip_forwarded(headers: &mut HeaderMap) {
    let says =
        |name: &str| name.starts_with("x-forwarded-") || name == "forwarded" || name == "x-real-ip";
    let names = headers.keys().filter(|name| says(name.as_str()));
    let names: Vec<HeaderName> = names.cloned().collect();
    for name in names {
        headers.remove(name);
    }
}
