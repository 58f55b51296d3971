//! The way of an operation that goes on without its caller: the queue's runs, look-ups,
//! compensations.

use std::sync::Arc;

use steadfast_core::key::Operation;
use steadfast_core::policy::RoutePolicy;
use steadfast_core::record::Record;

use super::execute::Execute;
use crate::event::RouteId;

/// The rules of an operation, and the way to its effect.
#[derive(Clone, Debug)]
pub struct Routed<E> {
    /// Which route it is, for whoever observes.
    pub route: RouteId,
    /// Its rules now; a record keeps those it was made under where they are stricter.
    pub policy: Arc<RoutePolicy>,
    /// The way.
    pub execute: E,
}

/// Finds the route of an operation of which only the record is left. A gateway finds it among its
/// routes, a service has one.
pub trait Routes: Clone + Send + Sync + 'static {
    /// The way of all routes.
    type Execute: Execute;

    /// The route that takes `operation` now; `None` where none does any more: then nobody but an
    /// operator can go on with it.
    fn of(&self, operation: &Operation) -> Option<Routed<Self::Execute>>;

    /// The route by which the queue sends what `row` keeps. A request that names where it goes
    /// itself is nobody's route's; it is left to whoever put it there.
    fn of_kept(&self, row: &Record) -> Option<Routed<Self::Execute>> {
        let request = row.request()?;
        match request.to {
            None => self.of(&row.operation),
            Some(_) => None,
        }
    }
}
