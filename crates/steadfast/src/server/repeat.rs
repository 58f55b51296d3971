//! Going again: another attempt under the same hold, with a fence of its own.
//!
//! Whether an operation goes again is [`steadfast_core::retry`]'s decision; here it is acted upon,
//! in this order: the wait, the breaker, a connection, the budget, the mark in the store, and only
//! then a byte. Whatever refuses on that way, the end that came before stands and is written down
//! (docs/keyed-requests.md, "States": a fence is drawn for every attempt, and written before it
//! goes out).

use steadfast_core::deadline::Deadline;
use steadfast_core::retry::{Decision, Next, Reason};
use steadfast_core::upstream::{Refused, Sends};

use super::answer::Came;
use super::execute::Execute;
use super::hold::Again;
use super::work::Work;
use crate::attempts::Leave;

/// The end of the last attempt that was sent, and the decision that nothing follows it.
type Last = (Came, Decision);

impl<E: Execute> Work<E> {
    /// What the next attempt is sent with, its mark being written; else the end that stands.
    ///
    /// Attempts that come to no connection are attempts, too; what was sent before them stays what
    /// there is to write down.
    pub(super) async fn again(
        &mut self,
        mut came: Came,
        deadline: Deadline,
    ) -> Result<(E::Ready, Leave), Box<Last>> {
        let (mut end, mut signs) = (came.end, came.signs);
        let mut decision = self.attempts.decide(&end, &signs);
        let mut after_reused = came.was_reused;
        loop {
            let Next::Retry { sends, .. } = decision.next else {
                return Err(Box::new((came, decision)));
            };
            if !came.is_told {
                came.is_told = true;
                self.tell_attempt(&came, None);
            }
            if !self.waited(&decision).await || !self.held.may_start() {
                let decision = decision.stopped(Reason::Stopped);
                return Err(Box::new((came, decision)));
            }
            let mut leave = match self.attempts.admit() {
                Ok(leave) => leave,
                Err(shut) => {
                    let decision = self.attempts.refused(&end, &signs, Refused::Open(shut));
                    return Err(Box::new((came, decision)));
                }
            };
            self.attempt = self.held.attempt(self.attempts.number());
            let is_new = after_reused || sends == Sends::Resend;
            let at_hand = self.execute.at_hand().filter(|_| !is_new);
            let ready = match at_hand {
                Some(ready) => Ok(ready),
                None => self.prepare(deadline, is_new).await,
            };
            let ready = match ready {
                Ok(ready) => ready,
                Err(failed) => {
                    let missed = self.failed(failed, Some(leave), false);
                    (end, signs) = (missed.end, missed.signs);
                    decision = self.attempts.decide(&end, &signs);
                    let follows = matches!(decision.next, Next::Retry { .. });
                    self.tell_attempt(&missed, (!follows).then_some(decision.reason));
                    after_reused = false;
                    continue;
                }
            };
            if let Err(by) = leave.pay() {
                let decision = self.attempts.refused(&end, &signs, by);
                return Err(Box::new((came, decision)));
            }
            match self.held.again(&came.ended).await {
                Again::Held(held) => {
                    self.held = held;
                    self.renewing = self.held.renewing();
                    self.attempt = self.held.attempt(self.attempts.number());
                    return Ok((ready, leave));
                }
                Again::Refused => {
                    let decision = decision.stopped(Reason::Stopped);
                    return Err(Box::new((came, decision)));
                }
            }
        }
    }
}
