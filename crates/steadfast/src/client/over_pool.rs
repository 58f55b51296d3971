//! Attempts over the pool, whose failures are evidence.
//!
//! Decides which connection an attempt may take: what may be repeated takes any at rest, what may
//! not only one that rested shortly, and after a failure on one that was used before the next is
//! new. The pool runs the clock of every phase.

use http::Request;
use http_body_util::BodyExt;
use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use steadfast_core::time::MonoTime;
use steadfast_core::timeouts::Timeouts;

use super::evidence::Seen;
use super::pool::{CallerLeft, Pool, Ready, Reuse, SendEnd, UpstreamBody};
use super::request_body::AttemptBody;
use super::target::Target;
use super::way::{Came, Fell, Way};

/// The way to one target.
pub(super) struct OverPool {
    pub(super) pool: Pool,
    pub(super) target: Target,
    pub(super) timeouts: Timeouts,
    pub(super) deadline: Deadline,
    /// What the next attempt may take.
    pub(super) reuse: Reuse,
}

impl Way for OverPool {
    type Ready = Ready;
    type Body = UpstreamBody;

    // The attempt's own limit is among the pool's.
    async fn ready(&mut self, _: MonoTime) -> Result<Ready, Seen> {
        if let Some(ready) = self.pool.idle(&self.target, self.reuse) {
            return Ok(ready);
        }
        let (target, timeouts) = (&self.target, &self.timeouts);
        let acquired = self
            .pool
            .acquire(target, self.reuse, timeouts, self.deadline);
        acquired.await.map_err(Seen::from)
    }

    async fn send(
        &mut self,
        ready: Ready,
        request: Request<AttemptBody>,
        _: MonoTime,
    ) -> Result<Came<UpstreamBody>, Fell> {
        let used_before = ready.is_reused();
        let request = request.map(|body| {
            let left = |_| CallerLeft {
                detail: "it failed by itself".to_owned(),
            };
            body.map_err(left).boxed_unsync()
        });
        let (failure, detail, own_fault) =
            match ready.send(request, &self.timeouts, self.deadline).await {
                SendEnd::Head {
                    response,
                    request_written,
                } => {
                    return Ok(Came {
                        answer: response,
                        request_written,
                    });
                }
                SendEnd::Failed { failure, detail } => (failure, detail, false),
                SendEnd::CallerLeft { failure, detail } => (failure, detail, true),
            };
        if used_before {
            self.reuse = Reuse::Fresh;
        }
        let seen = Seen {
            failure,
            stale: used_before && failure == Failure::NotWritten && !own_fault,
            detail: Some(detail),
        };
        Err(Fell { seen, own_fault })
    }
}
