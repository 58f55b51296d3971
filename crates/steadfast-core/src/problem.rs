//! Every answer that steadfast itself gives, in one table.
//!
//! Decides status, effect and whether sending the same thing again is sensible, per slug
//! (docs/reference.md, "Problems"). Refuses to know who asks; the detail is the caller's, and ends
//! with the next step. RFC 9457.

use std::fmt;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

use crate::effect::Effect;
use crate::record::OperationId;

/// What kind of answer it is. `urn:steadfast:problem:` and the slug are its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slug {
    /// Framing or headers.
    BadRequest,
    /// A request body is larger than a rule allows.
    BodyTooLarge,
    /// The upstream's breaker is open; nothing was sent.
    CircuitOpen,
    /// The deadline ended it.
    DeadlineExceeded,
    /// Still running, and waiting was not chosen or ended.
    InProgress,
    /// The key's syntax.
    KeyInvalid,
    /// A key is required.
    KeyMissing,
    /// The same key, another request.
    KeyReused,
    /// The key could be guessed.
    KeyWeak,
    /// No route matches.
    NoRoute,
    /// No such operation, or another principal's.
    OperationNotFound,
    /// Sent, no whole answer.
    OutcomeUnknown,
    /// A bound on work at once was reached before anything was sent.
    Overloaded,
    /// The route cannot tell whose request it is.
    PrincipalUnknown,
    /// The principal has as many live keys as it may.
    QuotaExceeded,
    /// Finished; its answer was not kept.
    ResponseNotStored,
    /// The store gave no answer; nothing was sent.
    StoreUnavailable,
    /// Idempotent and keyless, and its attempts came to nothing.
    UpstreamFailed,
    /// Never sent.
    UpstreamUnreachable,
}

/// One line of the table: slug, status, effect, retryable, title.
type Line = (Slug, &'static str, u16, Effect, bool, &'static str);

const TABLE: [Line; 19] = {
    use Effect::{None, Unknown};
    use Slug::*;
    [
        (
            BadRequest,
            "bad-request",
            400,
            None,
            false,
            "The request is not sound HTTP",
        ),
        (
            BodyTooLarge,
            "body-too-large",
            413,
            None,
            false,
            "The request body is too large",
        ),
        (
            CircuitOpen,
            "circuit-open",
            503,
            None,
            true,
            "The upstream is not asked for now",
        ),
        (
            DeadlineExceeded,
            "deadline-exceeded",
            504,
            Unknown,
            true,
            "The deadline has passed",
        ),
        (
            InProgress,
            "in-progress",
            409,
            Unknown,
            true,
            "The operation is still running",
        ),
        (
            KeyInvalid,
            "key-invalid",
            400,
            None,
            false,
            "The idempotency key is not valid",
        ),
        (
            KeyMissing,
            "key-missing",
            400,
            None,
            false,
            "An idempotency key is required",
        ),
        (
            KeyReused,
            "key-reused",
            422,
            None,
            false,
            "The key belongs to another request",
        ),
        (
            KeyWeak,
            "key-weak",
            400,
            None,
            false,
            "The idempotency key could be guessed",
        ),
        (
            NoRoute,
            "no-route",
            404,
            None,
            false,
            "No route matches the request",
        ),
        (
            OperationNotFound,
            "operation-not-found",
            404,
            None,
            false,
            "No such operation",
        ),
        (
            OutcomeUnknown,
            "outcome-unknown",
            409,
            Unknown,
            false,
            "The outcome is not known",
        ),
        (
            Overloaded,
            "overloaded",
            503,
            None,
            true,
            "Too much work at once",
        ),
        (
            PrincipalUnknown,
            "principal-unknown",
            400,
            None,
            false,
            "The principal is not known",
        ),
        (
            QuotaExceeded,
            "quota-exceeded",
            429,
            None,
            true,
            "Too many live keys",
        ),
        (
            ResponseNotStored,
            "response-not-stored",
            409,
            Unknown,
            false,
            "The answer was not kept",
        ),
        (
            StoreUnavailable,
            "store-unavailable",
            503,
            None,
            true,
            "The record store is unavailable",
        ),
        (
            UpstreamFailed,
            "upstream-failed",
            502,
            Unknown,
            true,
            "The upstream gave no whole answer",
        ),
        (
            UpstreamUnreachable,
            "upstream-unreachable",
            503,
            None,
            true,
            "The upstream could not be reached",
        ),
    ]
};

impl Slug {
    fn line(self) -> &'static Line {
        // The table is ordered as the enum is; a test holds it.
        &TABLE[self as usize]
    }

    /// The word itself.
    pub fn as_str(self) -> &'static str {
        self.line().1
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One answer of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its kind.
    pub slug: Slug,
    /// Its status; the table's unless [`Problem::with_status`] says otherwise.
    pub status: StatusCode,
    /// What this request may have done.
    pub effect: Effect,
    /// Sending the same thing again, under the same key, is sensible.
    pub retryable: bool,
    /// What happened, and the next step.
    pub detail: String,
    /// The operation, where a record exists.
    pub operation_id: Option<OperationId>,
    /// The status of the answer that was not kept.
    pub original_status: Option<StatusCode>,
    /// Whole seconds to wait before asking again.
    pub retry_after_s: Option<u64>,
}

