//! The server side: a keyed request happens once, over any way to its effect.
//!
//! One direction: [`Server::call`] claims a record ([`claim`]), works under it on a task of its own
//! ([`work`]), and gives the caller what came of it ([`reply`]); a duplicate waits ([`wait`]). Whether,
//! who and what is [`steadfast_core::record`]'s to say, each time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use steadfast_core::deadline::Deadline;
use steadfast_core::fingerprint::{Fingerprint, RequestView};
use steadfast_core::key::{Key, Operation, ScopeHash, Tenant};
use steadfast_core::policy::{InFlight, OnUnknown, RoutePolicy};
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::record::{OperationId, Owner, Record, Sameness};
use tokio::sync::{Semaphore, watch};

use crate::body::Body;
use crate::clock;
use crate::store::{Secrets, Store};

pub mod admission;
mod claim;
pub mod execute;
mod hold;
mod layer;
mod observe;
pub mod operate;
mod reply;
pub mod status;
mod sweeper;
mod wait;
mod withdraw;
mod work;

pub use execute::{Execute, Executed, Failed};
pub use layer::{Caller, IdempotencyLayer, IdempotencyService, KeyedOperation};
pub use observe::Trust;
pub use reply::{problem, with_attempts};
pub use sweeper::{Swept, sweep};

/// Bounds that hold for a whole process, each with its reason.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Keyed requests at work at once, refused as `overloaded` beyond: each holds a task, a body and a
    /// record.
    pub tasks: usize,
    /// Duplicates waiting at once, over all keys: each holds a connection.
    pub waiters: usize,
    /// The shortest lease of any route: by so much may the store's clock run ahead before expiry stops.
    pub lease: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            tasks: 10_000,
            waiters: 10_000,
            lease: Duration::from_secs(30),
        }
    }
}

/// Who sends a request: the rule that found out, and what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The rule, as it is written in the configuration. Kept in the record.
    pub rule: String,
    /// What of the rule applied, such as `authorization` or `anonymous`.
    pub kind: String,
    /// The identity itself. Only its hash is kept.
    pub value: Bytes,
}

/// A keyed request, checked as far as its key and principal.
#[derive(Debug)]
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
}

/// A request that asks for a record, with everything that names it.
struct Asked {
    parts: Parts,
    target: String,
    body: Bytes,
    key: Key,
    policy: Arc<RoutePolicy>,
    deadline: Deadline,
    scope: ScopeHash,
    tenant: Tenant,
    rule: String,
    operation: Operation,
    fingerprint: Fingerprint,
}

/// The server side of one process over one store. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    secrets: Secrets,
    instance: u64,
    limits: Limits,
    tasks: Arc<Semaphore>,
    waiting: wait::Waiting,
    withdrawn: withdraw::Withdrawn,
    leases: observe::Leases,
    trust: Trust,
    stop: watch::Sender<bool>,
}

impl Server {
    /// A server over `store`. Reads the store's secrets.
    pub async fn new(
        store: Arc<dyn Store>,
        limits: Limits,
    ) -> Result<Server, crate::store::StoreError> {
        let secrets = store.secrets().await?;
        let now = store.now().await?;
        let inner = Inner {
            store,
            secrets,
            instance: u64::from_le_bytes(clock::random()) & 0xffff_ffff_ffff,
            limits,
            tasks: Arc::new(Semaphore::new(limits.tasks)),
            waiting: wait::Waiting::new(limits.waiters),
            withdrawn: withdraw::Withdrawn::default(),
            leases: observe::Leases::default(),
            trust: Trust::new(now, clock::mono_now(), limits.lease),
            stop: watch::Sender::new(false),
        };
        Ok(Server {
            inner: Arc::new(inner),
        })
    }

