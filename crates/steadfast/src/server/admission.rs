//! The checks before a record is asked for: key, then body (docs/keyed-requests.md, "Order of
//! checks").

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName};
use http::request::Parts;
use http::{Method, StatusCode, Uri};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use steadfast_core::deadline::Deadline;
use steadfast_core::effect::Effect;
use steadfast_core::key::{Key, KeyError};
use steadfast_core::policy::{Idempotency, KeyMode, RoutePolicy};
use steadfast_core::problem::{Problem, Slug};

use super::{Call, Principal};
use crate::body::BoxError;
use crate::clock;
use crate::event::RouteId;

/// The key of a request that is to be honoured; `None` where the request goes on without one.
/// `attempt` is the attempt count that the caller sent, one where it sent none.
///
/// # Errors
/// The problem to answer with: the key is missing, malformed or weak.
pub fn key_of(parts: &Parts, rules: &Idempotency, attempt: u32) -> Result<Option<Key>, Problem> {
    if !honours(rules, &parts.method) {
        return Ok(None);
    }
    let lines = parts
        .headers
        .get_all(&rules.header)
        .iter()
        .map(|value| value.as_bytes());
    let key = Key::parse(lines, &rules.key).map_err(|error| refused(&error))?;
    let required = match rules.mode {
        KeyMode::Required => true,
        KeyMode::RequiredOnRetry => attempt > 1,
        KeyMode::Optional | KeyMode::Off => false,
    };
    if key.is_none() && required {
        return Err(missing(&rules.header));
    }
    Ok(key)
}

/// Keys are honoured on requests of this method.
pub(super) fn honours(rules: &Idempotency, method: &Method) -> bool {
    rules.mode != KeyMode::Off && rules.methods.contains(method)
}

/// The problem of a request without a key where one is needed.
pub(super) fn missing(header: &HeaderName) -> Problem {
    let detail = format!(
        "This operation needs the field {header}. Send one unguessable key per operation, the same \
         for every retry of it, such as a random UUID."
    );
    Problem::new(Slug::KeyMissing, detail)
}

fn refused(error: &KeyError) -> Problem {
    let slug = match error {
        KeyError::Weak { .. } => Slug::KeyWeak,
        _ => Slug::KeyInvalid,
    };
    Problem::new(slug, error.to_string())
}

/// The attempt count that a trusted caller sent; one where it sent none, or none that is a number.
pub fn attempt_of(headers: &HeaderMap) -> u32 {
    let count = headers
        .get("steadfast-attempt")
        .and_then(|value| value.to_str().ok());
    count
        .and_then(|digits| digits.parse().ok())
        .filter(|count| *count > 0)
        .unwrap_or(1)
}

/// A keyed request that passed the checks of its head.
pub struct Admitted {
    /// Its head, as [`Call::parts`] says.
    pub parts: Parts,
    /// The path and query as the caller sent them, byte for byte: see [`target_of`].
    pub target: String,
    /// Its key.
    pub key: Key,
    /// Who calls.
    pub principal: Principal,
    /// The route's rules.
    pub policy: Arc<RoutePolicy>,
    /// Until when the caller waits; for its own body, too.
    pub deadline: Deadline,
    /// Which route took it, for whoever observes.
    pub route: RouteId,
}

impl Admitted {
    /// The call, once the whole of `body` has come.
    ///
    /// # Errors
    /// `body-too-large`; `bad-request` where the body did not come to its end; `deadline-exceeded`
    /// where it had not come in time. Nothing was executed.
    pub async fn with_body<B>(self, body: B) -> Result<Call, Problem>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let left = self.deadline.remaining(clock::mono_now());
        let collected = clock::within(left, collect(body, self.policy.body_limit)).await;
        let body = collected.unwrap_or_else(|clock::Elapsed| Err(body_too_late()))?;
        Ok(Call {
            parts: self.parts,
            target: self.target,
            body,
            key: self.key,
            principal: self.principal,
            policy: self.policy,
            deadline: self.deadline,
            route: self.route,
        })
    }
}

fn body_too_late() -> Problem {
    let detail = "The deadline passed before the request body had come, so nothing was sent. Send \
                  the same request with the same key and more time.";
    Problem::new(Slug::DeadlineExceeded, detail).with_effect(Effect::None)
}

/// The path and query of `uri`, byte for byte.
pub fn target_of(uri: &Uri) -> String {
    let target = uri.path_and_query();
    target.map_or("/", |target| target.as_str()).to_owned()
}

/// The whole body, of `limit` bytes at most.
///
/// # Errors
/// `body-too-large`, or `bad-request` where the body did not come to its end. Nothing was executed.
pub async fn collect<B>(body: B, limit: usize) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let mut body = std::pin::pin!(body);
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            let detail = "The request body did not come to its end, so nothing was sent. Send the \
                          same request with the same key again.";
            Problem::new(Slug::BadRequest, detail).with_retryable(true)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if collected.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected.freeze())
}

fn too_large(limit: usize) -> Problem {
    let detail = format!(
        "The body of a keyed request may have {limit} bytes here (body_limit); nothing was sent. \
         Send a smaller one, or send it to a route without keys."
    );
    Problem::new(Slug::BodyTooLarge, detail).with_status(StatusCode::PAYLOAD_TOO_LARGE)
}
