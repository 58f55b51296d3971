//! How many retries an upstream's callers may add to its traffic.
//!
//! Decides whether one more attempt may be sent. Retries may add at most a set share to successful
//! traffic, with a small floor for idle clients, over a sliding window; one budget is shared by
//! every caller of an upstream in the process (requirement R7). Deposits come from successes, so in
//! a total outage retries fade to the floor. Arithmetic is exact, in millionths of a retry: a ratio
//! of 0.3 is three in ten, not one in three. Refuses to know attempts and their ends; taking from
//! the budget ([`Budget::withdraw`]) is the last step of a decision and the only act in it, made
//! when the attempt is sent, so that those who wait are not counted as if they had gone.

use std::time::Duration;

use crate::time::MonoTime;
use crate::window::{Bucket, Ratio, Window};

/// The share and the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetPolicy {
    /// Retries per success.
    pub ratio: Ratio,
    /// Retries per second that are allowed without any success.
    pub floor_per_second: u32,
    /// The time over which both are counted.
    pub window: Duration,
}

impl Default for BudgetPolicy {
    fn default() -> Self {
        BudgetPolicy {
            ratio: Ratio::of_millionths(200_000),
            floor_per_second: 1,
            window: Duration::from_secs(10),
        }
    }
}

/// One upstream's budget, as it stands.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::budget::{Budget, BudgetPolicy};
/// use steadfast_core::time::MonoTime;
/// let now = MonoTime::from_origin(Duration::ZERO);
/// let policy = BudgetPolicy { floor_per_second: 0, ..BudgetPolicy::default() };
/// let mut budget = Budget::new(policy);
/// // One in five: nothing after four successes, one after the fifth.
/// for _ in 0..4 {
///     budget.deposit(now);
/// }
/// assert!(budget.withdraw(now).is_none());
/// budget.deposit(now);
/// assert!(budget.withdraw(now).is_some());
/// assert!(budget.withdraw(now).is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    ratio: u64,
    /// The floor of a whole window, in millionths.
    floor: u64,
    window: Window,
}

/// A retry that was paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a retry that is not sent gives its charge back"]
pub struct Charge(Bucket);

const SUCCESSES: usize = 0;
const RETRIES: usize = 1;
const ONE: u64 = Ratio::ONE as u64;

impl Budget {
    /// A budget with nothing deposited.
    pub fn new(policy: BudgetPolicy) -> Budget {
        let floor = u128::from(policy.floor_per_second) * policy.window.as_millis() * 1000;
        Budget {
            ratio: u64::from(policy.ratio.millionths()),
            floor: u64::try_from(floor).unwrap_or(u64::MAX),
            window: Window::new(policy.window),
        }
    }

    /// A success at `now`.
    pub fn deposit(&mut self, now: MonoTime) {
        self.window.add(SUCCESSES, now);
    }

    /// Whether one more retry would be allowed at `now`. Takes nothing.
    pub fn may_withdraw(&mut self, now: MonoTime) -> bool {
        self.left(now) >= ONE
    }

    /// Pays for one retry, which is sent at `now`; `None` where it may not be sent.
    pub fn withdraw(&mut self, now: MonoTime) -> Option<Charge> {
        self.may_withdraw(now)
            .then(|| Charge(self.window.add(RETRIES, now)))
    }

    /// Gives `charge` back: of its retry nothing was sent.
    pub fn give_back(&mut self, charge: Charge, now: MonoTime) {
        self.window.take_back(RETRIES, charge.0, now);
    }

    /// What is left at `now`, as a share of all that the window allows, from 0 to 1. Zero where it
    /// allows nothing.
    pub fn balance(&mut self, now: MonoTime) -> f64 {
        let allowed = self.allowed(now);
        if allowed == 0 {
            return 0.0;
        }
        self.left(now) as f64 / allowed as f64
    }

