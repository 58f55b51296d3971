//! The goals, as ratios of what was measured side by side.

/// What a ratio must be.
#[derive(Clone, Copy)]
pub enum Bound {
    /// This, or more.
    AtLeast(f64),
    /// This, or less.
    AtMost(f64),
    /// Ours is nothing at all; there is no reference.
    Nothing,
    /// No goal: shown beside the others.
    Shown,
}

/// One line of the table.
pub struct Goal {
    /// Which part of `benches/run` measures it.
    pub part: &'static str,
    /// What is compared.
    pub what: &'static str,
    /// The name of our measurement.
    pub ours: &'static str,
    /// The name of what it is divided by.
    pub reference: &'static str,
    /// What the ratio must be.
    pub bound: Bound,
}

use Bound::{AtLeast, AtMost, Nothing, Shown};

const fn goal(
    part: &'static str,
    what: &'static str,
    ours: &'static str,
    reference: &'static str,
    bound: Bound,
) -> Goal {
    Goal {
        part,
        what,
        ours,
        reference,
        bound,
    }
}

/// Every line, in the order of the table.
#[rustfmt::skip]
pub const GOALS: &[Goal] = &[
    goal("store", "pairs with 64 waiters ÷ append log",
        "store.64.pairs_per_s", "log.64.pairs_per_s", AtLeast(0.4)),
    goal("store", "pairs with 256 waiters ÷ append log",
        "store.256.pairs_per_s", "log.256.pairs_per_s", AtLeast(0.2)),
    goal("store", "p99 of a pair with 64 waiters ÷ its p50",
        "store.64.p99_us", "store.64.p50_us", AtMost(10.0)),
    goal("store", "CPU of a pair with 64 waiters ÷ append log",
        "store.64.cpu_us", "log.64.cpu_us", Shown),
    goal("postgres", "PostgreSQL, pairs with 64 waiters ÷ pgbench",
        "postgres.64.pairs_per_s", "pgbench.64.pairs_per_s", AtLeast(1.4)),
    goal("postgres", "PostgreSQL, pairs with 256 waiters ÷ pgbench",
        "postgres.256.pairs_per_s", "pgbench.256.pairs_per_s", AtLeast(2.5)),
    goal("keyed", "keyed POST, 64 callers ÷ buffered pass-through",
        "keyed.64.requests_per_s", "buffered.64.requests_per_s", AtLeast(0.35)),
    goal("keyed", "keyed POST, 64 callers ÷ one caller",
        "keyed.64.requests_per_s", "keyed.1.requests_per_s", AtLeast(6.0)),
    goal("keyed", "CPU of a keyed POST ÷ buffered pass-through",
        "keyed.64.cpu_us", "buffered.64.cpu_us", Shown),
    goal("replay", "replay ÷ nginx's pass-through",
        "replay.requests_per_s", "replay.nginx.requests_per_s", AtLeast(1.0)),
    goal("replay", "upstream calls during replay",
        "replay.upstream_calls", "", Nothing),
    goal("replay", "writes to the store during replay",
        "replay.store_writes", "", Nothing),
    goal("pass", "pass-through, CPU a request ÷ nginx",
        "pass.ours.cpu_us", "pass.nginx.cpu_us", AtMost(1.6)),
    goal("pass", "pass-through, requests ÷ nginx",
        "pass.ours.requests_per_s", "pass.nginx.requests_per_s", AtLeast(0.75)),
    goal("pass", "pass-through, p99 ÷ nginx",
        "pass.ours.p99_us", "pass.nginx.p99_us", AtMost(1.75)),
    goal("pass", "haproxy, CPU a request ÷ nginx",
        "pass.haproxy.cpu_us", "pass.nginx.cpu_us", Shown),
    goal("pass", "haproxy, requests ÷ nginx",
        "pass.haproxy.requests_per_s", "pass.nginx.requests_per_s", Shown),
    goal("pass", "haproxy, p99 ÷ nginx",
        "pass.haproxy.p99_us", "pass.nginx.p99_us", Shown),
    goal("pass", "both logging: CPU a request ÷ nginx",
        "logged.ours.cpu_us", "logged.nginx.cpu_us", Shown),
    goal("pass", "both logging: requests ÷ nginx",
        "logged.ours.requests_per_s", "logged.nginx.requests_per_s", Shown),
    goal("fingerprint", "1 KiB of JSON by meaning ÷ parse and write sorted",
        "fingerprint.json.ours_ns", "fingerprint.json.reference_ns", AtMost(1.5)),
    goal("fingerprint", "1 KiB by bytes ÷ keyed digest",
        "fingerprint.bytes.1024.ours_ns", "fingerprint.bytes.1024.reference_ns", AtMost(1.2)),
    goal("fingerprint", "16 KiB by bytes ÷ keyed digest",
        "fingerprint.bytes.16384.ours_ns", "fingerprint.bytes.16384.reference_ns", AtMost(1.2)),
    goal("decision", "a client decision ÷ 150 ns",
        "decision.ours_ns", "decision.limit_ns", AtMost(1.0)),
    goal("decision", "a client decision ÷ tower's back-off and budget",
        "decision.ours_ns", "decision.reference_ns", AtMost(1.0)),
    goal("decision", "client layer, nothing below ÷ tower's timeout, retry, budget",
        "layer.ours_ns", "layer.reference_ns", AtMost(1.2)),
    goal("decision", "client layer that writes its fields ÷ tower's, which has none",
        "layer.fields.ours_ns", "layer.fields.reference_ns", Shown),
    goal("expiry", "pairs while a backlog expires ÷ undisturbed",
        "expiry.beside.pairs_per_s", "expiry.alone.pairs_per_s", AtLeast(0.5)),
    goal("expiry", "p99 while a backlog expires ÷ undisturbed",
        "expiry.beside.p99_us", "expiry.alone.p99_us", AtMost(2.0)),
    goal("growth", "pairs over ten times as many records",
        "growth.large.pairs_per_s", "growth.small.pairs_per_s", AtLeast(0.6)),
    goal("memory", "memory at the end of ten minutes ÷ after two",
        "memory.late_bytes", "memory.early_bytes", AtMost(1.1)),
];

/// Measurements that stand by themselves, with what they are.
pub const FIGURES: &[(&str, &str)] = &[
    ("floor.syncs_per_s", "appends of 4 KiB, each synced"),
    ("store.1.pairs_per_s", "pairs with one waiter"),
    (
        "log.1.pairs_per_s",
        "pairs of the append log with one waiter",
    ),
    (
        "direct.requests_per_s",
        "the service itself, without a proxy",
    ),
    ("keyed.64.p50_us", "keyed POST, 64 callers, median"),
    ("keyed.64.p99_us", "keyed POST, 64 callers, 99th percentile"),
    ("expiry.expired_per_s", "records expired beside 64 writers"),
    (
        "expiry.backlog_seconds",
        "seconds until the backlog was gone",
    ),
    (
        "growth.bytes_a_record",
        "bytes of disk a record (512-byte answer)",
    ),
];
