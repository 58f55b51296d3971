//! The queue: what was put off is sent when it is due, without its caller (U3).
//!
//! One task looks for what is due and keeps the names of it, by upstream; each run is a task of its
//! own, a hold like any other, and a single attempt. What a run comes to is
//! [`steadfast_core::record::settle`]'s to say, and when the next is due
//! [`steadfast_core::deferral::due`]'s. Any number of processes may run one queue: the store lets
//! one of them take each record.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use steadfast_core::key::ScopeHash;
use steadfast_core::record::{self, OperationId, Record, State, Step, Ways};
use steadfast_core::time::{MonoTime, WallTime};
use tokio::sync::mpsc;

use super::execute::Execute as _;
use super::routes::{Routed, Routes};
use super::{Server, reply};
use crate::attempts::SharedUpstream;
use crate::clock;
use crate::event::RouteId;
use crate::store::StoreError;

mod alarm;
mod shown;
mod taking;

pub(super) use alarm::Alarm;
pub use shown::{list_queued, queued, queued_with_history};
use taking::{Taken, take, timely};

/// Between two looks at the store: what another process put into the queue is seen within it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// After a look that failed: a store that is down is not asked all the time.
const LOOK_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Between two looks, at the least, beside four times what the last one took: what becomes due one
/// by one does not make the queue read for each.
const LOOK_LEAST: Duration = Duration::from_millis(20);

/// Due records read at once.
const PAGE: u32 = 256;

/// Due records looked at, at most: those behind so many that cannot be sent now wait for them.
const PAGE_MAX: u32 = 16_384;

/// States of records that the queue may send.
const STATES: [State; 2] = [State::Deferred, State::Unknown];

/// What the queue did with one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The operation.
    pub id: OperationId,
    /// Where its record stands now.
    pub state: State,
    /// Why it stands so.
    pub reason: String,
    /// The status of the answer that is kept, if one is.
    pub status: Option<u16>,
    /// When it goes again, by the store's clock.
    pub next: Option<WallTime>,
}

impl Ran {
    fn of(row: &Record) -> Ran {
        Ran {
            id: row.id,
            state: row.standing.state,
            reason: row.standing.reason.clone(),
            status: row.standing.answer.status().map(|status| status.as_u16()),
            next: row.due_at(),
        }
    }
}

/// Sends what is due, as it becomes due, until it is dropped or the process has to end. Runs that
/// have begun end by themselves: [`Server::drain`] waits for them.
pub async fn queue_on<R: Routes>(server: Server, routes: R) {
    let (mut queue, mut ended) = Queue::new(server, routes);
    let mut stop = queue.server.inner.stop.subscribe();
    let mut look_at = clock::mono_now();
    let mut least = look_at;
    loop {
        let now = clock::mono_now();
        if queue.is_hungry {
            look_at = least;
        }
        if look_at <= now {
            let pause = match queue.look().await {
                Ok(_) => LOOK_EVERY,
                Err(error) => {
                    let error = error.to_string();
                    tracing::warn!(error, "the queue could not be read; it is tried again");
                    LOOK_AFTER_FAILURE
                }
            };
            let ended = clock::mono_now();
            look_at = ended.plus(pause);
            least = ended.plus(LOOK_LEAST.max(ended.since(now) * 4));
        }
        let wake = queue.start().map_or(look_at, |at| at.min(look_at));
        let wait = wake.since(clock::mono_now());
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            end = ended.recv() => queue.ended(end),
            () = queue.server.inner.alarm.rings() => look_at = least,
            () = clock::sleep(wait) => {}
        }
        while let Ok(end) = ended.try_recv() {
            queue.ended(Some(end));
        }
    }
}

