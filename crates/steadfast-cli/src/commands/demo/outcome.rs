//! What came of it, by the ledgers of the service alone.

use std::fmt;

use serde_json::{Value, json};

use super::ledger::Ledger;
use super::plan::{Fate, ORDERS, Plan, SEED};

/// Orders and charges of one row, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Orders asked for.
    pub asked: u64,
    /// Charges, sent without keys.
    pub without: u64,
    /// Charges, sent with keys through the gateway.
    pub with: u64,
}

/// The outcome of both runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    rows: Vec<(Fate, Counts)>,
    all: Counts,
    /// Orders that were not charged exactly once with keys.
    astray: Vec<u64>,
    /// Outcomes that were unknown on the way.
    unknown: u64,
}

impl Outcome {
    /// Counts what the two ledgers say of the plan's orders.
    pub fn of(plan: &Plan, without: &Ledger, with: &Ledger, unknown: u64) -> Outcome {
        let mut rows = Fate::ALL.map(|fate| (fate, Counts::default()));
        let (mut all, mut astray) = (Counts::default(), Vec::new());
        for order in 1..=ORDERS {
            let charges = |ledger: &Ledger| ledger.charges_of(order).len() as u64;
            let (without, with) = (charges(without), charges(with));
            let row = rows
                .iter_mut()
                .find(|(fate, _)| *fate == plan.fate(order, 1));
            for counts in row.map(|(_, counts)| counts).into_iter().chain([&mut all]) {
                counts.asked += 1;
                counts.without += without;
                counts.with += with;
            }
            if with != 1 {
                astray.push(order);
            }
        }
        Outcome {
            rows: rows.to_vec(),
            all,
            astray,
            unknown,
        }
    }

    /// What is not as promised: more charges than orders without keys, one for each with.
    pub fn fault(&self) -> Option<String> {
        let Counts { asked, without, .. } = self.all;
        if without <= asked {
            return Some(format!(
                "{asked} orders without keys made {without} charges, not more"
            ));
        }
        let orders: Vec<String> = self.astray.iter().map(u64::to_string).collect();
        let orders = orders.join(", ");
        (!orders.is_empty())
            .then(|| format!("with keys, not exactly one charge for order {orders}"))
    }

    /// As `--json` prints it (docs/reference.md, "demo").
    pub fn json(&self) -> Value {
        json!({
            "seed": SEED,
            "orders": self.all.asked,
            "charged_without": self.all.without,
            "charged_with": self.all.with,
            "unknown": self.unknown,
        })
    }
}

/// The table.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, asked: &str, without: &str, with: &str| {
            writeln!(f, "{name:<38}{asked:>7}{without:>17}{with:>14}")
        };
        let first = "what befell the first attempt";
        line(first, "asked", "charged without", "charged with")?;
        let named = self
            .rows
            .iter()
            .map(|(fate, counts)| (fate.label(), counts));
        for (name, counts) in named.chain([("all", &self.all)]) {
            let [asked, without, with] =
                [counts.asked, counts.without, counts.with].map(|number| number.to_string());
            line(name, &asked, &without, &with)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Books in which `orders` were charged `times` each.
    fn charged(times: u64) -> Ledger {
        let ledger = Ledger::default();
        for order in 1..=ORDERS {
            for _ in 0..times {
                ledger.charge(order, 100);
            }
        }
        ledger
    }

    fn of(without: &Ledger, with: &Ledger) -> Outcome {
        Outcome::of(&Plan::seeded(SEED, ORDERS), without, with, 3)
    }

    #[test]
    fn the_table_holds_with_more_charges_without_keys_and_one_each_with() {
        let outcome = of(&charged(2), &charged(1));
        assert_eq!(outcome.fault(), None);
        let expected = json!({
            "seed": SEED, "orders": 40, "charged_without": 80, "charged_with": 40, "unknown": 3,
        });
        assert_eq!(outcome.json(), expected);
        let table = outcome.to_string();
        let widths: Vec<usize> = table.lines().map(str::len).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
        assert!(
            table
                .lines()
                .next_back()
                .is_some_and(|all| all.starts_with("all ")),
            "{table}"
        );
    }

    #[test]
    fn a_table_that_does_not_hold_says_why() {
        let (once, twice) = (charged(1), charged(2));
        let equal = of(&once, &once).fault();
        assert!(equal.is_some_and(|why| why.contains("not more")));
        assert!(
            of(&twice, &twice)
                .fault()
                .is_some_and(|why| why.contains("order 1, 2, 3,"))
        );
        // Right in sum, and wrong for two orders.
        let astray = Ledger::default();
        for order in [1, 1].into_iter().chain(3..=ORDERS) {
            astray.charge(order, 100);
        }
        assert!(
            of(&twice, &astray)
                .fault()
                .is_some_and(|why| why.ends_with("order 1, 2"))
        );
        // What is not of the plan does not count.
        once.charge(ORDERS + 1, 100);
        assert_eq!(of(&twice, &once).fault(), None);
    }
}
