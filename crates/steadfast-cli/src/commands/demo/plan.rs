//! What befalls each attempt at each order: drawn from a seed before anything is sent.
//!
//! Decides by order and attempt alone, never by time or by who is faster, so that every run shows
//! the same. Whether an attempt comes with a key, or through a gateway, changes nothing here.

/// The seed of every run.
pub const SEED: u64 = 1681;

/// Orders of every run.
pub const ORDERS: u64 = 40;

/// What befalls one attempt at an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Charged, and the answer comes.
    Answered,
    /// Charged, then the connection is cut: the answer is lost.
    ChargedThenCut,
    /// Charged, then no answer for longer than anybody waits.
    ChargedThenSilent,
    /// Lost on the way: the service never hears of it, and the caller hears nothing.
    NeverArrived,
    /// The service has it and does nothing with it; the caller hears nothing.
    NotExecuted,
    /// The service fails before it charges: the connection is cut.
    CutBeforeCharge,
    /// The service says that it does not do it: 503.
    Unavailable,
}

impl Fate {
    /// All fates, in the order of the table.
    pub const ALL: [Fate; 7] = [
        Fate::Answered,
        Fate::ChargedThenCut,
        Fate::ChargedThenSilent,
        Fate::NeverArrived,
        Fate::NotExecuted,
        Fate::CutBeforeCharge,
        Fate::Unavailable,
    ];

    /// The row of the table.
    pub fn label(self) -> &'static str {
        match self {
            Fate::Answered => "charged, and answered",
            Fate::ChargedThenCut => "charged, then the connection was cut",
            Fate::ChargedThenSilent => "charged, then no answer in time",
            Fate::NeverArrived => "lost on the way, no answer",
            Fate::NotExecuted => "arrived, not executed, no answer",
            Fate::CutBeforeCharge => "cut before it was charged",
            Fate::Unavailable => "503, not charged",
        }
    }

    /// The word by which a request of one's own asks for a fate.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Answered => "answered",
            Fate::ChargedThenCut => "charged-then-cut",
            Fate::ChargedThenSilent => "charged-then-silent",
            Fate::NeverArrived => "never-arrived",
            Fate::NotExecuted => "not-executed",
            Fate::CutBeforeCharge => "cut-before-charge",
            Fate::Unavailable => "unavailable",
        }
    }

    /// The fate that a word names.
    pub fn named(word: &str) -> Option<Fate> {
        Fate::ALL.into_iter().find(|fate| fate.word() == word)
    }

    /// The service charges.
    pub fn charges(self) -> bool {
        matches!(
            self,
            Fate::Answered | Fate::ChargedThenCut | Fate::ChargedThenSilent
        )
    }
}

/// First attempts, in percent, the rest is answered. Fewer than half of them fail: the service is a
/// weak one, not a dead one.
const FIRST: [(Fate, u64); 6] = [
    (Fate::ChargedThenCut, 10),
    (Fate::ChargedThenSilent, 8),
    (Fate::NeverArrived, 6),
    (Fate::NotExecuted, 6),
    (Fate::CutBeforeCharge, 5),
    (Fate::Unavailable, 5),
];

/// Second attempts. None is silent, so that an order costs one time-out at most.
const SECOND: [(Fate, u64); 3] = [
    (Fate::ChargedThenCut, 25),
    (Fate::CutBeforeCharge, 15),
    (Fate::Unavailable, 10),
];

/// The fates of the first two attempts at each order; every later attempt is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan(Vec<[Fate; 2]>);

impl Plan {
    /// The plan of `seed` for orders 1 to `orders`.
    pub fn seeded(seed: u64, orders: u64) -> Plan {
        let mut state = seed;
        let mut fates = || {
            let first = pick(&FIRST, splitmix64(&mut state));
            let second = pick(&SECOND, splitmix64(&mut state));
            [first, second]
        };
        Plan((0..orders).map(|_| fates()).collect())
    }