/// Sends what is due now, once, and gives what came of each operation. `told` hears of each as it
/// ends.
///
/// # Errors
/// The store's; what was begun until then is at its end.
pub async fn run_due<R: Routes>(
    server: &Server,
    routes: R,
    mut told: impl FnMut(&Ran),
) -> Result<(), StoreError> {
    let (mut queue, mut ended) = Queue::new(server.clone(), routes);
    let looked = loop {
        match queue.look().await {
            Ok(given_up) => given_up.iter().for_each(&mut told),
            Err(error) => break Err(error),
        }
        if queue.known.is_empty() {
            break Ok(());
        }
        // Each once: what failed and is due again already is for the next call.
        queue.done.extend(queue.known.iter().copied());
        while !queue.known.is_empty() {
            let wake = queue.start();
            if queue.is_idle() {
                break;
            }
            let end = ended.recv();
            let wait = wake.map_or(LOOK_EVERY, |at| at.since(clock::mono_now()));
            if let Ok(Some(end)) = clock::within(wait, end).await {
                if let Some(ran) = &end.ran {
                    told(ran);
                }
                queue.ended(Some(end));
            }
        }
        if queue.is_idle() && !queue.known.is_empty() {
            // What is left waits for a breaker or for a place in this process.
            break Ok(());
        }
    };
    while queue.running() > 0 {
        let end = ended.recv().await;
        if let Some(ran) = end.as_ref().and_then(|end| end.ran.as_ref()) {
            told(ran);
        }
        queue.ended(end);
    }
    looked
}

/// Sends the one operation `id` now, whenever it is due; `None` where it is not in the queue, or
/// not this one's to send.
///
/// # Errors
/// The store's.
pub async fn run_one<R: Routes>(
    server: &Server,
    routes: R,
    id: OperationId,
) -> Result<Option<Ran>, StoreError> {
    let Some(row) = server.store().by_id(id).await? else {
        return Ok(None);
    };
    let Some(routed) = routes.of_kept(&row) else {
        return Ok(None);
    };
    let now = server.store().now().await?;
    if step(&row, &routed, now) == Step::GiveUp {
        return taking::give_up(server, &row, now).await;
    }
    let ran = match take(server, &row, &routed).await {
        Taken::Held(row, since) => taking::run(server.clone(), routed, *row, since).await,
        Taken::Not => None,
    };
    Ok(ran)
}

/// What is to be done about `row` now, as far as the queue does it.
fn step<E>(row: &Record, routed: &Routed<E>, now: WallTime) -> Step {
    let ways = Ways {
        on_unknown: routed.policy.idempotency.on_unknown,
        can_look: false,
        compensates_after: None,
        can_run: true,
    };
    record::step(row, ways, now)
}

/// What runs side by side: everything to one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LaneId {
    Upstream(usize),
    Route(RouteId),
}

/// What is due at one upstream.
struct Lane {
    upstream: Option<SharedUpstream>,
    /// Names only: a record is read again when its turn comes.
    waiting: VecDeque<ScopeHash>,
    running: usize,
    /// The strictest of its routes' bounds that were met.
    most: usize,
}

/// A run at its end.
struct End {
    lane: LaneId,
    scope: ScopeHash,
    ran: Option<Ran>,
}

struct Queue<R> {
    server: Server,
    routes: R,
    lanes: HashMap<LaneId, Lane>,
    /// What waits or runs here.
    known: HashSet<ScopeHash>,
    /// What is not looked at any more.
    done: HashSet<ScopeHash>,
    /// There was more than was read, and an upstream has nothing left to do.
    is_hungry: bool,
    more: bool,
    tell: mpsc::UnboundedSender<End>,
}

impl<R: Routes> Queue<R> {
    fn new(server: Server, routes: R) -> (Queue<R>, mpsc::UnboundedReceiver<End>) {
        let (tell, ended) = mpsc::unbounded_channel();
        let queue = Queue {
            server,
            routes,
            lanes: HashMap::new(),
            known: HashSet::new(),
            done: HashSet::new(),
            is_hungry: false,
            more: false,
            tell,
        };
        (queue, ended)
    }

    /// Reads what is due, and notes the names of what can be sent. What is too old is given up at
    /// once.
    async fn look(&mut self) -> Result<Vec<Ran>, StoreError> {
        (self.is_hungry, self.more) = (false, false);
        let now = timely(self.server.store().now()).await?;
        let mut given_up = Vec::new();
        for state in STATES {
            let mut limit = PAGE;
            loop {
                let page = timely(self.server.store().due(state, now, limit)).await?;
                let is_full = page.rows.len() + page.unreadable.len() >= limit as usize;
                let mut found = false;
                for row in page.rows {
                    found |= self.note(&row, now, &mut given_up).await?;
                }
                self.more |= is_full && found;
                // Those that cannot be sent here must not keep others from being seen.
                if found || !is_full || limit >= PAGE_MAX {
                    break;
                }
                limit = limit.saturating_mul(4).min(PAGE_MAX);
            }
        }
        Ok(given_up)
    }

