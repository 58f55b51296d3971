//! What a store counts for an operator: more than a status line, and dearer.

use std::cmp::Reverse;
use std::collections::HashMap;

use steadfast_core::key::Tenant;
use steadfast_core::record::{Record, State};
use steadfast_core::time::WallTime;

/// What is in a store at one date, beside the counts of [`Status`](super::Status).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// When the record of each state that was left alone the longest was last written. States
    /// without a record are not named.
    pub oldest: Vec<(State, WallTime)>,
    /// Records that count (those past their expiry do not) by hashed principal, the most first;
    /// where they are as many, in the order of the hashes.
    pub tenants: Vec<(Tenant, u64)>,
    /// Holds whose lease is over, and which nobody wrote down as lost yet.
    pub leases_over: u64,
    /// Records past their expiry that are still there.
    pub expired: u64,
    /// Bytes on disk, where the store knows them.
    pub bytes: Option<u64>,
}

impl Stats {
    /// Counts rows that are all at hand.
    pub(super) fn of(rows: &[&Record], now: WallTime, tenants: usize) -> Stats {
        let oldest = |state| {
            let of = rows.iter().filter(|row| row.standing.state == state);
            of.map(|row| row.updated_at).min().map(|at| (state, at))
        };
        let past = |at: Option<WallTime>| at.is_some_and(|at| at <= now);
        let (expired, live): (Vec<&Record>, Vec<&Record>) =
            rows.iter().partition(|row| past(row.standing.expires_at));
        let mut by_tenant: HashMap<&Tenant, u64> = HashMap::new();
        for row in live {
            *by_tenant.entry(&row.tenant).or_default() += 1;
        }
        let mut by_tenant: Vec<(&Tenant, u64)> = by_tenant.into_iter().collect();
        by_tenant.sort_by_key(|(tenant, count)| (Reverse(*count), tenant.as_str()));
        let first = by_tenant.into_iter().take(tenants);
        let over = rows.iter().filter(|row| past(row.standing.locked_until));
        Stats {
            oldest: State::ALL.into_iter().filter_map(oldest).collect(),
            tenants: first.map(|(tenant, n)| (tenant.clone(), n)).collect(),
            leases_over: over.count() as u64,
            expired: expired.len() as u64,
            bytes: None,
        }
    }
}
