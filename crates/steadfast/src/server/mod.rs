//! The server side: a keyed request happens once, over any way to its effect.
//!
//! One direction: [`Server::call`] claims a record (`claim`), works under it on a task of its own
//! (`work`), takes the answer (`answer`), writes it down (`finish`) and gives the caller what
//! came of it (`reply`); a duplicate waits (`wait`). Whether, who and what is
//! [`steadfast_core::record`]'s to say, each time.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use steadfast_core::fingerprint::{Fingerprint, RequestView};
use steadfast_core::key::{Operation, Tenant};
use steadfast_core::record::{Owner, Record, Sameness};
use steadfast_core::trace_context::TraceId;
use tokio::sync::{Semaphore, watch};

use crate::body::Body;
use crate::clock;
use crate::event::{Event, KeyedAnswered, KeyedOutcome, Observer, RequestOutcome, nobody};
use crate::store::timed::Timed;
use crate::store::{Secrets, Store};

pub mod admission;
mod answer;
mod call;
mod caller;
mod claim;
pub mod execute;
#[cfg(feature = "axum")]
mod extract;
mod finish;
mod hold;
mod layer;
mod observe;
pub mod operate;
mod operation;
mod repeat;
mod reply;
mod serve;
#[cfg(feature = "sqlite")]
mod start;
pub mod status;
mod sweeper;
mod unprotected;
mod wait;
mod withdraw;
mod work;

use call::Asked;
pub use call::{Call, Principal};
pub use execute::{AttemptNumber, Execute, Executed, Failed};
#[cfg(feature = "axum")]
pub use extract::NotKeyed;
pub use layer::{Caller, IdempotencyLayer, IdempotencyService};
pub use observe::Trust;
pub use operation::KeyedOperation;
pub use reply::{problem, with_attempts};
pub use serve::{Served, Stop};
#[cfg(feature = "sqlite")]
pub use start::StartError;
pub use sweeper::{Due, Swept, due, sweep, sweep_all, sweep_on};

/// Bounds that hold for a whole process, each with its reason.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Keyed requests at work at once, refused as `overloaded` beyond: each holds a task, a body
    /// and a record.
    pub tasks: usize,
    /// Duplicates waiting at once, over all keys: each holds a connection.
    pub waiters: usize,
    /// The shortest lease of any route: by so much may the store's clock run ahead before expiry
    /// stops.
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

/// The answer to a keyed request, and what came of it.
#[derive(Debug)]
pub struct Answered {
    /// The answer.
    pub response: Response<Body>,
    /// What came of the request, by its key.
    pub outcome: KeyedOutcome,
    /// What its caller was given, as with any request.
    pub request: RequestOutcome,
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
    unreadable: observe::Unreadable,
    trust: Trust,
    observer: Arc<dyn Observer>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// A server over `store`. Reads the store's secrets.
    pub async fn new(
        store: Arc<dyn Store>,
        limits: Limits,
    ) -> Result<Server, crate::store::StoreError> {
        let secrets = store.secrets().await?;
        // Where the store's date is ahead of its clock already, it ran ahead before this process
        // began, and must not be taken for the time.
        let now = store.now().await?.less(store.ahead().await?);
        let inner = Inner {
            store,
            secrets,
            instance: u64::from_le_bytes(clock::random()) & 0xffff_ffff_ffff,
            limits,
            tasks: Arc::new(Semaphore::new(limits.tasks)),
            waiting: wait::Waiting::new(limits.waiters),
            withdrawn: withdraw::Withdrawn::default(),
            leases: observe::Leases::default(),
            unreadable: observe::Unreadable::default(),
            trust: Trust::new(now, clock::mono_now(), limits.lease),
            observer: nobody(),
            stop: watch::Sender::new(false),
        };
        Ok(Server {
            inner: Arc::new(inner),
        })
    }

    /// The same server, making fingerprints with the secret `id`; `None` where the store does not
    /// know it, so that nothing could be read with it later.
    ///
    /// # Panics
    /// When the server was cloned before: a secret is chosen at the start.
    pub fn with_secret(mut self, id: u32) -> Option<Server> {
        let inner = Arc::get_mut(&mut self.inner).expect("a secret is chosen at the start");
        inner.secrets = inner.secrets.clone().with_present(id)?;
        Some(self)
    }

