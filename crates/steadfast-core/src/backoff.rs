//! How long to wait before the next attempt.
//!
//! Decides the length of one wait from the number of waits so far and a draw. Refuses to know why
//! another attempt follows, and what a server asked for ([`crate::retry_after`]). The rule is
//! `d(n) = min(cap, base * 2^(n-1))`, then jitter (requirement R4). It never overflows, and jitter
//! is drawn after the cap, so that it does not vanish there.

use std::fmt;
use std::time::Duration;

use crate::time::Draw;

/// How waits grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// Each twice the one before.
    Exponential,
    /// All alike.
    Fixed,
}

impl Curve {
    /// The word in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Curve::Exponential => "exponential",
            Curve::Fixed => "fixed",
        }
    }

    /// The curve that a word names.
    pub fn parse(word: &str) -> Option<Curve> {
        [Curve::Exponential, Curve::Fixed]
            .into_iter()
            .find(|curve| curve.as_str() == word)
    }
}

/// How a wait is spread, so that those who failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Between nothing and the whole wait.
    Full,
    /// The whole wait.
    None,
    /// Between half of the wait and the whole.
    Equal,
    /// Between the base and three times the wait before, at most the cap.
    Decorrelated,
}

impl Jitter {
    /// All of them.
    pub const ALL: [Jitter; 4] = [
        Jitter::Full,
        Jitter::None,
        Jitter::Equal,
        Jitter::Decorrelated,
    ];

    /// The word in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Jitter::Full => "full",
            Jitter::None => "none",
            Jitter::Equal => "equal",
            Jitter::Decorrelated => "decorrelated",
        }
    }

    /// The jitter that a word names.
    pub fn parse(word: &str) -> Option<Jitter> {
        Jitter::ALL.into_iter().find(|way| way.as_str() == word)
    }
}

/// A cap that is shorter than the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapBelowBase {
    /// The first wait.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
}

impl fmt::Display for CapBelowBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the cap of {:?} is shorter than the base of {:?}; raise the cap or lower the base",
            self.cap, self.base
        )
    }
}

impl std::error::Error for CapBelowBase {}

/// The waits of a policy.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::backoff::{Backoff, Curve, Jitter};
/// let ms = Duration::from_millis;
/// let waits = Backoff::new(Curve::Exponential, ms(500), ms(8000), Jitter::None).unwrap();
/// let upper: Vec<u128> = (1..=6).map(|n| waits.upper(n).as_millis()).collect();
/// assert_eq!(upper, [500, 1000, 2000, 4000, 8000, 8000]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    curve: Curve,
    base: Duration,
    cap: Duration,
    jitter: Jitter,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            curve: Curve::Exponential,
            base: Duration::from_millis(100),
            cap: Duration::from_secs(5),
            jitter: Jitter::Full,
        }
    }
}

impl Backoff {
    /// Waits that begin with `base` and never exceed `cap`.
    ///
    /// # Errors
    /// [`CapBelowBase`]: a cap below the base would silently be the base.
    pub fn new(
        curve: Curve,
        base: Duration,
        cap: Duration,
        jitter: Jitter,
    ) -> Result<Backoff, CapBelowBase> {
        if cap < base {
            return Err(CapBelowBase { base, cap });
        }
        Ok(Backoff {
            curve,
            base,
            cap,
            jitter,
        })
    }

    /// How waits grow.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    /// The first wait.
    pub fn base(&self) -> Duration {
        self.base
    }

    /// The longest wait.
    pub fn cap(&self) -> Duration {
        self.cap
    }

    /// How waits are spread.
    pub fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// The wait before the attempt after the `n`-th one (`n` from 1 on), before jitter:
    /// `min(cap, base * 2^(n-1))`, or the base where all are alike. No `n` overflows.
    pub fn upper(&self, n: u32) -> Duration {
        if self.curve == Curve::Fixed {
            return self.base;
        }
        let (doublings, base) = (n.saturating_sub(1), self.base.as_nanos());
        // The cap is below 2^94 ns, so what a shift would push out of 128 bits is above it; a base
        // of nothing stays nothing.
        if base == 0 {
            return Duration::ZERO;
        }
        if doublings >= base.leading_zeros() {
            return self.cap;
        }
        match base << doublings {
            grown if grown >= self.cap.as_nanos() => self.cap,
            grown => from_nanos(grown),
        }
    }

