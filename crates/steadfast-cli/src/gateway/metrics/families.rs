//! The families of metrics, and what of them belongs to one route.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use steadfast::event::{KeyedOutcome, RequestOutcome};

use super::labels::{Label, OutcomeLabels, RouteLabels};
use crate::gateway::watch::Named;

/// Upper ends of histograms' buckets, in seconds: three a decade from half a millisecond, which is
/// a call inside one machine, to a minute, which no default lets anything take. The default limits
/// of an attempt (20 s) and of a request (30 s) are among them, so that what they cut can be told.
pub const BUCKETS_S: [f64; 18] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0,
    45.0, 60.0,
];

/// What is counted for one route, found once.
pub(super) struct OfRoute {
    pub(super) label: Label,
    pub(super) requests: Vec<Counter>,
    pub(super) keyed: Vec<Counter>,
    pub(super) unprotected: Counter,
    pub(super) request_seconds: Histogram,
    pub(super) attempt_seconds: Option<Histogram>,
}

/// A histogram of seconds.
fn seconds() -> Histogram {
    Histogram::new(BUCKETS_S)
}

pub(super) type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// A registry under construction.
pub(super) struct Register(pub(super) Registry);

impl Register {
    pub(super) fn add<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0
            .register(format!("steadfast_{name}"), help, metric.clone());
        metric
    }

    pub(super) fn seconds<L>(&mut self, name: &str, help: &str) -> Seconds<L>
    where
        L: Clone + Eq + std::hash::Hash,
        Seconds<L>: Metric + Clone,
    {
        self.add(name, help, Family::new_with_constructor(seconds))
    }
}

/// Families with a series for each route.
pub(super) struct Routed {
    requests: Family<OutcomeLabels, Counter>,
    keyed: Family<OutcomeLabels, Counter>,
    unprotected: Family<RouteLabels, Counter>,
    request_seconds: Seconds<RouteLabels>,
    attempt_seconds: Seconds<RouteLabels>,
}

impl Routed {
    pub(super) fn new(to: &mut Register) -> Routed {
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
    pub(super) fn of(&self, route: &Named) -> OfRoute {
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
