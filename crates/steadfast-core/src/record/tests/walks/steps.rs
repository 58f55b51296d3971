//! What may happen next, and how often.

use proptest::prelude::*;

use super::super::{failed, status, unsure};
use crate::attempt::{AttemptEnd, Failure};
use crate::record::Start;

/// Holds that a walk keeps acting with; older ones are dead.
const HOLDERS: usize = 6;

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Begin(Start),
    /// A beginning whose store reply is lost: its token only withdraws.
    BeginDoubted(Start),
    Mark(usize),
    MarkDoubted(usize),
    Renew(usize),
    Send(usize),
    End(usize, usize),
    /// An end whose operation goes on in the queue.
    EndLater(usize, usize),
    /// The queue takes what it keeps.
    Run,
    /// The same, and its store reply is lost.
    RunDoubted,
    GiveUp,
    Discard,
    /// By the newest doubted hold but so many.
    Withdraw(usize),
    Sweep,
    Release,
    Resolve(u16),
    /// Both clocks.
    Pass(u64),
    /// The wall clock alone, either way; the store's follows only ahead.
    Jump(i64),
}

/// Longer than a lease.
const LEASE_OVER_MS: u64 = 31_000;

/// Longer than the retention.
const EXPIRED_MS: u64 = 90_000_000;

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let start = prop_oneof![
        4 => Just(Start::Dispatched),
        4 => Just(Start::Reserved),
        3 => Just(Start::Deferred),
    ];
    // Mostly the newest: an older one's write is mostly refused.
    let one = || prop_oneof![2 => Just(0), 1 => 0..HOLDERS];
    let step = prop_oneof![
        6 => start.clone().prop_map(Step::Begin),
        2 => start.prop_map(Step::BeginDoubted),
        3 => one().prop_map(Step::Mark),
        1 => one().prop_map(Step::MarkDoubted),
        1 => one().prop_map(Step::Renew),
        6 => one().prop_map(Step::Send),
        6 => (one(), 0..ENDS.len()).prop_map(|(at, end)| Step::End(at, end)),
        2 => (one(), 0..ENDS.len()).prop_map(|(at, end)| Step::EndLater(at, end)),
        4 => Just(Step::Run),
        1 => Just(Step::RunDoubted),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Discard),
        4 => (0..2usize).prop_map(Step::Withdraw),
        3 => Just(Step::Sweep),
        1 => Just(Step::Release),
        1 => prop_oneof![Just(201), Just(422)].prop_map(Step::Resolve),
        2 => Just(Step::Pass(LEASE_OVER_MS)),
        1 => prop_oneof![Just(1_000), Just(11_000), Just(EXPIRED_MS)].prop_map(Step::Pass),
        1 => prop_oneof![Just(-3_600_000), Just(31_000), Just(90_000_000)].prop_map(Step::Jump),
    ];
    prop::collection::vec(step, 1..90)
}

/// How what was sent may end.
pub(super) const ENDS: [fn() -> AttemptEnd; 8] = [
    || status(201),
    || status(201),
    || status(422),
    || status(503),
    || status(500),
    || failed(Failure::ReadTimeout),
    || failed(Failure::Reset),
    unsure,
];
