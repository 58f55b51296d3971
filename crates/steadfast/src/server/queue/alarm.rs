//! When the queue has to look again: what this process put off is due at a date that it knows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast_core::time::MonoTime;
use tokio::sync::Notify;

use crate::clock;

/// Dates remembered at once; what is due at others is seen by the next look.
const DATES_MAX: usize = 4096;

/// Dates at which something is due.
#[derive(Default)]
pub(in crate::server) struct Alarm {
    dates: Mutex<BinaryHeap<Reverse<MonoTime>>>,
    set: Notify,
}

impl Alarm {
    /// Something is due after `length` from now.
    pub(in crate::server) fn ring_in(&self, length: Duration) {
        let at = clock::mono_now().plus(length);
        let is_first = {
            let mut dates = self.lock();
            let is_first = dates.peek().is_none_or(|Reverse(first)| at < *first);
            if dates.len() < DATES_MAX {
                dates.push(Reverse(at));
            }
            is_first
        };
        if is_first {
            self.set.notify_one();
        }
    }

    /// Ready once a date has come. Dates that have passed by then are forgotten together.
    pub(super) async fn rings(&self) {
        loop {
            let now = clock::mono_now();
            let first = self.lock().peek().map(|Reverse(at)| *at);
            match first {
                Some(at) if at <= now => {
                    let mut dates = self.lock();
                    while dates.peek().is_some_and(|Reverse(at)| *at <= now) {
                        dates.pop();
                    }
                    return;
                }
                Some(at) => {
                    let _ = clock::within(at.since(now), self.set.notified()).await;
                }
                None => self.set.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Reverse<MonoTime>>> {
        self.dates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
