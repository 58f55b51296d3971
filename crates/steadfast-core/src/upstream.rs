//! What every caller of one upstream shares: its retry budget and its circuit breaker.
//!
//! Decides whether an attempt may begin ([`Upstream::admit`]) and be sent ([`Upstream::pay`]), and
//! what its end means for the attempts of others ([`Upstream::ended`]). Refuses to know operations,
//! methods and keys. A driver keeps one value for each upstream behind a lock (requirements R7,
//! R9).

use std::time::Duration;

use crate::attempt::{AttemptEnd, Failure};
use crate::breaker::{Breaker, BreakerPolicy, Mark, Pass, Phase, Shut};
use crate::budget::{Budget, BudgetPolicy, Charge};
use crate::time::MonoTime;

/// An upstream as its callers know it.
#[derive(Clone, Debug)]
pub struct Upstream {
    budget: Budget,
    breaker: Breaker,
}

/// Why an attempt may not go out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The breaker is open.
    Open(Shut),
    /// Retries have used up their share.
    Budget,
}

/// What kind of attempt is to go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// An operation's first one: asks the breaker.
    First,
    /// Another one: asks the breaker, then pays from the budget when it is sent.
    Again,
    /// A resend after a reused connection that had been closed before anything was written:
    /// neither.
    Resend,
}

/// The leave for one attempt. Its end is told to [`Upstream::ended`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the end of the attempt is to be told"]
pub struct Ticket {
    sends: Sends,
    pass: Option<Pass>,
    charge: Option<Charge>,
}

/// How an attempt ended, for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// So.
    End(&'a AttemptEnd),
    /// On a connection that was used before, and provably without a byte written: it says nothing
    /// of the upstream.
    Stale,
    /// It was not sent after all, or its caller left.
    Nothing,
}

impl Upstream {
    /// An upstream of which nothing is known.
    pub fn new(budget: BudgetPolicy, breaker: BreakerPolicy) -> Upstream {
        Upstream {
            budget: Budget::new(budget),
            breaker: Breaker::new(breaker),
        }
    }

    /// Whether a retry that waits `wait` from `now` on could go out. Takes nothing; the breaker is
    /// asked first.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn may_retry(&mut self, now: MonoTime, wait: Duration) -> Result<(), Refused> {
        self.breaker
            .may_pass(now.plus(wait))
            .map_err(Refused::Open)?;
        match self.budget.may_withdraw(now) {
            true => Ok(()),
            false => Err(Refused::Budget),
        }
    }

    /// Whether new work may go out at `now`. Takes nothing.
    ///
    /// # Errors
    /// [`Shut`], with the time to come back after.
    pub fn may_begin(&self, now: MonoTime) -> Result<(), Shut> {
        self.breaker.may_pass(now)
    }

    /// The leave to begin an attempt at `now`, which ends within `lease`: the breaker's. Asked
    /// before a connection is.
    ///
    /// # Errors
    /// [`Shut`], with the time to come back after.
    pub fn admit(&mut self, sends: Sends, now: MonoTime, lease: Duration) -> Result<Ticket, Shut> {
        let pass = match sends {
            Sends::First | Sends::Again => Some(self.breaker.admit(now, lease)?),
            Sends::Resend => None,
        };
        Ok(Ticket {
            sends,
            pass,
            charge: None,
        })
    }

    /// The leave to send the attempt of `ticket` at `now`: the budget's, which it is taken from
    /// once. Asked with a connection in hand, right before the first byte.
    ///
    /// # Errors
    /// [`Refused::Budget`]; nothing was taken.
    pub fn pay(&mut self, ticket: &mut Ticket, now: MonoTime) -> Result<(), Refused> {
        if ticket.sends != Sends::Again || ticket.charge.is_some() {
            return Ok(());
        }
        ticket.charge = Some(self.budget.withdraw(now).ok_or(Refused::Budget)?);
        Ok(())
    }

    /// The attempt of `ticket` ended so at `now`.
    pub fn ended(&mut self, ticket: Ticket, outcome: Outcome<'_>, now: MonoTime) {
        let mark = match outcome {
            Outcome::End(end) => mark(end),
            Outcome::Stale | Outcome::Nothing => Mark::Nothing,
        };
        if mark == Mark::Success {
            self.budget.deposit(now);
        }
        if let (Outcome::Stale | Outcome::Nothing, Some(charge)) = (outcome, ticket.charge) {
            self.budget.give_back(charge, now);
        }
        if let Some(pass) = ticket.pass {
            self.breaker.record(pass, mark, now);
        }
    }

    /// What is left of the budget at `now`, from 0 to 1.
    pub fn budget_balance(&mut self, now: MonoTime) -> f64 {
        self.budget.balance(now)
    }

    /// What the breaker lets through at `now`.
    pub fn phase(&self, now: MonoTime) -> Phase {
        self.breaker.phase(now)
    }
}