    /// True where there was something to do about `row` that was not known.
    async fn note(
        &mut self,
        row: &Record,
        now: WallTime,
        given_up: &mut Vec<Ran>,
    ) -> Result<bool, StoreError> {
        if self.known.contains(&row.scope) || self.done.contains(&row.scope) {
            return Ok(false);
        }
        let Some(routed) = self.routes.of_kept(row) else {
            return Ok(false);
        };
        match step(row, &routed, now) {
            Step::Run => {}
            Step::GiveUp => {
                let ran = taking::give_up(&self.server, row, now).await?;
                let is_done = ran.is_some();
                given_up.extend(ran);
                return Ok(is_done);
            }
            Step::Compensate | Step::Look | Step::Nothing | Step::Wait(_) => return Ok(false),
        }
        let upstream = routed.execute.upstream().cloned();
        let id = match &upstream {
            Some(upstream) => LaneId::Upstream(upstream.address()),
            None => LaneId::Route(routed.route),
        };
        let most = routed.policy.deferral.concurrency.max(1);
        let lane = self.lanes.entry(id).or_insert_with(|| Lane {
            upstream,
            waiting: VecDeque::new(),
            running: 0,
            most,
        });
        lane.most = lane.most.min(most);
        lane.waiting.push_back(row.scope);
        self.known.insert(row.scope);
        Ok(true)
    }

    /// Begins as many runs as there are places for. Gives when an upstream that is not asked now
    /// may be asked again.
    fn start(&mut self) -> Option<MonoTime> {
        let now = clock::mono_now();
        let mut wake: Option<MonoTime> = None;
        for (id, lane) in &mut self.lanes {
            while lane.running < lane.most && !lane.waiting.is_empty() {
                // An open breaker puts off what waits, and that is no run.
                if let Some(Err(shut)) = lane.upstream.as_ref().map(SharedUpstream::may_begin) {
                    let at = now.plus(shut.retry_after.max(Duration::from_millis(10)));
                    wake = Some(wake.map_or(at, |earlier| earlier.min(at)));
                    break;
                }
                let tasks = std::sync::Arc::clone(&self.server.inner.tasks);
                let Ok(permit) = tasks.try_acquire_owned() else {
                    return wake;
                };
                let Some(scope) = lane.waiting.pop_front() else {
                    break;
                };
                lane.running += 1;
                let (server, routes) = (self.server.clone(), self.routes.clone());
                let (lane, tell) = (*id, self.tell.clone());
                let ran = None;
                let told = Told {
                    lane,
                    scope,
                    tell,
                    ran,
                };
                tokio::spawn(Box::pin(async move {
                    let _permit = permit;
                    told.end(taking::turn(server, routes, scope).await);
                }));
            }
            self.is_hungry |= self.more && lane.waiting.is_empty();
        }
        wake
    }

    fn ended(&mut self, end: Option<End>) {
        let Some(End { lane, scope, .. }) = end else {
            return;
        };
        self.known.remove(&scope);
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.running = lane.running.saturating_sub(1);
        }
    }

    fn running(&self) -> usize {
        self.lanes.values().map(|lane| lane.running).sum()
    }

    /// Nothing runs.
    fn is_idle(&self) -> bool {
        self.running() == 0
    }
}

/// Says once that a run has ended, also where it panicked.
struct Told {
    lane: LaneId,
    scope: ScopeHash,
    tell: mpsc::UnboundedSender<End>,
    ran: Option<Ran>,
}

impl Told {
    fn end(mut self, ran: Option<Ran>) {
        self.ran = ran;
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let (lane, scope, ran) = (self.lane, self.scope, self.ran.take());
        let _ = self.tell.send(End { lane, scope, ran });
    }
}