    /// The same server, telling `observer` what happens, the times of its store among it.
    ///
    /// # Panics
    /// When the server was cloned before: an observer is chosen at the start.
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Server {
        let inner = Arc::get_mut(&mut self.inner).expect("an observer is chosen at the start");
        inner.store = Arc::new(Timed::new(Arc::clone(&inner.store), Arc::clone(&observer)));
        inner.observer = observer;
        self
    }

    /// Who is told what happens.
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.inner.observer
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

    /// Answers a keyed request: executes it once by `execute`, or gives what an earlier one came
    /// to.
    ///
    /// Once the work is dispatched it ends by itself, whether or not this future is still polled
    /// (T5).
    pub async fn call<E: Execute>(&self, call: Call, execute: E) -> Response<Body> {
        self.answer(call, execute).await.response
    }

    /// The same, with what came of it in a word.
    pub async fn answer<E: Execute>(&self, call: Call, execute: E) -> Answered {
        let asked = Arc::new(self.asked(call));
        let started = clock::mono_now();
        let mut waits = 0;
        let given = loop {
            let met = match claim::start(self, Arc::clone(&asked), execute.clone()).await {
                caller::Reply::Answer(given) => break given,
                caller::Reply::InFlight(row) => row,
            };
            let waited = clock::mono_now().since(started);
            let waiting = Box::pin(wait::duplicate(self, &asked, &met, waited, waits));
            match waiting.await {
                wait::Waited::Answer(given) => break given,
                wait::Waited::AskAgain => waits += 1,
            }
        };
        self.inner.observer.on(Event::Keyed(&KeyedAnswered {
            route: asked.route,
            method: &asked.parts.method,
            operation: given.operation,
            trace: TraceId::of(&asked.parts.headers),
            outcome: given.outcome,
            status: given.response.status(),
            own_attempt: given.own_attempt,
            took: clock::mono_now().since(started),
        }));
        Answered {
            response: given.response,
            outcome: given.outcome,
            request: given.request,
        }
    }

    /// Waits until no keyed work is left, for `limit` at most; then stops what is left and writes
    /// it down as unknown (reason `shutdown`). Gives the number of works that were stopped. Nothing
    /// new begins from its beginning on; finished answers are still given.
    pub async fn drain(&self, limit: Duration) -> usize {
        let all = u32::try_from(self.inner.limits.tasks).unwrap_or(u32::MAX);
        if let Ok(Ok(places)) = clock::within(limit, self.inner.tasks.acquire_many(all)).await {
            // Nobody would write down what began now and was still running when the process ends.
            places.forget();
            return 0;
        }
        let left = self.inner.limits.tasks - self.inner.tasks.available_permits();
        self.inner.stop.send_replace(true);
        // What was stopped still has to be written down; a store that does not take it in this time
        // leaves its rows to the end of their leases, which says the same.
        let _ = clock::within(STOP_WRITES, self.inner.tasks.acquire_many(all)).await;
        left
    }

    /// The record is past its expiry, so that it counts as absent, swept or not. A store that does
    /// not tell its date ends nothing.
    pub async fn is_gone(&self, row: &Record) -> bool {
        let Ok(now) = self.store().now().await else {
            return false;
        };
        self.inner.trust.allows_expiry(now, clock::mono_now()) && row.is_expired(now)
    }

    /// The record as later callers are given it: without its answer, where the body's retention is
    /// over. A store that does not tell its date ends nothing.
    pub async fn as_given(&self, mut row: Record) -> Record {
        if row.standing.body_ends_at().is_some()
            && let Ok(now) = self.store().now().await
            && self.inner.trust.allows_expiry(now, clock::mono_now())
            && row.standing.body_is_over(now)
        {
            row.standing = row.standing.without_body();
        }
        row
    }

    /// The process ends: nothing is sent any more.
    fn is_stopping(&self) -> bool {
        *self.inner.stop.borrow()
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
            route: call.route,
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