/// What `end` says of the upstream's health: 5xx and no answer are failures; a 4xx, our own full
/// pool and our own stop are not.
fn mark(end: &AttemptEnd) -> Mark {
    match end {
        AttemptEnd::Answered(answered) => match answered.status.as_u16() {
            500.. => Mark::Failure,
            400..=499 => Mark::Neutral,
            _ => Mark::Success,
        },
        AttemptEnd::Failed(Failure::Pool | Failure::Abandoned) => Mark::Nothing,
        AttemptEnd::Failed(_) => Mark::Failure,
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::attempt::Answered;
    use crate::window::Ratio;

    const NOW: MonoTime = MonoTime::from_origin(Duration::ZERO);
    const LEASE: Duration = Duration::from_secs(1);

    fn upstream() -> Upstream {
        let budget = BudgetPolicy {
            ratio: Ratio::of_millionths(Ratio::ONE),
            floor_per_second: 0,
            ..BudgetPolicy::default()
        };
        Upstream::new(budget, BreakerPolicy::default())
    }

    fn answered(status: u16) -> AttemptEnd {
        AttemptEnd::Answered(Answered {
            status: StatusCode::from_u16(status).expect("a status"),
            request_written: true,
            through_intermediary: false,
            says_unknown: false,
        })
    }

    // rule: deposits-come-from-successes
    #[test]
    fn only_successes_let_others_retry() {
        for (status, retries) in [(200, 1), (303, 1), (404, 0), (429, 0), (500, 0), (503, 0)] {
            let mut upstream = upstream();
            let ticket = upstream.admit(Sends::First, NOW, LEASE).expect("closed");
            upstream.ended(ticket, Outcome::End(&answered(status)), NOW);
            let got = upstream.may_retry(NOW, Duration::ZERO).is_ok();
            assert_eq!(u32::from(got), retries, "{status}");
        }
    }

    #[test]
    fn what_is_our_own_or_the_caller_s_fault_does_not_open_the_breaker() {
        let mut upstream = upstream();
        let harmless = [
            answered(404),
            answered(429),
            AttemptEnd::Failed(Failure::Pool),
            AttemptEnd::Failed(Failure::Abandoned),
        ];
        for end in harmless.iter().cycle().take(400) {
            let ticket = upstream.admit(Sends::First, NOW, LEASE).expect("closed");
            upstream.ended(ticket, Outcome::End(end), NOW);
        }
        assert_eq!(upstream.phase(NOW), Phase::Closed);
    }

    // rule: a-stale-connection-is-not-charged
    #[test]
    fn a_resend_after_a_stale_connection_is_charged_to_nobody() {
        let mut upstream = upstream();
        for _ in 0..1000 {
            let ticket = upstream.admit(Sends::Resend, NOW, LEASE).expect("free");
            upstream.ended(ticket, Outcome::Stale, NOW);
        }
        assert_eq!(upstream.phase(NOW), Phase::Closed);
        // A retry that met one gets its charge back.
        let ticket = upstream.admit(Sends::First, NOW, LEASE).expect("closed");
        upstream.ended(ticket, Outcome::End(&answered(200)), NOW);
        let mut paid = upstream.admit(Sends::Again, NOW, LEASE).expect("closed");
        assert_eq!(upstream.pay(&mut paid, NOW), Ok(()));
        assert_eq!(upstream.pay(&mut paid, NOW), Ok(()), "once");
        let mut other = upstream.admit(Sends::Again, NOW, LEASE).expect("closed");
        assert_eq!(upstream.pay(&mut other, NOW), Err(Refused::Budget));
        upstream.ended(other, Outcome::Nothing, NOW);
        upstream.ended(paid, Outcome::Stale, NOW);
        assert!(upstream.may_retry(NOW, Duration::ZERO).is_ok());
    }

    #[test]
    fn an_open_breaker_is_said_before_the_budget_and_takes_nothing_from_it() {
        let mut upstream = upstream();
        for _ in 0..20 {
            let ticket = upstream.admit(Sends::First, NOW, LEASE).expect("closed");
            upstream.ended(
                ticket,
                Outcome::End(&AttemptEnd::Failed(Failure::Connect)),
                NOW,
            );
        }
        assert!(upstream.admit(Sends::Again, NOW, LEASE).is_err());
        let refused = upstream.may_retry(NOW, Duration::ZERO);
        assert!(matches!(refused, Err(Refused::Open(_))), "{refused:?}");
        // Once it may be asked again, waiting for that long is what a retry can do.
        let long = Duration::from_secs(5);
        assert_eq!(upstream.may_retry(NOW, long), Err(Refused::Budget));
    }
}
