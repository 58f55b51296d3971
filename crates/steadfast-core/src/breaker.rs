//! When to stop asking an upstream that does not answer.
//!
//! Decides whether a request may go to an upstream, from how the last ones ended: closed, open,
//! half open (requirement R9). It opens when, over a sliding window with enough requests in it, the
//! share of failures reaches a ratio; it lets a bounded number of probes through once it has been
//! open for its time. A probe holds a permit with a lease, so that one that is cancelled neither
//! wedges it nor lets a crowd in; the end of an older pass changes nothing of a newer state.
//! Refuses to know what a failure is beyond [`Mark`]: 5xx and no answer are, 4xx and cancellations
//! are neither.

use std::time::Duration;

use crate::time::MonoTime;
use crate::window::{Ratio, Window};

/// When it opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// It opens at this share of failures.
    pub failure_ratio: Ratio,
    /// With fewer requests in the window it never opens.
    pub min_requests: u32,
    /// The time over which both are counted.
    pub window: Duration,
    /// How long it stays open before it lets probes through.
    pub open_for: Duration,
    /// Probes at once, and successes of them that close it.
    pub probes: u32,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        BreakerPolicy {
            failure_ratio: Ratio::of_millionths(500_000),
            min_requests: 20,
            window: Duration::from_secs(10),
            open_for: Duration::from_secs(5),
            probes: 1,
        }
    }
}

/// What a request's end says of its upstream's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// An answer below 400.
    Success,
    /// An answer from 500 on, or none.
    Failure,
    /// A 4xx: the upstream works, and the request was wrong.
    Neutral,
    /// It says nothing of the upstream: its caller left, or it did not go out.
    Nothing,
}

/// The leave to send one request. Its end is told to [`Breaker::record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "its end is to be recorded; a probe's permit is held until then"]
pub struct Pass {
    generation: u64,
    probe: Option<u64>,
}

/// What it lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Everything.
    Closed,
    /// Nothing.
    Open,
    /// Probes.
    HalfOpen,
}

impl Phase {
    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Closed => "closed",
            Phase::Open => "open",
            Phase::HalfOpen => "half-open",
        }
    }
}

/// It does not let a request through now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shut {
    /// Come back after this time: until the next probe may go, or, while probes are out, until the
    /// first permit ends by itself.
    pub retry_after: Duration,
}

/// One upstream's breaker, as it stands.
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    window: Window,
    state: State,
    /// Grows with every change of state.
    generation: u64,
    next_probe: u64,
}

#[derive(Clone, Debug)]
enum State {
    Closed,
    Open {
        until: MonoTime,
    },
    HalfOpen {
        /// Probes that are out: their number and the end of their lease.
        out: Vec<(u64, MonoTime)>,
        successes: u32,
        /// Whole answers without a failure among them.
        answered: u32,
    },
}

const SUCCESSES: usize = 0;
const FAILURES: usize = 1;

impl Breaker {
    /// A closed one. Less than one probe is one: without probes it could never close.
    pub fn new(policy: BreakerPolicy) -> Breaker {
        Breaker {
            policy: BreakerPolicy {
                probes: policy.probes.max(1),
                ..policy
            },
            window: Window::new(policy.window),
            state: State::Closed,
            generation: 0,
            next_probe: 0,
        }
    }

    /// What it lets through at `now`.
    pub fn phase(&self, now: MonoTime) -> Phase {
        match &self.state {
            State::Closed => Phase::Closed,
            State::Open { until } if now < *until => Phase::Open,
            State::Open { .. } | State::HalfOpen { .. } => Phase::HalfOpen,
        }
    }

