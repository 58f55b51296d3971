//! A keyed request, as it is asked: by whom, what, under which rules.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use steadfast_core::deadline::Deadline;
use steadfast_core::fingerprint::Fingerprint;
use steadfast_core::key::{Key, Operation, ScopeHash, Tenant};
use steadfast_core::policy::{InFlight, RoutePolicy};
use steadfast_core::principal::{self, PrincipalError, PrincipalRule};
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::record::{self, OperationId, Owner, Standing};

use crate::event::RouteId;

/// Who sends a request: the rule that found out, and what it found.
#[derive(Clone, PartialEq, Eq)]
pub struct Principal {
    /// The rule, as it is written in the configuration. Kept in the record.
    pub rule: String,
    /// What of the rule applied, such as `authorization` or `anonymous`.
    pub kind: String,
    /// The identity itself. Only its hash is kept.
    pub value: Bytes,
}

impl Principal {
    /// Whose a request with these fields is, by `rule`. `peer_is_trusted` says whether the
    /// connection is from one that may name principals in a field of its own.
    ///
    /// # Errors
    /// The problem to answer with, where there is no telling.
    pub fn by_rule(
        rule: &PrincipalRule,
        fields: &HeaderMap,
        peer_is_trusted: bool,
    ) -> Result<Principal, Problem> {
        let found = rule.evaluate(fields, peer_is_trusted).map_err(no_telling)?;
        let (kind, value) = match found {
            principal::Principal::Anonymous => ("anonymous".to_owned(), Vec::new()),
            principal::Principal::Proven { kind, value } => (kind, value),
        };
        Ok(Principal {
            rule: rule.to_string(),
            kind,
            value: value.into(),
        })
    }
}

fn no_telling(error: PrincipalError) -> Problem {
    let detail = error.to_string();
    match error {
        PrincipalError::UntrustedPeer => {
            Problem::new(Slug::PrincipalUnknown, detail).with_status(StatusCode::FORBIDDEN)
        }
        PrincipalError::Repeated(_) => Problem::new(Slug::BadRequest, detail),
        PrincipalError::CookieOnly | PrincipalError::Absent(_) => {
            Problem::new(Slug::PrincipalUnknown, detail)
        }
    }
}

impl fmt::Debug for Principal {
    /// The rule alone: the identity is a credential (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principal")
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

/// A keyed request, checked as far as its key and principal.
pub struct Call {
    /// The request's head, as the upstream is to see it, less the key, which is set anew.
    pub parts: Parts,
    /// The path and query as the caller sent them, byte for byte.
    pub target: String,
    /// The whole body.
    pub body: Bytes,
    /// The caller's key.
    pub key: Key,
    /// Who calls.
    pub principal: Principal,
    /// The route's rules.
    pub policy: Arc<RoutePolicy>,
    /// Until when the caller waits.
    pub deadline: Deadline,
    /// The route, for whoever observes.
    pub route: RouteId,
}

impl fmt::Debug for Call {
    /// Method, length and principal's rule: no target, header or body (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.parts.method)
            .field("body_bytes", &self.body.len())
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

/// A request that asks for a record, with everything that names it.
pub(super) struct Asked {
    pub(super) parts: Parts,
    pub(super) target: String,
    pub(super) body: Bytes,
    pub(super) key: Key,
    pub(super) policy: Arc<RoutePolicy>,
    pub(super) deadline: Deadline,
    pub(super) route: RouteId,
    pub(super) scope: ScopeHash,
    pub(super) tenant: Tenant,
    pub(super) rule: String,
    pub(super) operation: Operation,
    pub(super) fingerprint: Fingerprint,
}

impl Asked {
    /// The hold it would take.
    pub(super) fn request(&self, owner: Owner, id: OperationId) -> record::Request {
        record::Request {
            scope: self.scope,
            id,
            tenant: self.tenant.clone(),
            principal_rule: self.rule.clone(),
            operation: self.operation.clone(),
            key: self.key.clone(),
            fingerprint: self.fingerprint.clone(),
            on_unknown: self.policy.idempotency.on_unknown,
            lease: self.policy.idempotency.lease,
            retention: self.policy.idempotency.retention,
            body_retention: self.policy.idempotency.kept_body(),
            owner,
        }
    }

    /// Whether sending the same thing again may bring the outcome of what stands.
    pub(super) fn may_repeat(&self, standing: &Standing) -> bool {
        record::may_be_learnt(standing, self.policy.idempotency.on_unknown)
    }

    pub(super) fn in_flight(&self) -> InFlight {
        self.policy.idempotency.in_flight
    }

    /// The answer when the store gave none (I12).
    pub(super) fn store_unavailable(&self) -> Problem {
        Problem::new(
            Slug::StoreUnavailable,
            "The record store gave no answer, so nothing was sent. An earlier request with this \
             key may have executed. Send the same request with the same key again.",
        )
    }
}