    fn allowed(&mut self, now: MonoTime) -> u64 {
        let [successes, _] = self.window.sums(now);
        self.floor
            .saturating_add(successes.saturating_mul(self.ratio))
    }

    /// Millionths of a retry.
    fn left(&mut self, now: MonoTime) -> u64 {
        let allowed = self.allowed(now);
        let [_, retries] = self.window.sums(now);
        allowed.saturating_sub(retries.saturating_mul(ONE))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_origin(Duration::from_millis(ms))
    }

    fn budget(ratio: f64, floor_per_second: u32) -> Budget {
        Budget::new(BudgetPolicy {
            ratio: Ratio::new(ratio).expect("a ratio"),
            floor_per_second,
            window: Duration::from_secs(10),
        })
    }

    // rule: budget-ratio-is-exact
    #[test]
    fn a_ratio_gives_exactly_its_share_of_successes() {
        for (ratio, successes, retries) in [
            (0.05, 100, 5),
            (0.15, 100, 15),
            (0.2, 100, 20),
            (0.3, 100, 30),
            (0.34, 100, 34),
            (0.6, 100, 60),
            (0.75, 100, 75),
            (1.0, 100, 100),
            (0.0, 100, 0),
        ] {
            let mut budget = budget(ratio, 0);
            for _ in 0..successes {
                budget.deposit(at(0));
            }
            let got = (0..1000)
                .take_while(|_| budget.withdraw(at(0)).is_some())
                .count();
            assert_eq!(got, retries, "{ratio}");
        }
    }

    // rule: budget-floor-for-idle-clients
    #[test]
    fn without_success_the_floor_is_what_there_is_and_it_comes_back() {
        let mut budget = budget(0.2, 1);
        let sent = |budget: &mut Budget, ms| {
            (0..100)
                .take_while(|_| budget.withdraw(at(ms)).is_some())
                .count()
        };
        assert_eq!(sent(&mut budget, 0), 10);
        assert_eq!(sent(&mut budget, 9_999), 0);
        assert_eq!(sent(&mut budget, 10_000), 10);
        // After a day of silence no more than that.
        assert_eq!(sent(&mut budget, 86_400_000), 10);
    }

    // rule: budget-question-takes-nothing
    #[test]
    fn asking_takes_nothing_and_what_was_not_sent_is_given_back() {
        let mut budget = budget(1.0, 0);
        budget.deposit(at(0));
        assert!((0..10).all(|_| budget.may_withdraw(at(0))));
        let charge = budget.withdraw(at(0)).expect("one is left");
        assert!(!budget.may_withdraw(at(0)));
        budget.give_back(charge, at(5));
        assert!(budget.may_withdraw(at(5)));
        assert_eq!(budget.balance(at(5)), 1.0);
    }

    proptest! {
        // rule: retries-stay-within-the-budget
        #[test]
        fn retries_stay_within_the_budget_for_any_sequence(
            ratio in 0u32..=1_000_000, floor in 0u32..3,
            steps in proptest::collection::vec((0u64..3_000, any::<bool>()), 1..400),
        ) {
            let mut budget = Budget::new(BudgetPolicy {
                ratio: Ratio::of_millionths(ratio),
                floor_per_second: floor,
                window: Duration::from_secs(10),
            });
            let (mut now, mut successes, mut retries) = (0, vec![], vec![]);
            for (later, success) in steps {
                now += later;
                if success {
                    budget.deposit(at(now));
                    successes.push(now);
                } else if budget.withdraw(at(now)).is_some() {
                    retries.push(now);
                    // In the window of whole seconds that ends now, retries are paid for.
                    let since = (now / 1000).saturating_sub(9) * 1000;
                    let within = |all: &[u64]| all.iter().filter(|t| **t >= since).count() as u64;
                    let paid = u64::from(floor) * 10 * ONE + within(&successes) * u64::from(ratio);
                    prop_assert!(within(&retries) * ONE <= paid);
                }
            }
        }
    }
}