impl Problem {
    /// The table's answer for `slug`.
    pub fn new(slug: Slug, detail: impl Into<String>) -> Problem {
        let (_, _, status, effect, retryable, _) = *slug.line();
        Problem {
            slug,
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            effect,
            retryable,
            detail: detail.into(),
            operation_id: None,
            original_status: None,
            retry_after_s: matches!(status, 503).then_some(1),
        }
    }

    /// With another status, where the table has two.
    pub fn with_status(self, status: StatusCode) -> Problem {
        Problem { status, ..self }
    }

    /// With what this request may have done.
    pub fn with_effect(self, effect: Effect) -> Problem {
        Problem { effect, ..self }
    }

    /// With whether sending the same thing again is sensible.
    pub fn with_retryable(self, retryable: bool) -> Problem {
        Problem { retryable, ..self }
    }

    /// With the operation that it speaks of.
    pub fn of_operation(self, id: OperationId) -> Problem {
        Problem {
            operation_id: Some(id),
            ..self
        }
    }

    /// With a time to wait, in whole seconds.
    pub fn retry_after(self, seconds: u64) -> Problem {
        Problem {
            retry_after_s: Some(seconds),
            ..self
        }
    }

    /// With the status of the answer that was not kept.
    pub fn originally(self, status: Option<StatusCode>) -> Problem {
        Problem {
            original_status: status,
            ..self
        }
    }

    /// The body, as JSON.
    pub fn body(&self) -> Vec<u8> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
        put(
            "type",
            format!("urn:steadfast:problem:{}", self.slug).into(),
        );
        put("title", self.slug.line().5.into());
        put("status", self.status.as_u16().into());
        put("detail", self.detail.clone().into());
        put("effect", self.effect.as_str().into());
        put("retryable", self.retryable.into());
        if let Some(id) = self.operation_id {
            put("operation_id", id.to_string().into());
        }
        if let Some(status) = self.original_status {
            put("original_status", status.as_u16().into());
        }
        Value::Object(members).to_string().into_bytes()
    }

    /// The headers, less those of framing.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(
            "steadfast-effect",
            HeaderValue::from_static(self.effect.as_str()),
        );
        let (error, slug) = (self.proxy_error(), self.slug);
        let status = format!("steadfast; error={error}; details=\"{slug}\"");
        if let Ok(value) = HeaderValue::from_str(&status) {
            headers.insert("proxy-status", value);
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let (Slug::InProgress, Some(id)) = (self.slug, self.operation_id)
            && let Ok(address) = HeaderValue::from_str(&status_address(id))
        {
            headers.insert(header::LOCATION, address);
        }
        headers
    }

    /// The error type of RFC 9209 2.3 that fits best.
    fn proxy_error(&self) -> &'static str {
        match self.slug {
            Slug::BadRequest
            | Slug::BodyTooLarge
            | Slug::KeyInvalid
            | Slug::KeyMissing
            | Slug::KeyReused
            | Slug::KeyWeak
            | Slug::PrincipalUnknown => "http_request_error",
            Slug::NoRoute | Slug::OperationNotFound => "destination_not_found",
            Slug::CircuitOpen | Slug::UpstreamUnreachable => "destination_unavailable",
            Slug::DeadlineExceeded => "connection_timeout",
            Slug::UpstreamFailed if self.status == StatusCode::GATEWAY_TIMEOUT => {
                "http_response_timeout"
            }
            Slug::UpstreamFailed | Slug::OutcomeUnknown => "http_response_incomplete",
            Slug::InProgress | Slug::QuotaExceeded | Slug::ResponseNotStored => {
                "http_request_denied"
            }
            Slug::Overloaded | Slug::StoreUnavailable => "proxy_internal_error",
        }
    }
}

/// Where the state of an operation is asked, on the data port.
pub fn status_address(id: OperationId) -> String {
    format!("/.steadfast/operations/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_as_the_slugs_are() {
        for (at, line) in TABLE.iter().enumerate() {
            assert_eq!(line.0 as usize, at, "{}", line.1);
        }
    }

    #[test]
    fn a_problem_s_body_says_type_status_effect_and_next_step() {
        let id = OperationId::from_bits(7);
        let problem = Problem::new(Slug::InProgress, "say \"when\"")
            .of_operation(id)
            .retry_after(1);
        let body: Value = serde_json::from_slice(&problem.body()).unwrap();
        assert_eq!(body["type"], "urn:steadfast:problem:in-progress");
        assert_eq!(body["status"], 409);
        assert_eq!(body["effect"], "unknown");
        assert_eq!(body["retryable"], true);
        assert_eq!(body["detail"], "say \"when\"");
        assert_eq!(body["operation_id"], "00000000000000000000000000000007");
        let headers = problem.headers();
        assert_eq!(headers["retry-after"], "1");
        let address = "/.steadfast/operations/00000000000000000000000000000007";
        assert_eq!(headers["location"], address);
        let proxy = "steadfast; error=http_request_denied; details=\"in-progress\"";
        assert_eq!(headers["proxy-status"], proxy);
        assert!(
            !headers.contains_key("idempotent-replayed"),
            "problems carry no such header"
        );
    }
}
