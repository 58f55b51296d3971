//! Writes without a key that outlive their callers.
//!
//! A caller who leaves cancels what is safe to abandon (T5). A write that is being sent is not: cut
//! in the middle, its service would see half of it, or drop it half done. It goes on to the end of
//! that attempt, on a task of its own, within the route's limits; its answer is dropped and nothing
//! follows it. A body that its caller has not sent whole is cut with the caller all the same.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use steadfast::clock;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Such writes at once, at most: each holds a connection and a body. Beyond, they are cut.
pub const STAYING_MAX: u32 = 10_000;

/// Where they are counted. Clones share it.
#[derive(Clone)]
pub struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Places::new()
    }
}

impl Places {
    /// Nobody is there.
    pub fn new() -> Places {
        Places(Arc::new(Semaphore::new(STAYING_MAX as usize)))
    }

    /// Waits until none is left, for `limit` at most; how many are left then.
    pub async fn empty(&self, limit: Duration) -> usize {
        match clock::within(limit, self.0.acquire_many(STAYING_MAX)).await {
            Ok(_) => 0,
            Err(_) => STAYING_MAX as usize - self.0.available_permits(),
        }
    }
}

/// What a write and whoever waits for it tell each other.
#[derive(Clone, Debug, Default)]
pub struct Stage(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    sending: AtomicBool,
    left: AtomicBool,
}

impl Stage {
    /// From now on it is being sent, or is not any more.
    pub fn sending(&self, is: bool) {
        self.0.sending.store(is, Ordering::Relaxed);
    }

    /// Its caller left.
    pub fn is_left(&self) -> bool {
        self.0.left.load(Ordering::Relaxed)
    }
}

/// A write, as its caller waits for it.
pub struct Staying<F: Future<Output: Send> + Send + 'static> {
    /// Gone once it is done.
    work: Option<Pin<Box<F>>>,
    stage: Stage,
    places: Places,
}

impl<F: Future<Output: Send> + Send + 'static> Staying<F> {
    /// Waits for `work`, which tells `stage` where it is.
    pub fn new(work: F, stage: Stage, places: Places) -> Staying<F> {
        Staying {
            work: Some(Box::pin(work)),
            stage,
            places,
        }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Staying<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        let work = this.work.as_mut().expect("not polled behind its end");
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            this.work = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Staying<F> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else {
            return;
        };
        if !self.stage.0.sending.load(Ordering::Relaxed) {
            return;
        }
        let place = Arc::clone(&self.places.0).try_acquire_owned();
        if let (Ok(place), Ok(runtime)) = (place, Handle::try_current()) {
            self.stage.0.left.store(true, Ordering::Relaxed);
            runtime.spawn(async move {
                drop(work.await);
                drop(place);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that never ends, and tells when it is cut.
    struct Endless(Arc<Semaphore>);

    impl Future for Endless {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    impl Drop for Endless {
        fn drop(&mut self) {
            self.0.add_permits(1);
        }
    }

    #[tokio::test]
    async fn of_writes_whose_callers_left_10_000_go_on_and_the_next_is_cut() {
        let (places, cut) = (Places::new(), Arc::new(Semaphore::new(0)));
        let leave = |is_sending| {
            let stage = Stage::default();
            stage.sending(is_sending);
            let work = Endless(Arc::clone(&cut));
            drop(Staying::new(work, stage.clone(), places.clone()));
            stage.is_left()
        };
        for _ in 0..10_000 {
            assert!(leave(true));
        }
        assert_eq!(cut.available_permits(), 0);
        assert!(!leave(true), "there is no place left");
        assert!(!leave(false), "nothing of it was sent");
        assert_eq!(cut.available_permits(), 2);
        assert_eq!(places.empty(Duration::ZERO).await, 10_000);
    }
}
