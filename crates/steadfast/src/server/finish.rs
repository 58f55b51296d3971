//! Writing an attempt's end down, and what its caller is given then.
//!
//! A store that fails to take the end does not keep the real answer from the caller: the write goes
//! on under the same owner and fence, also after the lease. A write that is refused because a newer
//! one stands gives the caller what stands, once it is at rest (docs/keyed-requests.md, "States").

use std::pin::pin;
use std::time::Duration;

use steadfast_core::effect::Effect;
use steadfast_core::policy::Meaning;
use steadfast_core::record::{Ended, Record, State};

use super::caller::{Given, Reply};
use super::execute::Execute;
use super::hold::End;
use super::reply;
use super::work::Work;
use crate::clock;

/// Between two tries of a late write.
const LATER_FIRST: Duration = Duration::from_millis(100);
const LATER_MAX: Duration = Duration::from_secs(5);

/// How long a stop waits for a newer holder of this process to write its own end down.
const STOP_REST: Duration = Duration::from_secs(1);

/// How a wait for a newer holder ended.
enum Rest {
    /// What stands is at work no more.
    Came,
    /// Nothing stands any more.
    Gone,
    /// The store gave no answer.
    NoStore,
    /// The process ends.
    Stopped,
}

impl<E: Execute> Work<E> {
    /// Writes the end, then tells the caller. `own` is its attempt's own answer; `None` where it
    /// was passed on already.
    pub(super) async fn settle(&mut self, ended: &Ended, own: Option<Reply>) {
        if ended.verdict.meaning == Meaning::Unknown {
            let (operation, reason) = (self.held.hold.id, &ended.reason);
            tracing::warn!(%operation, reason = reason.to_string(), "an outcome is unknown");
        }
        match self.held.settle(ended).await {
            Ok(End::Written | End::Lost(None)) => self.give(own),
            // Both are rare, and boxed so that every work need not carry the room for them.
            Ok(End::Lost(Some(row))) => Box::pin(self.overtaken(*row, ended, own)).await,
            Err(_) => {
                self.give(own);
                Box::pin(self.settle_later(ended)).await;
            }
        }
    }

    fn give(&mut self, own: Option<Reply>) {
        match own {
            Some(reply) => self.teller.tell(reply),
            None => self.teller.conclude(),
        }
    }

    /// Another holds a newer fence, or an operator has settled the record.
    pub(super) async fn overtaken(
        &mut self,
        mut stands: Record,
        ended: &Ended,
        own: Option<Reply>,
    ) {
        let id = self.held.hold.id;
        tracing::warn!(operation = %id, "a newer holder or an operator was faster");
        // Whoever had the answer as it came is not kept waiting.
        self.teller.conclude();
        while stands.is_held() && stands.id == id {
            match self.rest().await {
                Rest::Came => {}
                Rest::Gone => return self.give(own),
                Rest::Stopped => {
                    let problem = Reply::problem(&reply::in_progress(id));
                    return self.teller.tell(problem);
                }
                Rest::NoStore => {
                    self.give(own);
                    return self.settle_later(ended).await;
                }
            }
            match self.held.settle(ended).await {
                Ok(End::Written | End::Lost(None)) => return self.give(own),
                Ok(End::Lost(Some(row))) => stands = *row,
                Err(_) => {
                    self.give(own);
                    return self.settle_later(ended).await;
                }
            }
        }
        if stands.id != id {
            // Another operation took the place of this one: its answer is not this caller's.
            return self.give(own);
        }
        let none = stands.standing.state == State::Released;
        if none && ended.verdict.effect != Effect::None {
            // What stands says that nothing was executed, by an operator's word or of a later
            // attempt alone. Whose own attempt knows more must not be told that.
            tracing::error!(
                operation = %id, reason = %ended.reason,
                "an operation that was released has been answered; look at the service itself"
            );
            return self.give(own);
        }
        let repeats = self.asked.may_repeat(&stands.standing);
        let given = Given::settled(id, &stands.standing, repeats, true);
        self.teller.tell(Reply::Answer(Box::new(given)));
    }

    /// Waits until what stands is at work no more. A process that ends waits a moment longer: a
    /// newer holder in it writes its own end down just then, and a success must not come before it.
    async fn rest(&self) -> Rest {
        let mut stop = self.server.inner.stop.subscribe();
        let stopped = async { stop.wait_for(|stop| *stop).await.is_ok() };
        let mut rest = pin!(self.held.wait_for_rest());
        let rest = tokio::select! {
            rest = &mut rest => rest,
            _ = stopped => match clock::within(STOP_REST, rest).await {
                Ok(rest) => rest,
                Err(clock::Elapsed) => return Rest::Stopped,
            },
        };
        match rest {
            Ok(true) => Rest::Came,
            Ok(false) => Rest::Gone,
            Err(_) => Rest::NoStore,
        }
    }

    /// Goes on writing the end until it stands, or something that it may not be written over, or
    /// the process has to end, which tries once more.
    pub(super) async fn settle_later(&mut self, ended: &Ended) {
        let mut stop = self.server.inner.stop.subscribe();
        let mut pause = LATER_FIRST;
        let id = self.held.hold.id;
        let mut is_last = false;
        loop {
            let stopped = clock::within(pause, stop.wait_for(|stop| *stop))
                .await
                .is_ok();
            match self.held.settle(ended).await {
                Ok(End::Written | End::Lost(None)) => return,
                Ok(End::Lost(Some(row))) if row.is_held() && row.id == id && !is_last => {
                    // A newer holder may end unknown; a success then still completes it.
                    self.rest().await;
                    if stopped {
                        is_last = true;
                        continue;
                    }
                }
                Ok(End::Lost(Some(_))) => {
                    tracing::warn!(operation = %id, "an answer came too late to be recorded");
                    return;
                }
                Err(error) => {
                    let error = error.to_string();
                    tracing::warn!(operation = %id, error, "an answer is not recorded yet");
                }
            }
            if stopped {
                return;
            }
            pause = (pause * 2).min(LATER_MAX);
        }
    }
}
