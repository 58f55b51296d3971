//! One request, told of once: its route, what its caller was given, how long it took.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::request::Parts;
use steadfast::clock;
use steadfast::event::{Event, KeyedAnswered, KeyedOutcome, Observer, RequestOutcome, RouteId};
use steadfast_core::problem::Problem;
use steadfast_core::time::MonoTime;
use steadfast_core::trace_context::TraceId;

use super::watch::NO_ROUTE;

/// A request that came. Dropped before it is answered, its caller has left.
pub struct Telling {
    observer: Arc<dyn Observer>,
    came: MonoTime,
    route: RouteId,
    keyed: Option<(Method, Option<TraceId>)>,
    answered: bool,
}

impl Telling {
    /// A request came at `came`; no route has it yet.
    pub fn begin(observer: &Arc<dyn Observer>, came: MonoTime) -> Telling {
        Telling {
            observer: Arc::clone(observer),
            came,
            route: NO_ROUTE,
            keyed: None,
            answered: false,
        }
    }

    /// When it came.
    pub fn came(&self) -> MonoTime {
        self.came
    }

    /// This route has it.
    pub fn of_route(&mut self, route: RouteId) {
        self.route = route;
    }

    /// From here on it is refused as one with a key.
    pub fn keyed(&mut self, parts: &Parts) {
        self.keyed = Some((parts.method.clone(), TraceId::of(&parts.headers)));
    }

    /// It has no key, or what comes of its key is told by whoever answers it.
    pub fn keyed_no_more(&mut self) {
        self.keyed = None;
    }

    /// Its caller is given this.
    pub fn answered(mut self, outcome: RequestOutcome) {
        self.answered = true;
        self.tell(outcome);
    }

    /// Its caller is given a problem.
    pub fn refused(self, problem: &Problem) {
        if let Some((method, trace)) = &self.keyed {
            self.observer.on(Event::Keyed(&KeyedAnswered {
                route: self.route,
                method,
                operation: None,
                trace: *trace,
                outcome: KeyedOutcome::of_problem(problem.slug),
                status: problem.status,
                own_attempt: false,
                took: self.took(),
            }));
        }
        self.answered(RequestOutcome::of_problem(problem.slug, problem.effect));
    }

    fn took(&self) -> Duration {
        clock::mono_now().since(self.came)
    }

    fn tell(&self, outcome: RequestOutcome) {
        let (route, took) = (self.route, self.took());
        self.observer.on(Event::Request {
            route,
            outcome,
            took,
        });
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.answered {
            self.tell(RequestOutcome::CallerLeft);
        }
    }
}