    /// Whether a request at `now` would be let through. Takes no permit.
    ///
    /// # Errors
    /// [`Shut`], with the time to come back after.
    pub fn may_pass(&self, now: MonoTime) -> Result<(), Shut> {
        match &self.state {
            State::Closed => Ok(()),
            State::Open { until } if now < *until => Err(Shut {
                retry_after: until.since(now),
            }),
            State::Open { .. } => Ok(()),
            State::HalfOpen { out, .. } => {
                let mut leases = out.iter().map(|(_, ends)| *ends).filter(|ends| now < *ends);
                let held = leases.clone().count();
                match leases.next() {
                    Some(first) if held >= self.policy.probes as usize => {
                        let first = leases.fold(first, MonoTime::min);
                        Err(Shut {
                            retry_after: first.since(now),
                        })
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Lets one request through at `now`, which ends within `lease` or counts as lost then.
    ///
    /// # Errors
    /// [`Shut`], with the time to come back after.
    pub fn admit(&mut self, now: MonoTime, lease: Duration) -> Result<Pass, Shut> {
        self.may_pass(now)?;
        if let State::Open { .. } = self.state {
            self.turn(State::HalfOpen {
                out: Vec::new(),
                successes: 0,
                answered: 0,
            });
        }
        let generation = self.generation;
        let State::HalfOpen { out, .. } = &mut self.state else {
            return Ok(Pass {
                generation,
                probe: None,
            });
        };
        out.retain(|(_, ends)| now < *ends);
        let probe = self.next_probe;
        self.next_probe += 1;
        out.push((probe, now.plus(lease)));
        Ok(Pass {
            generation,
            probe: Some(probe),
        })
    }

    /// The request of `pass` ended so at `now`. What began before the last change of state, and a
    /// probe whose lease is over, say nothing any more.
    pub fn record(&mut self, pass: Pass, mark: Mark, now: MonoTime) {
        if pass.generation != self.generation {
            return;
        }
        let probes = self.policy.probes;
        let enough = probes.max(self.policy.min_requests);
        match &mut self.state {
            State::Closed => self.count(mark, now),
            State::Open { .. } => {}
            State::HalfOpen {
                out,
                successes,
                answered,
            } => {
                let own = |(probe, _): &(u64, MonoTime)| Some(*probe) == pass.probe;
                out.retain(|(_, ends)| now < *ends);
                let in_time = out.iter().any(own);
                out.retain(|held| !own(held));
                if !in_time || mark == Mark::Nothing {
                    return;
                }
                if mark == Mark::Failure {
                    let until = now.plus(self.policy.open_for);
                    return self.turn(State::Open { until });
                }
                *successes += u32::from(mark == Mark::Success);
                *answered += 1;
                // Where every request is refused with a 4xx, no success will ever come; so many
                // answers show as much.
                if *successes >= probes || *answered >= enough {
                    self.window.clear();
                    self.turn(State::Closed);
                }
            }
        }
    }

    fn count(&mut self, mark: Mark, now: MonoTime) {
        match mark {
            Mark::Success => self.window.add(SUCCESSES, now),
            Mark::Failure => self.window.add(FAILURES, now),
            Mark::Neutral | Mark::Nothing => return,
        };
        let [successes, failures] = self.window.sums(now);
        let all = successes + failures;
        let reached = failures * u64::from(Ratio::ONE)
            >= all * u64::from(self.policy.failure_ratio.millionths());
        if mark == Mark::Failure && all >= u64::from(self.policy.min_requests) && reached {
            let until = now.plus(self.policy.open_for);
            self.turn(State::Open { until });
        }
    }

    fn turn(&mut self, state: State) {
        self.generation += 1;
        self.state = state;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Duration = Duration::from_secs(20);

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_origin(Duration::from_millis(ms))
    }

    fn breaker(min_requests: u32, probes: u32) -> Breaker {
        Breaker::new(BreakerPolicy {
            min_requests,
            probes,
            ..BreakerPolicy::default()
        })
    }

    fn sent(breaker: &mut Breaker, mark: Mark, ms: u64) {
        let pass = breaker.admit(at(ms), LEASE).expect("let through");
        breaker.record(pass, mark, at(ms));
    }

    /// One that has just opened at 0.
    fn open(probes: u32) -> Breaker {
        let mut breaker = breaker(2, probes);
        sent(&mut breaker, Mark::Failure, 0);
        sent(&mut breaker, Mark::Failure, 0);
        assert_eq!(breaker.phase(at(0)), Phase::Open);
        breaker
    }

    // rule: breaker-opens-on-ratio-and-volume
    #[test]
    fn it_opens_at_the_ratio_once_there_is_enough_to_judge_by() {
        let mut few = breaker(20, 1);
        for _ in 0..19 {
            sent(&mut few, Mark::Failure, 0);
        }
        assert_eq!(few.phase(at(0)), Phase::Closed);
        sent(&mut few, Mark::Failure, 0);
        assert_eq!(few.phase(at(0)), Phase::Open);

        let mut half = breaker(20, 1);
        for n in 0..100 {
            let mark = if n % 2 == 0 {
                Mark::Success
            } else {
                Mark::Failure
            };
            if half.may_pass(at(0)).is_ok() {
                sent(&mut half, mark, 0);
            }
        }
        assert_eq!(half.phase(at(0)), Phase::Open, "one in two");

        let mut third = breaker(20, 1);
        for n in 0..300 {
            let mark = if n % 3 == 2 {
                Mark::Failure
            } else {
                Mark::Success
            };
            sent(&mut third, mark, 0);
        }
        assert_eq!(third.phase(at(0)), Phase::Closed, "one in three");
    }

    // rule: breaker-ignores-client-errors
    #[test]
    fn client_errors_and_cancellations_are_neither_successes_nor_failures() {
        let mut breaker = breaker(4, 1);
        for _ in 0..3 {
            sent(&mut breaker, Mark::Failure, 0);
        }
        for _ in 0..1000 {
            sent(&mut breaker, Mark::Neutral, 0);
            sent(&mut breaker, Mark::Nothing, 0);
        }
        assert_eq!(breaker.phase(at(0)), Phase::Closed);
        sent(&mut breaker, Mark::Failure, 0);
        assert_eq!(
            breaker.phase(at(0)),
            Phase::Open,
            "nor do they hide failures"
        );
    }

    // rule: breaker-open-refuses-with-a-time
    #[test]
    fn open_it_refuses_and_says_when_to_come_back() {
        let breaker = open(1);
        let shut = breaker.may_pass(at(1_000)).expect_err("open");
        assert_eq!(shut.retry_after, Duration::from_secs(4));
        assert!(breaker.may_pass(at(5_000)).is_ok());
    }

    // rule: breaker-probes-are-bounded
    #[test]
    fn half_open_it_lets_so_many_through_and_no_crowd() {
        let mut breaker = open(2);
        let one = breaker.admit(at(5_000), LEASE).expect("a probe");
        let other = breaker.admit(at(5_000), LEASE).expect("a probe");
        let shut = breaker.admit(at(5_000), LEASE).expect_err("a crowd");
        assert_eq!(shut.retry_after, LEASE);
        breaker.record(one, Mark::Success, at(5_100));
        assert_eq!(breaker.phase(at(5_100)), Phase::HalfOpen);
        breaker.record(other, Mark::Success, at(5_200));
        assert_eq!(breaker.phase(at(5_200)), Phase::Closed);
        // The failures from before are forgotten.
        sent(&mut breaker, Mark::Failure, 5_300);
        assert_eq!(breaker.phase(at(5_300)), Phase::Closed);
    }

    #[test]
    fn a_failed_probe_opens_it_again_for_its_whole_time() {
        let mut breaker = open(1);
        sent(&mut breaker, Mark::Failure, 6_000);
        let shut = breaker.may_pass(at(6_000)).expect_err("open again");
        assert_eq!(shut.retry_after, Duration::from_secs(5));
    }

    // rule: breaker-lost-probe-frees-its-permit
    #[test]
    fn a_probe_that_never_ends_is_lost_with_its_lease_and_one_that_is_cancelled_at_once() {
        let mut breaker = open(1);
        let lost = breaker.admit(at(5_000), LEASE).expect("a probe");
        assert!(breaker.may_pass(at(24_999)).is_err());
        let next = breaker.admit(at(25_000), LEASE).expect("its lease is over");
        // Coming late it says nothing, and does not take the other's permit along.
        breaker.record(lost, Mark::Failure, at(25_001));
        assert_eq!(breaker.phase(at(25_001)), Phase::HalfOpen);
        assert!(breaker.may_pass(at(25_001)).is_err());
        breaker.record(next, Mark::Nothing, at(25_002));
        assert!(breaker.may_pass(at(25_002)).is_ok());
        assert_eq!(breaker.phase(at(25_002)), Phase::HalfOpen);
    }

    // rule: breaker-old-ends-change-nothing
    #[test]
    fn an_end_from_before_the_last_change_changes_nothing() {
        let mut breaker = breaker(2, 1);
        let slow = breaker.admit(at(0), LEASE).expect("closed");
        let slower = breaker.admit(at(0), LEASE).expect("closed");
        sent(&mut breaker, Mark::Failure, 0);
        sent(&mut breaker, Mark::Failure, 0);
        breaker.record(slow, Mark::Success, at(100));
        assert_eq!(breaker.phase(at(100)), Phase::Open);
        let probe = breaker.admit(at(5_000), LEASE).expect("a probe");
        breaker.record(slower, Mark::Failure, at(5_001));
        assert_eq!(breaker.phase(at(5_001)), Phase::HalfOpen);
        breaker.record(probe, Mark::Success, at(5_002));
        assert_eq!(breaker.phase(at(5_002)), Phase::Closed);
        breaker.record(slow, Mark::Failure, at(5_003));
        breaker.record(slower, Mark::Failure, at(5_003));
        assert_eq!(breaker.phase(at(5_003)), Phase::Closed);
    }

    #[test]
    fn a_success_never_opens_it_and_a_probe_beyond_its_lease_says_nothing() {
        let mut few = breaker(20, 1);
        for _ in 0..19 {
            sent(&mut few, Mark::Failure, 0);
        }
        sent(&mut few, Mark::Success, 0);
        assert_eq!(few.phase(at(0)), Phase::Closed);
        sent(&mut few, Mark::Failure, 0);
        assert_eq!(few.phase(at(0)), Phase::Open);

        let mut late = open(1);
        let probe = late.admit(at(5_000), LEASE).expect("a probe");
        late.record(probe, Mark::Success, at(25_000));
        assert_eq!(late.phase(at(25_000)), Phase::HalfOpen);
    }

    // rule: breaker-client-errors-do-not-wedge
    #[test]
    fn an_upstream_that_answers_nothing_but_client_errors_is_let_through_again() {
        let mut breaker = open(1);
        sent(&mut breaker, Mark::Neutral, 5_000);
        assert_eq!(breaker.phase(at(5_000)), Phase::HalfOpen);
        sent(&mut breaker, Mark::Neutral, 5_000);
        assert_eq!(
            breaker.phase(at(5_000)),
            Phase::Closed,
            "after min_requests"
        );
    }

    proptest! {
        #[test]
        fn it_never_wedges_and_never_lets_a_crowd_in(
            probes in 1u32..4,
            steps in proptest::collection::vec((0u64..4_000, 0usize..6), 1..200),
        ) {
            let mut breaker = Breaker::new(BreakerPolicy {
                min_requests: 3,
                probes,
                ..BreakerPolicy::default()
            });
            let (mut now, mut out) = (0, vec![]);
            for (later, step) in steps {
                now += later;
                match step {
                    0 | 1 => {
                        if let Ok(pass) = breaker.admit(at(now), LEASE) {
                            out.push((pass, now));
                        }
                    }
                    _ if out.is_empty() => {}
                    // Forgotten: neither told of nor cancelled.
                    2 => drop(out.remove(0)),
                    which => {
                        let marks = [Mark::Success, Mark::Failure, Mark::Neutral];
                        let (pass, _) = out.remove(0);
                        breaker.record(pass, marks[which - 3], at(now));
                    }
                }
                if let State::HalfOpen { out, .. } = &breaker.state {
                    let held = out.iter().filter(|(_, ends)| at(now) < *ends).count();
                    prop_assert!(held <= probes as usize);
                }
                // Whatever happened, it lets something through again within its times.
                let later = at(now).plus(Duration::from_secs(5) + LEASE);
                prop_assert!(breaker.may_pass(later).is_ok());
            }
        }
    }
}
