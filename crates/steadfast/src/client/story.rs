//! What became of an operation, attempt by attempt.
//!
//! Holds for each attempt its number, when it began, how it ended, what was decided and why, and
//! the wait that followed. Bounded: of a long course the first and the latest attempts are kept.

use std::fmt;
use std::time::Duration;

use steadfast_core::attempt::AttemptEnd;
use steadfast_core::retry::{Decision, Next};

/// One attempt that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its number, from 1 on.
    pub number: u32,
    /// When it began, from the operation's start.
    pub started: Duration,
    /// How long it took until its end was known.
    pub took: Duration,
    /// How it ended.
    pub end: AttemptEnd,
    /// What was decided then; the wait before the next attempt stands in it.
    pub decision: Decision,
}

/// An operation's attempts. Clones are independent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    told: Vec<Told>,
    left_out: u32,
}

impl Story {
    /// Attempts that are kept at most; a policy rarely allows more than a handful.
    pub const MOST: usize = 16;

    /// What is kept of the attempts, in their order.
    pub fn attempts(&self) -> &[Told] {
        &self.told
    }

    /// How many ended attempts are not among [`Story::attempts`]. They stood before its last one.
    pub fn left_out(&self) -> u32 {
        self.left_out
    }

    /// The attempt that ended last.
    pub fn last(&self) -> Option<&Told> {
        self.told.last()
    }

    pub(super) fn add(&mut self, told: Told) {
        if self.told.is_empty() {
            // Most operations have one attempt.
            self.told.reserve_exact(1);
        }
        if self.told.len() == Story::MOST {
            self.told.remove(Story::MOST / 2);
            self.left_out += 1;
        }
        self.told.push(told);
    }

    /// What was decided of the last attempt turned out otherwise.
    pub(super) fn decided(&mut self, decision: Decision) {
        if let Some(last) = self.told.last_mut() {
            last.decision = decision;
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { number, took, .. } = self;
        let (end, decision) = (self.end.slug(), self.decision);
        let (next, reason) = (decision.next.as_str(), decision.reason.as_str());
        write!(
            f,
            "attempt {number}: {end} after {took:?}, {next} ({reason})"
        )?;
        match decision.next {
            Next::Retry { wait, .. } => write!(f, " in {wait:?}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::attempt::Failure;
    use steadfast_core::effect::Effect;
    use steadfast_core::retry::Reason;

    use super::*;

    #[test]
    fn a_long_story_keeps_its_first_and_its_latest_attempts() {
        let mut story = Story::default();
        for number in 1..=100 {
            story.add(Told {
                number,
                started: Duration::ZERO,
                took: Duration::from_millis(3),
                end: AttemptEnd::Failed(Failure::Connect),
                decision: Decision {
                    next: Next::GiveUp,
                    effect: Effect::None,
                    reason: Reason::AttemptsUsed,
                },
            });
        }
        let numbers: Vec<u32> = story.attempts().iter().map(|told| told.number).collect();
        assert_eq!(numbers.len(), Story::MOST);
        assert_eq!((numbers[0], numbers[Story::MOST - 1]), (1, 100));
        assert_eq!(story.left_out(), 84);
        let last = story.last().expect("a hundred").to_string();
        assert_eq!(last, "attempt 100: connect after 3ms, give_up (attempts)");
    }
}
