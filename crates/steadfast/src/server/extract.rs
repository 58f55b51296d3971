//! The operation as an axum extractor: what a handler asks for, and what a request is told that
//! has none.

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, StatusCode, header};

use super::operation::Keyless;
use super::{KeyedOperation, admission, reply};

/// Why a handler was not given its operation. The first is the caller's fault, the others are the
/// program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotKeyed {
    /// The request came without a key, in the field of this name: 400 `key-missing`.
    NoKey(HeaderName),
    /// The layer honours no keys on this request's method: 500.
    NotHonoured,
    /// The request did not pass the layer: 500.
    NoLayer,
}

impl NotKeyed {
    fn of(parts: &Parts) -> NotKeyed {
        match parts.extensions.get::<Keyless>() {
            Some(Keyless::NoKey(header)) => NotKeyed::NoKey(header.clone()),
            Some(Keyless::NotHonoured) => NotKeyed::NotHonoured,
            None => NotKeyed::NoLayer,
        }
    }
}

impl std::fmt::Display for NotKeyed {
    /// For the program's developer, with the next step.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotKeyed::NoKey(header) => write!(f, "the request has no {header}"),
            NotKeyed::NotHonoured => f.write_str(
                "the handler takes a KeyedOperation and its layer honours no keys on this method; \
                 add it to `idempotency.methods` of the layer's policy, or take an \
                 Option<KeyedOperation>",
            ),
            NotKeyed::NoLayer => f.write_str(
                "the handler takes a KeyedOperation and no IdempotencyLayer protects it; add \
                 `.layer(IdempotencyLayer::new(server))` to its route",
            ),
        }
    }
}

impl std::error::Error for NotKeyed {}

impl IntoResponse for NotKeyed {
    fn into_response(self) -> Response {
        if let NotKeyed::NoKey(header) = &self {
            return reply::problem(&admission::missing(header)).into_response();
        }
        tracing::error!("{self}");
        // `about:blank`: the problem is no more than its status (RFC 9457, 4.2.1).
        let detail = format!("Nothing was executed: {self}.");
        let problem = serde_json::json!({
            "type": "about:blank",
            "title": "Internal Server Error",
            "status": 500,
            "detail": detail,
            "effect": "none",
            "retryable": false,
        });
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let body = problem.to_string();
        (StatusCode::INTERNAL_SERVER_ERROR, kind, body).into_response()
    }
}

/// The operation of a request that has a key; any other is refused before the handler runs.
impl<S: Sync> FromRequestParts<S> for KeyedOperation {
    type Rejection = NotKeyed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<KeyedOperation, NotKeyed> {
        let operation = parts.extensions.get::<KeyedOperation>();
        operation.cloned().ok_or_else(|| NotKeyed::of(parts))
    }
}

/// The operation, or `None` for a request without a key. A handler without the layer is refused
/// all the same: it would never have a key.
impl<S: Sync> OptionalFromRequestParts<S> for KeyedOperation {
    type Rejection = NotKeyed;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> Result<Option<KeyedOperation>, NotKeyed> {
        match parts.extensions.get::<KeyedOperation>() {
            Some(operation) => Ok(Some(operation.clone())),
            None => match NotKeyed::of(parts) {
                NotKeyed::NoLayer => Err(NotKeyed::NoLayer),
                NotKeyed::NoKey(_) | NotKeyed::NotHonoured => Ok(None),
            },
        }
    }
}