    /// The same server, making fingerprints with the secret `id`; `None` where the store does not know
    /// it, so that nothing could be read with it later.
    ///
    /// # Panics
    /// When the server was cloned before: a secret is chosen at the start.
    pub fn with_secret(mut self, id: u32) -> Option<Server> {
        let inner = Arc::get_mut(&mut self.inner).expect("a secret is chosen at the start");
        inner.secrets = inner.secrets.clone().with_present(id)?;
        Some(self)
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The store's secrets.
    pub fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    /// A fresh token for a hold of this process.
    pub fn owner(&self) -> Owner {
        Owner::new(self.inner.instance, clock::random_bits())
    }

    /// This process, as it stands in owners.
    pub fn instance(&self) -> String {
        self.owner().instance()
    }

    /// The hashed principal, as it stands in records.
    pub fn tenant(&self, principal: &Principal) -> Tenant {
        match principal.kind.as_str() {
            "anonymous" => Tenant::anonymous(),
            kind => Tenant::of(&self.inner.secrets.scope, kind, &principal.value),
        }
    }

    /// Answers a keyed request: executes it once by `execute`, or gives what an earlier one came to.
    ///
    /// Once the work is dispatched it ends by itself, whether or not this future is still polled (T5).
    pub async fn call<E: Execute>(&self, call: Call, execute: E) -> Response<Body> {
        let asked = Arc::new(self.asked(call));
        let started = clock::mono_now();
        let mut waits = 0;
        loop {
            let met = match claim::start(self, Arc::clone(&asked), execute.clone()).await {
                work::Reply::Answer(response) => return *response,
                work::Reply::InFlight(row) => row,
            };
            let waited = clock::mono_now().since(started);
            match wait::duplicate(self, &asked, &met, waited, waits).await {
                wait::Waited::Answer(response) => return *response,
                wait::Waited::AskAgain => waits += 1,
            }
        }
    }

    /// Waits until no keyed work is left, for `limit` at most; then stops what is left and writes it
    /// down as unknown (reason `shutdown`). Gives the number of works that were stopped.
    pub async fn drain(&self, limit: Duration) -> usize {
        let all = u32::try_from(self.inner.limits.tasks).unwrap_or(u32::MAX);
        if clock::within(limit, self.inner.tasks.acquire_many(all))
            .await
            .is_ok()
        {
            return 0;
        }
        let left = self.inner.limits.tasks - self.inner.tasks.available_permits();
        self.inner.stop.send_replace(true);
        // What was stopped still has to be written down; a store that does not take it in this time
        // leaves its rows to the end of their leases, which says the same.
        let _ = clock::within(STOP_WRITES, self.inner.tasks.acquire_many(all)).await;
        left
    }

    fn asked(&self, call: Call) -> Asked {
        let tenant = self.tenant(&call.principal);
        let path = call.target.split('?').next().unwrap_or_default();
        let operation = Operation::new(&call.parts.method, path);
        let rules = &call.policy.idempotency;
        let secrets = &self.inner.secrets;
        let scope = steadfast_core::key::scope_hash(
            &secrets.scope,
            &tenant,
            &operation,
            &call.key,
            rules.scope,
        );
        let view = RequestView {
            method: &call.parts.method,
            path_and_query: call.target.as_bytes(),
            headers: &call.parts.headers,
            body: &call.body,
        };
        let fingerprint = Fingerprint::of(&view, &rules.fingerprint, secrets.present());
        Asked {
            scope,
            tenant,
            rule: call.principal.rule,
            operation,
            fingerprint,
            parts: call.parts,
            target: call.target,
            body: call.body,
            key: call.key,
            policy: call.policy,
            deadline: call.deadline,
        }
    }

    /// Whether `asked` is the request that `row` was made for, by the row's own options and secret.
    fn sameness(&self, row: &Record, asked: &Asked) -> Sameness {
        let view = RequestView {
            method: &asked.parts.method,
            path_and_query: asked.target.as_bytes(),
            headers: &asked.parts.headers,
            body: &asked.body,
        };
        match row
            .standing
            .fingerprint
            .matches(&view, &self.inner.secrets.fingerprints)
        {
            Ok(true) => Sameness::Same,
            Ok(false) => Sameness::Different,
            Err(_) => Sameness::Unreadable,
        }
    }
}

/// How long a stop waits for the last writes.
const STOP_WRITES: Duration = Duration::from_secs(5);

impl Asked {
    /// The hold it would take.
    fn request(&self, owner: Owner, id: OperationId) -> steadfast_core::record::Request {
        steadfast_core::record::Request {
            scope: self.scope,
            id,
            tenant: self.tenant.clone(),
            principal_rule: self.rule.clone(),
            operation: self.operation.clone(),
            key: self.key.clone(),
            fingerprint: self.fingerprint.clone(),
            on_unknown: self.policy.idempotency.on_unknown,
            lease: self.policy.idempotency.lease,
            owner,
        }
    }

    /// Whether sending the same thing again may bring the outcome.
    fn may_repeat(&self, honours_key: bool) -> bool {
        honours_key || self.policy.idempotency.on_unknown != OnUnknown::Hold
    }

    fn in_flight(&self) -> InFlight {
        self.policy.idempotency.in_flight
    }

    /// The answer when the store gave none (I12).
    fn store_unavailable(&self) -> Problem {
        Problem::new(
            Slug::StoreUnavailable,
            "The record store gave no answer, so nothing was sent. An earlier request with this key may \
             have executed. Send the same request with the same key again.",
        )
    }
}