    /// The longest that [`Backoff::wait`] can be for these.
    pub fn longest(&self, n: u32, before: Duration) -> Duration {
        match self.jitter {
            Jitter::None | Jitter::Full | Jitter::Equal => self.upper(n),
            Jitter::Decorrelated => before.max(self.base).saturating_mul(3).min(self.cap),
        }
    }

    /// The wait before the attempt after the `n`-th one, spread by `draw`. `before` is the wait
    /// before that one, zero where there was none; only decorrelated jitter asks for it.
    pub fn wait(&self, n: u32, before: Duration, draw: Draw) -> Duration {
        let upper = self.upper(n);
        let draw = draw.get();
        match self.jitter {
            Jitter::None => upper,
            Jitter::Full => upper.mul_f64(draw),
            Jitter::Equal => upper / 2 + (upper - upper / 2).mul_f64(draw),
            Jitter::Decorrelated => {
                // The range is cut, not the draw, so it stays a range at the cap.
                let width = self.longest(n, before).saturating_sub(self.base);
                self.base + width.mul_f64(draw)
            }
        }
    }
}

/// Nanoseconds that are fewer than some duration's.
fn from_nanos(nanos: u128) -> Duration {
    const A_SECOND: u128 = 1_000_000_000;
    let secs = u64::try_from(nanos / A_SECOND).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % A_SECOND).unwrap_or(0);
    Duration::new(secs, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn waits(curve: Curve, base: Duration, cap: Duration, jitter: Jitter) -> Backoff {
        Backoff::new(curve, base, cap, jitter).expect("a cap that is not below the base")
    }

    // rule: back-off-doubles-up-to-its-cap
    #[test]
    fn waits_double_from_the_base_to_the_cap_and_stay_there() {
        let backoff = waits(Curve::Exponential, MS(500), MS(8000), Jitter::None);
        let got: Vec<_> = (1..=6)
            .map(|n| backoff.wait(n, Duration::ZERO, Draw::from_bits(0)))
            .collect();
        assert_eq!(got, [500, 1000, 2000, 4000, 8000, 8000].map(MS));
    }

    // rule: back-off-never-overflows
    #[test]
    fn no_number_of_attempts_overflows() {
        let longest = Duration::MAX;
        for n in [0, 1, 2, 33, 64, 94, 128, 1000, u32::MAX] {
            for base in [
                Duration::from_nanos(1),
                MS(1),
                Duration::from_secs(1),
                longest,
            ] {
                let backoff = waits(Curve::Exponential, base, longest, Jitter::Full);
                assert!((base..=longest).contains(&backoff.upper(n)), "{n} {base:?}");
            }
        }
        let huge = waits(Curve::Exponential, MS(1), longest, Jitter::None);
        assert_eq!(huge.upper(200), longest, "a large cap can be reached");
        let none = waits(
            Curve::Exponential,
            Duration::ZERO,
            Duration::ZERO,
            Jitter::Full,
        );
        assert_eq!(none.upper(200), Duration::ZERO);
    }

    // rule: jitter-does-not-vanish-at-the-cap
    #[test]
    fn at_the_cap_waits_are_spread_as_before() {
        let low = Draw::from_bits(0);
        let high = Draw::from_bits(u64::MAX);
        for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
            let backoff = waits(Curve::Exponential, MS(100), MS(1000), jitter);
            let least = backoff.wait(50, MS(1000), low);
            let most = backoff.wait(50, MS(1000), high);
            assert!(most - least >= MS(499), "{jitter:?}: {least:?} to {most:?}");
            assert!(most <= MS(1000), "{jitter:?}");
        }
    }

    #[test]
    fn a_cap_below_the_base_is_refused_with_what_to_do() {
        let refused = Backoff::new(Curve::Exponential, MS(200), MS(100), Jitter::Full);
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains("raise the cap or lower the base"), "{text}");
    }

    proptest! {
        #[test]
        fn a_wait_stays_between_nothing_and_the_cap(
            n in 1u32..2000, base in 0u64..10_000, over in 0u64..100_000, bits: u64,
            before in 0u64..200_000, which in 0usize..4,
        ) {
            let (base, cap) = (MS(base), MS(base + over));
            let backoff = waits(Curve::Exponential, base, cap, Jitter::ALL[which]);
            let wait = backoff.wait(n, MS(before), Draw::from_bits(bits));
            prop_assert!(wait <= backoff.longest(n, MS(before)) && wait <= cap);
            prop_assert!(backoff.upper(n) <= backoff.upper(n + 1));
        }
    }
}
