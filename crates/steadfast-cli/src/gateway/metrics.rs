//! The metrics of a gateway, under the names of docs/operations.md, "Metrics".
//!
//! Counts what it is told; what stands somewhere else already (records, connections) is read when
//! somebody asks. Labels come from the configuration and from fixed sets of words, never from a
//! request: keys, tenants and paths are no labels.

mod labels;
mod records;
mod scrape;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use steadfast::client::pool::PoolStatus;
use steadfast::event::{
    AttemptEnded, End, Event, KeyedOutcome, RequestOutcome, RouteId, StoreOperation,
};
use steadfast::store::Store;

use super::attempts::CALLER_LEFT;
use super::watch::Named;
use labels::{
    AttemptLabels, Ended, InstanceLabels, KindLabels, Label, OperationLabels, OutcomeLabels,
    ReasonLabels, RouteLabels,
};
use records::Records;
use scrape::{Now, Scraped};

pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

/// Upper ends of histograms' buckets, in seconds: three a decade from half a millisecond, which is
/// a call inside one machine, to a minute, which no default lets anything take. The default limits
/// of an attempt (20 s) and of a request (30 s) are among them, so that what they cut can be told.
pub const BUCKETS_S: [f64; 18] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Instances that lost a lease and are named; those beyond it count as `other`. An instance is a
/// process from its start to its end, so a fleet that restarts all day makes ever new ones.
const INSTANCES_MAX: usize = 100;

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    routes: Vec<OfRoute>,
    attempts: Family<AttemptLabels, Counter>,
    skipped: Family<ReasonLabels, Counter>,
    leases: Family<InstanceLabels, Counter>,
    instances: Mutex<HashSet<String>>,
    store: Vec<Histogram>,
    waits: Histogram,
    holds: Histogram,
    waiting: AtomicI64,
    expired: Counter,
    malformed: Counter,
    records: Arc<Records>,
    scraped: Arc<Scraped>,
}

/// What is counted for one route, found once.
struct OfRoute {
    label: Label,
    requests: Vec<Counter>,
    keyed: Vec<Counter>,
    unprotected: Counter,
    request_seconds: Histogram,
    attempt_seconds: Option<Histogram>,
}

/// A histogram of seconds.
fn seconds() -> Histogram {
    Histogram::new(BUCKETS_S)
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// A registry under construction.
struct Register(Registry);

impl Register {
    fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0
            .register(format!("steadfast_{name}"), help, metric.clone());
        metric
    }

    fn seconds<L>(&mut self, name: &str, help: &str) -> Seconds<L>
    where
        L: Clone + Eq + std::hash::Hash,
        Seconds<L>: Metric + Clone,
    {
        self.add(name, help, Family::new_with_constructor(seconds))
    }
}

/// Families with a series for each route.
struct Routed {
    requests: Family<OutcomeLabels, Counter>,
    keyed: Family<OutcomeLabels, Counter>,
    unprotected: Family<RouteLabels, Counter>,
    request_seconds: Seconds<RouteLabels>,
    attempt_seconds: Seconds<RouteLabels>,
}

impl Routed {
    fn new(to: &mut Register) -> Routed {
        Routed {
            requests: to.add(
                "requests",
                "Requests, by what their callers were given",
                Family::default(),
            ),
            keyed: to.add(
                "keyed",
                "Answered requests with a key, by what came of them",
                Family::default(),
            ),
            unprotected: to.add(
                "unprotected",
                "Requests with a key that went out without a record, their store having failed",
                Family::default(),
            ),
            request_seconds: to.seconds(
                "request_seconds",
                "From a request's head to the head of its answer",
            ),
            attempt_seconds: to.seconds(
                "attempt_seconds",
                "From the asking for a connection to the head of the answer, or to the failure",
            ),
        }
    }

    /// Every series of a route, so that each is there from the start, at zero.
    fn of(&self, route: &Named) -> OfRoute {
        let label = Label(Arc::clone(&route.label));
        let outcome = |outcome| OutcomeLabels {
            route: label.clone(),
            outcome,
        };
        let own = RouteLabels {
            route: label.clone(),
        };
        let requests = RequestOutcome::ALL.iter().map(|o| o.as_str());
        let keyed = KeyedOutcome::ALL.iter().map(|o| o.as_str());
        let count = |family: &Family<OutcomeLabels, Counter>, words: Vec<&'static str>| {
            let counters = words.into_iter();
            let counters = counters.map(|word| family.get_or_create_owned(&outcome(word)));
            counters.collect::<Vec<_>>()
        };
        let forwards = !route.upstream.is_empty();
        OfRoute {
            requests: count(&self.requests, requests.collect()),
            keyed: match route.keyed {
                true => count(&self.keyed, keyed.collect()),
                false => Vec::new(),
            },
            unprotected: match route.keyed {
                true => self.unprotected.get_or_create_owned(&own),
                false => Counter::default(),
            },
            request_seconds: self.request_seconds.get_or_create_owned(&own),
            attempt_seconds: forwards.then(|| self.attempt_seconds.get_or_create_owned(&own)),
            label,
        }
    }
}

