//! A server from its first request to its drained end, over whatever takes the connections.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::sync::watch;

use super::{Server, sweep_on};
use crate::clock;

/// What is left of a drain, at most, to tell callers that their work was stopped.
const TELL: Duration = Duration::from_secs(2);

/// Ready once no more connections are to be taken.
pub type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served<T> {
    /// What the serving future gave; `None` where connections were still open at the end of the
    /// drain.
    pub output: Option<T>,
    /// Keyed works that were stopped and written down as unknown.
    pub stopped: usize,
}

impl Server {
    /// Serves by `serve` until `stop` is ready, then drains for `limit` at most. Beside it the
    /// sweeper runs, which ends lost leases and removes what has expired.
    ///
    /// `serve` is given a future that is ready once it is to take no more connections, and has to
    /// end when those that it has are done, as `axum::serve(…).with_graceful_shutdown(stop)` does.
    /// Requests that are on their way in meanwhile may still become work. What is left a little
    /// before the end of `limit` is stopped and written down as unknown, and its callers are told.
    /// Where `serve` ends by itself, the drain begins then.
    pub async fn serve_until<S: IntoFuture>(
        &self,
        stop: impl Future<Output = ()>,
        limit: Duration,
        serve: impl FnOnce(Stop) -> S,
    ) -> Served<S::Output> {
        let (begin, mut begun) = watch::channel(false);
        let (leave, mut left) = watch::channel(false);
        let (drained, mut over) = watch::channel(false);
        let serving = serve(Box::pin(
            async move { drop(begun.wait_for(|is| *is).await) },
        ));
        let callers = async {
            let mut serving = pin!(serving.into_future());
            let over = async {
                drop(over.wait_for(|is| *is).await);
                clock::sleep(TELL.min(limit / 4)).await;
            };
            tokio::select! {
                biased;
                output = &mut serving => {
                    leave.send_replace(true);
                    Some(output)
                }
                () = over => None,
            }
        };
        let works = async {
            tokio::select! {
                () = stop => {}
                _ = left.wait_for(|is| *is) => {}
            }
            begin.send_replace(true);
            let left = async { drop(left.wait_for(|is| *is).await) };
            let stopped = self.drain_after(left, limit).await;
            drained.send_replace(true);
            stopped
        };
        let both = async { tokio::join!(callers, works) };
        tokio::select! {
            (output, stopped) = both => Served { output, stopped },
            () = sweep_on(self.clone()) => unreachable!("the sweeper goes on until it is dropped"),
        }
    }

    /// Drains for `limit` at most once `left` is ready, which says that no connection is open any
    /// more: until then a request that is on its way in may still become work, as long as there
    /// is time. Works are stopped a little before `limit`, so that their callers can be told.
    /// Gives the number of works that were stopped.
    pub async fn drain_after(&self, left: impl Future<Output = ()>, limit: Duration) -> usize {
        let (from, limit) = (clock::mono_now(), limit - (limit / 4).min(TELL));
        let _ = clock::within(limit, left).await;
        let spent = clock::mono_now().since(from);
        self.drain(limit.saturating_sub(spent)).await
    }
}