    /// What befalls attempt `attempt` (from 1 on) at order `order` (from 1 on). Whatever is not in
    /// the plan is answered.
    pub fn fate(&self, order: u64, attempt: u32) -> Fate {
        let place = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
        let fates = place(order).and_then(|at| self.0.get(at));
        let fate = fates.and_then(|fates| fates.get(place(attempt.into())?));
        fate.copied().unwrap_or(Fate::Answered)
    }

    /// The first order whose first attempt ends so and whose second is answered.
    pub fn example(&self, fate: Fate) -> Option<u64> {
        let wanted = [fate, Fate::Answered];
        (1..)
            .zip(&self.0)
            .find_map(|(order, fates)| (*fates == wanted).then_some(order))
    }
}

/// The fate that a draw out of all 2⁶⁴ means.
fn pick(table: &[(Fate, u64)], draw: u64) -> Fate {
    let mut percent = draw % 100;
    for (fate, share) in table {
        if percent < *share {
            return *fate;
        }
        percent -= share;
    }
    Fate::Answered
}

/// The next number of Steele, Lea and Flood's SplitMix64: the same on every machine, which is all
/// that is asked of it.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_its_published_numbers() {
        let mut state = 0;
        let drawn: Vec<u64> = (0..3).map(|_| splitmix64(&mut state)).collect();
        assert_eq!(
            drawn,
            [
                0xe220_a839_7b1d_cdaf,
                0x6e78_9e6a_a1b9_65f4,
                0x06c4_5d18_8009_454f
            ]
        );
    }

    #[test]
    fn a_seed_is_a_plan_and_another_seed_another() {
        assert_eq!(Plan::seeded(SEED, ORDERS), Plan::seeded(SEED, ORDERS));
        assert_ne!(Plan::seeded(SEED, ORDERS), Plan::seeded(SEED + 1, ORDERS));
    }

    #[test]
    fn the_plan_of_the_demo_has_every_fate_and_fewer_failures_than_answers() {
        let plan = Plan::seeded(SEED, ORDERS);
        for fate in Fate::ALL {
            assert!(plan.example(fate).is_some(), "no {fate:?}");
        }
        let answered = (1..=ORDERS).filter(|order| plan.fate(*order, 1) == Fate::Answered);
        assert!(answered.count() as u64 > ORDERS / 2);
        let charges = |order| {
            (1..=3)
                .take_while(|attempt| {
                    *attempt == 1 || plan.fate(order, attempt - 1) != Fate::Answered
                })
                .filter(|attempt| plan.fate(order, *attempt).charges())
                .count()
        };
        let most = (1..=ORDERS).map(charges).max();
        assert_eq!(most, Some(3), "no order shows two charges too many");
    }

    #[test]
    fn third_attempts_and_orders_of_one_s_own_are_answered() {
        let plan = Plan::seeded(SEED, ORDERS);
        for order in 1..=ORDERS {
            assert_eq!(plan.fate(order, 3), Fate::Answered);
        }
        for order in [0, ORDERS + 1, u64::MAX] {
            assert_eq!(plan.fate(order, 1), Fate::Answered);
        }
        assert_eq!(plan.fate(1, 0), Fate::Answered);
    }

    #[test]
    fn an_order_costs_one_time_out_at_most() {
        for seed in 0..50 {
            let plan = Plan::seeded(seed, 100);
            for order in 1..=100 {
                let silent = matches!(
                    plan.fate(order, 2),
                    Fate::ChargedThenSilent | Fate::NeverArrived | Fate::NotExecuted
                );
                assert!(!silent, "seed {seed}, order {order}");
            }
        }
    }

    #[test]
    fn a_word_names_its_fate() {
        for fate in Fate::ALL {
            assert_eq!(Fate::named(fate.word()), Some(fate));
        }
        assert_eq!(Fate::named("lost"), None);
    }
}
