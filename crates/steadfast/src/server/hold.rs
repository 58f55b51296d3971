//! One hold of a record: its renewal, its dispatch mark, and its end.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use steadfast_core::effect::Earlier;
use steadfast_core::record::{self, Ended, Hold, Record, Settle};
use steadfast_core::time::MonoTime;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::{Asked, Server, withdraw};
use crate::clock;
use crate::event::{Attempt, Event};
use crate::store::{Op, StoreError, Written};

/// Rounds of writing an end before it counts as failed: each means that the row changed meanwhile.
const ROUNDS_MAX: u32 = 16;

/// A hold that this process won.
pub(super) struct Held {
    pub(super) server: Server,
    pub(super) asked: Arc<Asked>,
    pub(super) hold: Hold,
    lease: Duration,
    earlier: Earlier,
    repeats: bool,
    row: Mutex<Record>,
    renewed: StdMutex<MonoTime>,
}

/// What writing the dispatch mark came to.
pub(super) enum Mark {
    /// It stands; the request may be sent.
    Done,
    /// Another row stands.
    Lost,
    /// The store gave no answer.
    NoStore,
}

/// What writing the mark of another attempt came to.
pub(super) enum Again {
    /// It stands, with a fence of its own; the request may be sent under it.
    Held(Arc<Held>),
    /// Another row stands, or the store gave no answer: nothing may be sent.
    Refused,
}

/// What writing an end came to.
pub(super) enum End {
    /// It stands, or what stands says the same or more.
    Written,
    /// Another holder or an operator was faster; this row stands, or none.
    Lost(Option<Box<Record>>),
}

/// Renews until dropped.
pub(super) struct Renewing(JoinHandle<()>);

impl Drop for Renewing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Held {
    pub(super) fn new(server: Server, asked: Arc<Asked>, row: Record, since: MonoTime) -> Held {
        let (hold, lease, earlier) = (row.hold(), row.standing.lease, row.earlier());
        let repeats = asked.may_repeat(&row.standing);
        Held {
            server,
            asked,
            hold,
            lease,
            earlier,
            repeats,
            row: Mutex::new(row),
            renewed: StdMutex::new(since),
        }
    }

    /// An attempt under this hold begins.
    pub(super) fn attempt(&self, number: u32) -> Attempt {
        let (asked, hold) = (&self.asked, self.hold);
        let (method, headers) = (&asked.parts.method, &asked.parts.headers);
        let attempt = Attempt::begin(&self.server.inner.observer, asked.route, method, headers);
        let attempt = attempt.numbered(number);
        attempt.of_operation(hold.id, hold.fence)
    }

    /// Tells that the hold, which began at `since`, has ended.
    pub(super) fn tell_end(&self, since: MonoTime) {
        let held = clock::mono_now().since(since);
        self.server.inner.observer.on(Event::HoldEnded(held));
    }

    /// The row as it is known here.
    pub(super) async fn row(&self) -> Record {
        self.row.lock().await.clone()
    }

    /// What earlier attempts of this operation had left behind when this hold began.
    pub(super) fn earlier(&self) -> Earlier {
        self.earlier
    }

    /// Whether sending the same again may bring an unknown outcome of this hold to an end.
    pub(super) fn repeats(&self) -> bool {
        self.repeats
    }

    /// The holder is still certain of its hold, so that it may start something (I8).
    pub(super) fn may_start(&self) -> bool {
        let renewed = *self
            .renewed
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        record::may_start(clock::mono_now().since(renewed), self.lease)
    }

    /// Renews the lease at every third of it.
    pub(super) fn renewing(self: &Arc<Self>) -> Renewing {
        let held = Arc::clone(self);
        Renewing(tokio::spawn(async move {
            let mut pause = held.lease / 3;
            loop {
                clock::sleep(pause).await;
                // Bounded: whoever writes the mark or the end waits for the row meanwhile.
                pause = match held.timely(held.renew()).await {
                    Ok(true) => held.lease / 3,
                    // Not this process's any more: its end is settled by what stands then.
                    Ok(false) => return,
                    Err(_) => (held.lease / 10).min(Duration::from_secs(1)),
                };
            }
        }))
    }

