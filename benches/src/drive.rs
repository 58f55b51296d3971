//! Many waiters at once, each doing one pair after the other for a while.

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
    pairs_per_s: f64,
    /// Of each pair, ascending.
    micros: Vec<u32>,
}

impl Window {
    /// Writes rate, median and 99th percentile under `name`.
    pub fn write(&self, round: u32, name: &str) {
        measured::write(round, &format!("{name}.pairs_per_s"), self.pairs_per_s);
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
    let began = clock::mono_now();
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
    Ok(Window {
        pairs_per_s: micros.len() as f64 / seconds,
        micros,
    })
}
