//! What routes share: connections, and what is known of an upstream's health.
//!
//! Decides who shares what. Routes with the same pool settings share one pool. Routes to one
//! upstream with the same `budget` and `breaker` share one state of them; where routes differ, each
//! kind of settings has its own, since no one rule could hold for both, and each sees only its own
//! routes' traffic.

use steadfast::client::pool::{Pool, PoolSettings, PoolStatus};
use steadfast::client::{SharedUpstream, Target, UpstreamTls};
use steadfast_core::breaker::{BreakerPolicy, Phase};
use steadfast_core::budget::BudgetPolicy;

use crate::settings::routes::Route;

/// All upstreams of a gateway.
pub struct Upstreams {
    /// How those over TLS are spoken to.
    tls: Option<UpstreamTls>,
    pools: Vec<(PoolSettings, Pool)>,
    states: Vec<(Target, (BudgetPolicy, BreakerPolicy), SharedUpstream)>,
    /// Each pair once.
    leads: Vec<(Target, Pool, PoolSettings)>,
}

/// What stands at one upstream now, whatever routes lead there.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamNow {
    /// Host and port.
    pub name: String,
    /// Its connections.
    pub pool: PoolStatus,
    /// What is left of its retry budget, from 0 to 1; the least where it has several.
    pub budget: f64,
    /// What its breaker lets through; the least where it has several.
    pub phase: Phase,
}

impl Upstreams {
    /// None yet. `tls` says how those over TLS will be spoken to.
    pub fn new(tls: Option<UpstreamTls>) -> Upstreams {
        Upstreams {
            tls,
            pools: Vec::new(),
            states: Vec::new(),
            leads: Vec::new(),
        }
    }

    /// The connections and the state that `route` uses.
    pub fn of(&mut self, route: &Route) -> (Pool, SharedUpstream) {
        let known = self
            .pools
            .iter()
            .find(|(settings, _)| *settings == route.pool);
        let pool = match known {
            Some((_, pool)) => pool.clone(),
            None => {
                let pool = match &self.tls {
                    Some(tls) => Pool::with_tls(route.pool, tls.clone()),
                    None => Pool::new(route.pool),
                };
                self.pools.push((route.pool, pool.clone()));
                pool
            }
        };
        let led = |(to, _, settings): &(Target, Pool, PoolSettings)| {
            *to == route.to && *settings == route.pool
        };
        if !self.leads.iter().any(led) {
            self.leads
                .push((route.to.clone(), pool.clone(), route.pool));
        }
        let rules = (route.policy.budget, route.policy.breaker);
        let mut states = self.states.iter();
        let shared = match states.find(|(to, held, _)| *to == route.to && *held == rules) {
            Some((_, _, shared)) => shared.clone(),
            None => {
                let shared = SharedUpstream::new(rules.0, rules.1);
                self.states.push((route.to.clone(), rules, shared.clone()));
                shared
            }
        };
        (pool, shared)
    }

    /// What stands at each upstream, in the order of the routes.
    pub fn now(&self) -> Vec<UpstreamNow> {
        let mut all: Vec<(&Target, UpstreamNow)> = Vec::new();
        for (to, pool, _) in &self.leads {
            let status = pool.status_of(to);
            match all.iter_mut().find(|(target, _)| *target == to) {
                Some((_, now)) => now.pool = now.pool.and(status),
                None => all.push((
                    to,
                    UpstreamNow {
                        name: to.authority(),
                        pool: status,
                        budget: 1.0,
                        phase: Phase::Closed,
                    },
                )),
            }
        }
        for (to, _, shared) in &self.states {
            let of_it = all.iter_mut().filter(|(target, _)| *target == to);
            for (_, now) in of_it {
                now.budget = now.budget.min(shared.budget_balance());
                now.phase = least(now.phase, shared.phase());
            }
        }
        all.into_iter().map(|(_, now)| now).collect()
    }
}

fn least(one: Phase, other: Phase) -> Phase {
    let order = [Phase::Open, Phase::HalfOpen, Phase::Closed];
    let of_both = |phase: &Phase| *phase == one || *phase == other;
    order.into_iter().find(of_both).unwrap_or(one)
}
