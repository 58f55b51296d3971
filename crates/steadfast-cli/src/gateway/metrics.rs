//! The metrics of a gateway, under the names of docs/operations.md, "Metrics".
//!
//! Counts what it is told; what stands somewhere else already (records, connections) is read when
//! somebody asks. Labels come from the configuration and from fixed sets of words, never from a
//! request: keys, tenants and paths are no labels.

mod families;
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
use prometheus_client::registry::Registry;
use steadfast::event::{AttemptEnded, End, Event, RouteId, StoreOperation};
use steadfast::store::Store;
use steadfast_core::retry::Reason;

use super::attempts::CALLER_LEFT;
use super::upstreams::UpstreamNow;
use super::watch::Named;
use families::{OfRoute, Register, Routed, Seconds};
use labels::{AttemptLabels, Ended, InstanceLabels, KindLabels, OperationLabels, ReasonLabels};
use records::Records;
use scrape::{Now, Scraped};

pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

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
            "Attempts that another could have followed and did not, by reason",
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
            Event::NotRepeated { route, reason } => {
                if let Some(route) = self.route(*route) {
                    self.not_repeated(route, *reason);
                }
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
            self.not_repeated(route, reason);
        }
        // A limit cuts an attempt up to the head, so this is what is compared with it.
        let to_head = ended.to_head.unwrap_or(ended.took);
        if let Some(histogram) = &route.attempt_seconds {
            histogram.observe(to_head.as_secs_f64());
        }
    }

    fn not_repeated(&self, route: &OfRoute, reason: Reason) {
        let labels = ReasonLabels {
            route: route.label.clone(),
            reason: reason.as_str(),
        };
        self.skipped.get_or_create(&labels).inc();
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
    /// an answer: what cannot be read of it is not there. `upstreams` is asked last, so that what
    /// it says is no older than what was counted.
    pub async fn render(
        &self,
        store: &Arc<dyn Store>,
        upstreams: impl FnOnce() -> Vec<UpstreamNow>,
    ) -> Result<String, fmt::Error> {
        let (store_up, status) = self.records.look(store).await;
        self.scraped.set(Now {
            store_up,
            status,
            upstreams: upstreams(),
            waiting: self.waiting.load(Ordering::Relaxed),
            lines_dropped: crate::log::lines_dropped(),
        });
        let mut text = String::new();
        prometheus_client::encoding::prometheus_text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
