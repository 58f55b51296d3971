//! The only reader of clocks and entropy, and the only owner of timers.
//!
//! Everything else is given values, so that a decision can be repeated and a test needs no waiting.

use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use pin_project_lite::pin_project;
use steadfast_core::time::{Draw, MonoTime, WallTime};

/// The instant now, on the process's monotonic clock (tokio's, so that a test may pause it).
#[expect(
    clippy::disallowed_methods,
    reason = "the one reader of the monotonic clock"
)]
pub fn mono_now() -> MonoTime {
    let now = tokio::time::Instant::now();
    MonoTime::from_origin(now.saturating_duration_since(*ORIGIN.get_or_init(|| now)))
}

/// Where [`MonoTime`] begins: the first instant that anybody asked for.
static ORIGIN: OnceLock<tokio::time::Instant> = OnceLock::new();

/// A timer that rings at one instant and can be set anew, for futures that are polled by hand.
#[derive(Debug)]
pub struct Timer {
    sleep: Pin<Box<tokio::time::Sleep>>,
    at: MonoTime,
}

impl Timer {
    /// Longer than any limit; the runtime's timers know no instant after all time.
    const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);

    /// A timer that rings at `at`; at once when that is past.
    #[expect(clippy::disallowed_methods, reason = "the one owner of timers")]
    pub fn at(at: MonoTime) -> Timer {
        let sleep = Box::pin(tokio::time::sleep_until(Timer::instant(at)));
        Timer { sleep, at }
    }

    /// Rings at `at` from now on. Setting the instant it has already costs nothing.
    pub fn set(&mut self, at: MonoTime) {
        if at != self.at {
            self.at = at;
            self.sleep.as_mut().reset(Timer::instant(at));
        }
    }

    /// The instant it is set to.
    pub fn rings_at(&self) -> MonoTime {
        self.at
    }

    /// Ready once the instant has come.
    pub fn poll_rung(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }

    fn instant(at: MonoTime) -> tokio::time::Instant {
        let now = mono_now();
        let origin = *ORIGIN.get_or_init(|| unreachable!("set by the reading above"));
        let zero = MonoTime::from_origin(Duration::ZERO);
        let latest = now.plus(Timer::LONGEST);
        origin + at.min(latest).since(zero)
    }
}

/// The date now, by this machine's clock. It may jump either way; stores make theirs monotonic.
#[expect(
    clippy::disallowed_methods,
    reason = "the one reader of the wall clock"
)]
pub fn wall_now() -> WallTime {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let ms = since_epoch.map_or(0, |length| length.as_millis());
    WallTime::from_unix_ms(u64::try_from(ms).unwrap_or(u64::MAX))
}

/// Waits for `length`.
#[expect(clippy::disallowed_methods, reason = "the one owner of timers")]
pub async fn sleep(length: Duration) {
    tokio::time::sleep(length).await;
}

/// The length ran out before the future was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Waits for `future`, for `length` at most. A future that is ready is taken even at length zero.
///
/// Not an `async fn`, which would hold the future twice: as its argument and while it waits for it.
#[expect(clippy::disallowed_methods, reason = "the one owner of timers")]
pub fn within<F: Future>(
    length: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    tokio::time::timeout(length, future).map(|ended| ended.map_err(|_| Elapsed))
}

/// Waits for `future`, until `ends` at most. A future that is ready is taken even then, and has
/// cost no reading of the clock.
pub fn until<F: Future>(ends: MonoTime, future: F) -> Until<F> {
    Until {
        future,
        timer: None,
        ends,
    }
}

pin_project! {
    /// The future of [`until`]. It holds what it waits for once, as an `async fn` would not.
    #[derive(Debug)]
    pub struct Until<F> {
        #[pin]
        future: F,
        timer: Option<Timer>,
        ends: MonoTime,
    }
}

impl<F: Future> Future for Until<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(done) = this.future.poll(cx) {
            return Poll::Ready(Ok(done));
        }
        let timer = this.timer.get_or_insert_with(|| Timer::at(*this.ends));
        timer.poll_rung(cx).map(|()| Err(Elapsed))
    }
}

/// `N` random bytes from the operating system.
///
/// # Panics
/// When the operating system has none: nothing may go on without unguessable ids and owners.
#[expect(clippy::disallowed_methods, reason = "the one reader of entropy")]
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives no random bytes");
    bytes
}

/// 128 random bits.
pub fn random_bits() -> u128 {
    u128::from_le_bytes(random())
}

/// One draw of chance in `[0, 1)`.
pub fn draw() -> Draw {
    Draw::from_bits(u64::from_le_bytes(random()))
}

/// Lets this thread rest for `length`. For threads of our own; a task uses [`sleep`].
#[expect(clippy::disallowed_methods, reason = "the one owner of timers")]
pub fn pause(length: Duration) {
    std::thread::sleep(length);
}
