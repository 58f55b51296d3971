//! Many waiters at once, each doing one pair after the other for a while.

use std::fs;
use std::time::Duration;

use steadfast::clock;

use crate::{Failure, measured};

/// Somebody who does durable pairs.
pub trait Waiter: Send + 'static {
    /// One pair: reserved durably, then completed durably.
    fn pair(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// What a window came to.
pub struct Window {
    /// Pairs that were done.
    pub pairs: usize,
    pairs_per_s: f64,
    /// Processor time of this whole process, a pair.
    cpu_us: f64,
    /// Of each pair, ascending.
    micros: Vec<u32>,
}

impl Window {
    /// Writes rate, processor time, median and 99th percentile under `name`.
    pub fn write(&self, round: u32, name: &str) {
        measured::write(round, &format!("{name}.pairs_per_s"), self.pairs_per_s);
        measured::write(round, &format!("{name}.cpu_us"), self.cpu_us);
        measured::write(round, &format!("{name}.p50_us"), self.percentile(50));
        measured::write(round, &format!("{name}.p99_us"), self.percentile(99));
    }

    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.micros.len() * percent / 100).min(self.micros.len().saturating_sub(1));
        self.micros.get(at).copied().map_or(f64::NAN, f64::from)
    }
}

/// Lets `waiters` work side by side for `length`; the pairs that were begun are ended.
pub async fn drive<W: Waiter>(waiters: &mut Vec<W>, length: Duration) -> Result<Window, Failure> {
    let (began, cpu) = (clock::mono_now(), cpu_ns());
    let until = began.plus(length);
    let working: Vec<_> = waiters
        .drain(..)
        .map(|mut waiter| {
            tokio::spawn(async move {
                let mut micros = Vec::new();
                let mut from = clock::mono_now();
                while from < until {
                    waiter.pair().await?;
                    let now = clock::mono_now();
                    micros.push(u32::try_from(now.since(from).as_micros()).unwrap_or(u32::MAX));
                    from = now;
                }
                Ok::<_, Failure>((waiter, micros))
            })
        })
        .collect();
    let mut micros = Vec::new();
    for work in working {
        let (waiter, mut own) = work.await??;
        waiters.push(waiter);
        micros.append(&mut own);
    }
    let seconds = clock::mono_now().since(began).as_secs_f64();
    micros.sort_unstable();
    let pairs = micros.len();
    Ok(Window {
        pairs,
        pairs_per_s: pairs as f64 / seconds,
        cpu_us: (cpu_ns() - cpu) / pairs as f64 / 1e3,
        micros,
    })
}

/// Nanoseconds of processor time that the threads of this process have had.
fn cpu_ns() -> f64 {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return f64::NAN;
    };
    threads
        .flatten()
        .filter_map(|thread| {
            let spent = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            spent.split(' ').next()?.parse::<f64>().ok()
        })
        .sum()
}
