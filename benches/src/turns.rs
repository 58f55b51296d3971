//! Two ways to do one thing, taking turns within one window.

use std::time::Duration;

use steadfast::clock;

use crate::measured;

/// Slices of one window: what is compared takes turns this often.
const SLICES: u32 = 20;

/// Writes what one of each costs, in nanoseconds: `NAME.ours_ns` and `NAME.reference_ns`. A call
/// does it `times` times.
pub fn compare(
    round: u32,
    length: Duration,
    (name, times): (&str, u32),
    ours: &impl Fn(),
    reference: &impl Fn(),
) {
    let slice = length / (2 * SLICES);
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..SLICES {
        own.push(nanos(slice, ours));
        other.push(nanos(slice, reference));
    }
    for (whose, nanos) in [("ours", &mut own), ("reference", &mut other)] {
        nanos.sort_by(f64::total_cmp);
        let median = nanos[nanos.len() / 2] / f64::from(times);
        measured::write(round, &format!("{name}.{whose}_ns"), median);
    }
}

fn nanos(length: Duration, one: &impl Fn()) -> f64 {
    const BETWEEN: u32 = 50;
    let began = clock::mono_now();
    let mut calls = 0;
    loop {
        for _ in 0..BETWEEN {
            one();
        }
        calls += BETWEEN;
        let spent = clock::mono_now().since(began);
        if spent >= length {
            return spent.as_nanos() as f64 / f64::from(calls);
        }
    }
}
