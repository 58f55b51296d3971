//! Where what `call --defer` handed over goes: each operation names it itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use steadfast::client::pool::{Pool, PoolSettings};
use steadfast::client::{Scheme, SharedUpstream, Target, TlsFiles, UpstreamTls};
use steadfast::event::{RouteId, nobody};
use steadfast::server::{Routed, Routes};
use steadfast_core::deferral::Deferral;
use steadfast_core::key::Operation;
use steadfast_core::policy::{Idempotency, OnUnknown, RoutePolicy};
use steadfast_core::record::Record;

use crate::gateway::service::Gateway;
use crate::gateway::upstream::Upstream;

/// Whose such operations are: nobody's who could ask the status address.
pub(crate) const PRINCIPAL: &str = "outbox";

/// The ways of the queue: a gateway's routes where there are some, and whatever an operation names.
#[derive(Clone)]
pub(super) struct Ways {
    pub(super) gateway: Option<Gateway>,
    pub(super) outbox: Outbox,
}

/// The ways of operations that name where they go.
#[derive(Clone)]
pub(super) struct Outbox {
    inner: Arc<Inner>,
}

struct Inner {
    plain: Pool,
    secure: Option<Pool>,
    upstreams: Mutex<HashMap<String, SharedUpstream>>,
    policy: Arc<RoutePolicy>,
}

impl Outbox {
    /// Every run is sent with `fields`, too.
    ///
    /// # Errors
    /// The system's certificates cannot be read, in words.
    pub(super) fn new(fields: HeaderMap) -> Result<Outbox, String> {
        let tls = UpstreamTls::new(&TlsFiles::default()).map_err(|error| error.to_string())?;
        let policy = RoutePolicy {
            // The record's own way out is the stricter one, and holds.
            idempotency: Idempotency {
                on_unknown: OnUnknown::Repeat,
                ..Idempotency::default()
            },
            deferral: Arc::new(Deferral {
                headers: fields,
                ..Deferral::default()
            }),
            ..RoutePolicy::default()
        };
        Ok(Outbox {
            inner: Arc::new(Inner {
                plain: Pool::new(PoolSettings::default()),
                secure: Some(Pool::with_tls(PoolSettings::default(), tls)),
                upstreams: Mutex::default(),
                policy: Arc::new(policy),
            }),
        })
    }

    fn to(&self, to: &str) -> Option<Routed<Upstream>> {
        let target = Target::parse(to).ok()?;
        let inner = &self.inner;
        let pool = match target.scheme() {
            Scheme::Https => inner.secure.clone()?,
            _ => inner.plain.clone(),
        };
        let mut upstreams = inner
            .upstreams
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let shared = upstreams
            .entry(to.to_owned())
            .or_insert_with(|| SharedUpstream::new(inner.policy.budget, inner.policy.breaker));
        Some(Routed {
            route: RouteId::default(),
            policy: Arc::clone(&inner.policy),
            execute: Upstream {
                pool,
                shared: shared.clone(),
                target,
                policy: Arc::clone(&inner.policy),
                incoming_attempt: 1,
                route: RouteId::default(),
                observer: nobody(),
            },
        })
    }
}

impl Routes for Ways {
    type Execute = Upstream;

    fn of(&self, operation: &Operation) -> Option<Routed<Upstream>> {
        self.gateway.as_ref()?.of(operation)
    }

    fn of_kept(&self, row: &Record) -> Option<Routed<Upstream>> {
        match &row.request()?.to {
            Some(to) => self.outbox.to(to),
            None => self.of(&row.operation),
        }
    }
}