    /// One renewal; false when the row is not held under this hold any more.
    async fn renew(&self) -> Result<bool, StoreError> {
        let mut row = self.row.lock().await;
        if !row.is_held_by(self.hold) {
            return Ok(false);
        }
        let asked_at = clock::mono_now();
        let now = self.server.store().now().await?;
        let next = record::renew(&row, now);
        match self.replace(&row, next, false).await? {
            Written::Done(stands) => {
                *row = *stands;
                *self
                    .renewed
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner()) = asked_at;
                Ok(true)
            }
            // An earlier write of ours whose reply was lost may stand; the next round starts from
            // it.
            Written::Stands(stands) => {
                *row = *stands;
                Ok(row.is_held_by(self.hold))
            }
            Written::Gone => Ok(false),
        }
    }

    /// Writes the dispatch mark, with a connection in hand.
    pub(super) async fn mark(&self) -> Mark {
        let mut row = self.row.lock().await;
        let asked_at = clock::mono_now();
        let limit = self.asked.policy.idempotency.store_timeout;
        match clock::within(limit, self.marked(&mut row)).await {
            Ok(Ok(true)) => {
                *self
                    .renewed
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner()) = asked_at;
                Mark::Done
            }
            Ok(Ok(false)) => Mark::Lost,
            Ok(Err(_)) | Err(clock::Elapsed) => Mark::NoStore,
        }
    }

    /// Whether the mark came to stand. A renewal of ours whose reply was lost may stand instead of
    /// the row that was known: the mark then goes on from it.
    async fn marked(&self, row: &mut Record) -> Result<bool, StoreError> {
        for _ in 0..ROUNDS_MAX {
            let now = self.server.store().now().await?;
            let Some(next) = record::dispatch(row, self.hold, now) else {
                return Ok(false);
            };
            match self.replace(row, next, false).await? {
                Written::Done(stands) => {
                    *row = *stands;
                    return Ok(true);
                }
                Written::Stands(stands) => *row = *stands,
                Written::Gone => return Ok(false),
            }
        }
        Err(keeps_changing())
    }

    /// Writes the mark of another attempt, after one that came to `end`.
    pub(super) async fn again(&self, end: &Ended) -> Again {
        let asked_at = clock::mono_now();
        match self.timely(self.marked_again(end)).await {
            Ok(Some(row)) => {
                let (server, asked) = (self.server.clone(), Arc::clone(&self.asked));
                Again::Held(Arc::new(Held::new(server, asked, row, asked_at)))
            }
            Ok(None) | Err(_) => Again::Refused,
        }
    }

    async fn marked_again(&self, end: &Ended) -> Result<Option<Record>, StoreError> {
        let mut row = self.row.lock().await;
        for _ in 0..ROUNDS_MAX {
            let now = self.server.store().now().await?;
            let Some(next) = record::again(&row, self.hold, end, now) else {
                return Ok(None);
            };
            match self.replace(&row, next, true).await? {
                Written::Done(stands) => {
                    *row = *stands;
                    return Ok(Some(row.clone()));
                }
                Written::Stands(stands) => *row = *stands,
                Written::Gone => return Ok(None),
            }
        }
        Err(keeps_changing())
    }

    /// Under what this hold writes over `row`. The mark of another attempt whose reply was lost may
    /// stand, with a fence that is not known yet; nothing was sent under it.
    fn own(&self, row: &Record) -> Hold {
        match row.id == self.hold.id && row.standing.owner == self.hold.owner {
            true => row.hold(),
            false => self.hold,
        }
    }

    /// Writes an end, over whatever stands, as far as it may be written over it.
    pub(super) async fn settle(&self, end: &Ended) -> Result<End, StoreError> {
        self.timely(self.settled(end)).await
    }

    async fn settled(&self, end: &Ended) -> Result<End, StoreError> {
        let mut row = self.row.lock().await;
        for _ in 0..ROUNDS_MAX {
            let now = self.server.store().now().await?;
            let next = match record::settle(&row, self.own(&row), end, now) {
                Settle::Already => return Ok(End::Written),
                Settle::Lost => return Ok(End::Lost(Some(Box::new(row.clone())))),
                Settle::Put(next, _) => *next,
            };
            match self.replace(&row, next, false).await? {
                Written::Done(stands) => {
                    *row = *stands;
                    return Ok(End::Written);
                }
                Written::Stands(stands) => *row = *stands,
                Written::Gone => return Ok(End::Lost(None)),
            }
        }
        Err(keeps_changing())
    }

    /// Nothing was sent under this hold: what stood before stands again. Whatever else is found
    /// there is not this hold's to put back.
    pub(super) async fn give_back(&self) -> Result<(), StoreError> {
        self.timely(self.given_back()).await
    }

    async fn given_back(&self) -> Result<(), StoreError> {
        let mut row = self.row.lock().await;
        for _ in 0..ROUNDS_MAX {
            let now = self.server.store().now().await?;
            let Some(change) = record::withdraw(&row, self.hold.owner, now) else {
                return Ok(());
            };
            if withdraw::apply(&self.server, row.scope, change).await? {
                return Ok(());
            }
            match self.server.store().get(row.scope).await? {
                Some(stands) => *row = stands,
                None => return Ok(()),
            }
        }
        Err(keeps_changing())
    }

    /// Waits until the row that stands is not at work any more, and takes it as the one to settle
    /// over; false where none stands any more.
    pub(super) async fn wait_for_rest(&self) -> Result<bool, StoreError> {
        let mut row = self.row.lock().await;
        let scope = row.scope;
        while row.is_held() && row.hold() != self.hold {
            let now = self.timely(self.server.store().now()).await?;
            let unrenewed = self.server.inner.leases.unrenewed_for(&row);
            if let Some(change) = record::recover(&row, now, unrenewed) {
                self.timely(withdraw::recover(&self.server, &row, change))
                    .await?;
            }
            let look = self.lease.min(row.standing.lease);
            let changed = self.server.store().changed(scope, row.guard());
            let stands = match clock::within(look, changed).await {
                Ok(stands) => stands?,
                Err(clock::Elapsed) => self.timely(self.server.store().get(scope)).await?,
            };
            match stands {
                Some(stands) => *row = stands,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The store's answer within the route's `store_timeout`. Later it is as good as lost: whether
    /// a write was done is found by reading back.
    async fn timely<T>(
        &self,
        ask: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.asked.policy.idempotency.store_timeout;
        clock::within(limit, ask).await.unwrap_or_else(|_| {
            let why = "it gave no answer within store_timeout; see whether it is overloaded";
            Err(StoreError::Unavailable(why.to_owned()))
        })
    }

    async fn replace(&self, row: &Record, next: Record, draw: bool) -> Result<Written, StoreError> {
        let op = Op::Replace {
            next: Box::new(next.clone()),
            guard: row.guard(),
            draw,
        };
        Ok(Written::of(&next, self.server.store().apply(op).await?))
    }
}

fn keeps_changing() -> StoreError {
    StoreError::Unavailable("the record keeps changing; try again".to_owned())
}