impl Metrics {
    /// The metrics of a gateway with these routes, in the order of their numbers.
    pub fn new(routes: &[Named]) -> Metrics {
        let mut to = Register(Registry::default());
        let routed = Routed::new(&mut to);
        let routes = routes.iter().map(|route| routed.of(route)).collect();
        let attempts = to.add(
            "attempts",
            "Attempts that ended, by number and by status or error",
            Family::default(),
        );
        let skipped = to.add(
            "retries_skipped",
            "Attempts without an answer that no other followed, by reason",
            Family::default(),
        );
        let leases = to.add(
            "leases_expired",
            "Leases that ended without their holders, by the holders' instances",
            Family::default(),
        );
        let by_operation: Seconds<OperationLabels> =
            to.seconds("store_seconds", "The record store's calls");
        let store = StoreOperation::ALL.map(|operation| {
            let operation = operation.as_str();
            by_operation.get_or_create_owned(&OperationLabels { operation })
        });
        let key = KindLabels { kind: "key" };
        let waits = to
            .seconds("wait_seconds", "Duplicates' waits for operations at work")
            .get_or_create_owned(&key);
        let holds = to
            .seconds("hold_seconds", "Operations at work under their keys")
            .get_or_create_owned(&key);
        let expired = to.add(
            "records_expired",
            "Records removed after their retention",
            Counter::default(),
        );
        let malformed = to.add(
            "malformed",
            "Messages refused for their framing",
            Counter::default(),
        );
        let scraped = Arc::new(Scraped::default());
        let Register(mut registry) = to;
        registry.register_collector(Box::new(Arc::clone(&scraped)));
        Metrics {
            registry,
            routes,
            attempts,
            skipped,
            leases,
            instances: Mutex::default(),
            store: store.into(),
            waits,
            holds,
            waiting: AtomicI64::new(0),
            expired,
            malformed,
            records: Arc::default(),
            scraped,
        }
    }

    /// Counts what happened.
    pub fn note(&self, event: &Event<'_>) {
        match event {
            Event::Attempt(ended) => self.attempt(ended),
            Event::Keyed(answered) => {
                if let Some(route) = self.route(answered.route)
                    && let Some(counter) = route.keyed.get(answered.outcome as usize)
                {
                    counter.inc();
                }
            }
            Event::Request {
                route,
                outcome,
                took,
            } => {
                let Some(route) = self.route(*route) else {
                    return;
                };
                if let Some(counter) = route.requests.get(*outcome as usize) {
                    counter.inc();
                }
                route.request_seconds.observe(took.as_secs_f64());
            }
            Event::Unprotected(route) => {
                if let Some(route) = self.route(*route) {
                    route.unprotected.inc();
                }
            }
            Event::LeaseExpired(owner) => self.lease_expired(owner.instance()),
            Event::WaitBegan => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            Event::WaitEnded(waited) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                self.waits.observe(waited.as_secs_f64());
            }
            Event::HoldEnded(held) => self.holds.observe(held.as_secs_f64()),
            Event::Store { operation, took } => {
                if let Some(histogram) = self.store.get(*operation as usize) {
                    histogram.observe(took.as_secs_f64());
                }
            }
            Event::Malformed => {
                self.malformed.inc();
            }
            Event::Expired(count) => {
                self.expired.inc_by(u64::from(*count));
            }
        }
    }

    fn attempt(&self, ended: &AttemptEnded<'_>) {
        let Some(route) = self.route(ended.route) else {
            return;
        };
        let result = match ended.end {
            End::Answered(status) => Ended::Status(status.as_u16()),
            End::Failed(failure) => Ended::Error(failure.slug()),
            End::CallerLeft => Ended::Error(CALLER_LEFT),
        };
        let labels = AttemptLabels {
            route: route.label.clone(),
            attempt: labels::number(ended.number),
            result,
        };
        self.attempts.get_or_create(&labels).inc();
        if let Some(reason) = ended.skipped {
            let labels = ReasonLabels {
                route: route.label.clone(),
                reason: reason.as_str(),
            };
            self.skipped.get_or_create(&labels).inc();
        }
        // A limit cuts an attempt up to the head, so this is what is compared with it.
        let to_head = ended.to_head.unwrap_or(ended.took);
        if let Some(histogram) = &route.attempt_seconds {
            histogram.observe(to_head.as_secs_f64());
        }
    }

    fn lease_expired(&self, instance: String) {
        let mut named = self
            .instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_named = named.contains(&instance)
            || (named.len() < INSTANCES_MAX && named.insert(instance.clone()));
        let instance = if is_named {
            instance
        } else {
            "other".to_owned()
        };
        self.leases
            .get_or_create(&InstanceLabels { instance })
            .inc();
    }

    fn route(&self, route: RouteId) -> Option<&OfRoute> {
        self.routes.get(usize::try_from(route.0).ok()?)
    }

    /// All metrics in Prometheus's text format (version 0.0.4). Whatever the store does, there is
    /// an answer: what cannot be read of it is not there.
    pub async fn render(
        &self,
        store: &Arc<dyn Store>,
        upstreams: Vec<(String, PoolStatus)>,
    ) -> Result<String, fmt::Error> {
        let (store_up, status) = self.records.look(store).await;
        self.scraped.set(Now {
            store_up,
            status,
            upstreams,
            waiting: self.waiting.load(Ordering::Relaxed),
            lines_dropped: crate::log::lines_dropped(),
        });
        let mut text = String::new();
        prometheus_client::encoding::prometheus_text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
