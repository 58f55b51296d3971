//! What is read when somebody asks for the metrics, and stands nowhere in between.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use steadfast::store::Status;
use steadfast_core::breaker::Phase;

use super::labels::{KindLabels, PhaseLabels, StateLabels, UpstreamLabels};
use crate::gateway::upstreams::UpstreamNow;

/// What was read last.
#[derive(Debug, Default)]
pub(super) struct Scraped(Mutex<Now>);

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Now {
    pub(super) store_up: bool,
    pub(super) status: Option<Status>,
    pub(super) upstreams: Vec<UpstreamNow>,
    pub(super) waiting: i64,
    pub(super) lines_dropped: u64,
}

impl Scraped {
    pub(super) fn set(&self, now: Now) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Collector for Scraped {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let up = "The record store answered a look-up (1) or not (0)";
        gauge(&mut to, "store_up", up, i64::from(now.store_up))?;
        if let Some(status) = &now.status {
            let states = status.rows.iter().map(|(state, rows)| {
                let state = state.as_str();
                (StateLabels { state }, *rows)
            });
            gauges(&mut to, "records", "Records, by state", states)?;
            let lag = "How long ago the oldest record that is still there expired";
            let seconds = status.expiry_lag.as_secs_f64();
            gauge(&mut to, "expiry_lag_seconds", lag, seconds)?;
        }
        let inflight = now
            .upstreams
            .iter()
            .map(|at| (upstream(at), count(at.pool.in_use)));
        let help = "Connections in use: requests on their way, or answers";
        gauges(&mut to, "upstream_inflight", help, inflight)?;
        let budgets = now.upstreams.iter().map(|at| (upstream(at), at.budget));
        let help = "What is left of the retry budget, from 0 to 1";
        gauges(&mut to, "retry_budget_ratio", help, budgets)?;
        let help = "What the circuit breaker lets through: 1 for the state that holds";
        gauges(
            &mut to,
            "breaker_state",
            help,
            now.upstreams.iter().flat_map(phases),
        )?;
        let connections: usize = now.upstreams.iter().map(|at| at.pool.waiting).sum();
        let waiting = [("key", now.waiting), ("connection", count(connections))];
        let waiting = waiting.map(|(kind, waiting)| (KindLabels { kind }, waiting));
        let help = "Who waits: duplicates for a key's operation, requests for a connection";
        gauges(&mut to, "waiters", help, waiting)?;
        let mut lines = to.encode_descriptor(
            "steadfast_log_lines_dropped",
            "Lines of the log that nobody read fast enough",
            None,
            MetricType::Counter,
        )?;
        lines.encode_counter::<prometheus_client::encoding::NoLabelSet, _, u64>(
            &now.lines_dropped,
            None,
        )
    }
}

fn upstream(at: &UpstreamNow) -> UpstreamLabels {
    UpstreamLabels {
        upstream: at.name.clone(),
    }
}

/// Every state of a breaker, with 1 for the one that holds.
fn phases(at: &UpstreamNow) -> impl Iterator<Item = (PhaseLabels, i64)> {
    let all = [Phase::Closed, Phase::Open, Phase::HalfOpen];
    all.into_iter().map(|phase| {
        let labels = PhaseLabels {
            upstream: at.name.clone(),
            state: phase.as_str(),
        };
        (labels, i64::from(phase == at.phase))
    })
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn gauge(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: impl EncodeGaugeValue,
) -> fmt::Result {
    let name = format!("steadfast_{name}");
    to.encode_descriptor(&name, help, None, MetricType::Gauge)?
        .encode_gauge(&value)
}

fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, V)>,
) -> fmt::Result {
    let name = format!("steadfast_{name}");
    let mut family = to.encode_descriptor(&name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}
