//! Who is told what happens: the metrics, and the log where attempts are logged.

use std::sync::Arc;

use steadfast::event::{Event, Observer, RouteId};

use super::attempts;
use super::metrics::Metrics;
use crate::settings::Settings;

/// Requests that no route takes.
pub const NO_ROUTE: RouteId = RouteId(0);

/// Requests to the gateway's own addresses.
pub const OWN: RouteId = RouteId(1);

/// The first route of the configuration; the others follow in its order.
const FIRST: u32 = 2;

/// The number of the route that stands at `index` in the configuration.
pub fn route_id(index: usize) -> RouteId {
    RouteId(u32::try_from(index).map_or(u32::MAX, |index| index.saturating_add(FIRST)))
}

/// What a route is called, and where it leads.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its label.
    pub label: Arc<str>,
    /// Host and port of its upstream; empty where there is none.
    pub upstream: Arc<str>,
    /// Its keys are honoured.
    pub keyed: bool,
}

/// The observer of a gateway.
pub struct Watch {
    routes: Vec<Named>,
    metrics: Metrics,
    logs: bool,
}

impl Watch {
    /// Watches a gateway of these settings.
    pub fn new(settings: &Settings) -> Watch {
        let own = |label: &str| Named {
            label: label.into(),
            upstream: "".into(),
            keyed: false,
        };
        // No path begins so, and a name may be anything: then its requests count there, too.
        let mut routes = vec![own("(none)"), own("(operations)")];
        routes.extend(settings.routes.iter().map(|route| Named {
            label: route.name.as_str().into(),
            upstream: route.to.authority().into(),
            keyed: route.policy.idempotency.mode != steadfast_core::policy::KeyMode::Off,
        }));
        Watch {
            metrics: Metrics::new(&routes),
            routes,
            logs: settings.top.log.attempts,
        }
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl Observer for Watch {
    fn on(&self, event: Event<'_>) {
        self.metrics.note(&event);
        if self.logs {
            attempts::log(&event, &self.routes);
        }
    }
}

/// The route that an event names.
pub fn named(routes: &[Named], route: RouteId) -> Option<&Named> {
    routes.get(usize::try_from(route.0).ok()?)
}
