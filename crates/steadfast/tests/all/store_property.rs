//! Every store against a map: random interleavings of several holders' writes, lost replies,
//! crashes and clocks that jump.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestCaseResult};
use steadfast::core::record::{Guard, Record, Start, State};
use steadfast::core::time::WallTime;
use steadfast::store::conformance::rows;
use steadfast::store::faulty::{Faulty, Plan};
use steadfast::store::memory::Memory;
use steadfast::store::postgres::{Address, Postgres};
use steadfast::store::sqlite::Sqlite;
use steadfast::store::{Op, OpEnd, Store, WallClock, Written};

use crate::database::shared;

const HOLDERS: usize = 3;
const KEYS: u64 = 4;

/// What a holder asks of a store.
#[derive(Clone, Debug)]
enum Ask {
    Insert {
        key: u64,
    },
    /// By what the holder saw last, which may be stale.
    Replace {
        key: u64,
        draw: bool,
        /// The holder goes on under its owner, as a renewal does.
        same_owner: bool,
        state: usize,
        body: Option<u16>,
        ends: Option<i32>,
    },
    Remove {
        key: u64,
    },
    Expire {
        after: i32,
        limit: u32,
    },
}

#[derive(Clone, Debug)]
enum Step {
    /// One write, by one holder, with what happens to it.
    Write { by: usize, ask: Ask, loss: Loss },
    /// Writes sent together.
    Burst(Vec<(usize, Ask)>),
    /// A holder looks.
    Look { by: usize, key: u64 },
    /// The machine's clock jumps.
    Jump(i32),
    /// The process ends, with this write on its way, and another takes over.
    Crash { by: usize, ask: Ask },
}

#[derive(Clone, Copy, Debug)]
enum Loss {
    None,
    Request,
    Reply,
}

fn ask() -> impl Strategy<Value = Ask> {
    let key = 0..KEYS;
    let body = proptest::option::of(prop_oneof![Just(0), 1..2000u16]);
    let ends = proptest::option::of(-2000..2000i32);
    prop_oneof![
        4 => key.clone().prop_map(|key| Ask::Insert { key }),
        6 => (key.clone(), any::<bool>(), any::<bool>(), 0..State::ALL.len(), body, ends)
            .prop_map(|(key, draw, same_owner, state, body, ends)| {
                Ask::Replace { key, draw, same_owner, state, body, ends }
            }),
        2 => key.prop_map(|key| Ask::Remove { key }),
        1 => (-2000..2000i32, 0..4u32).prop_map(|(after, limit)| Ask::Expire { after, limit }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let by = 0..HOLDERS;
    let loss = prop_oneof![4 => Just(Loss::None), 1 => Just(Loss::Request), 1 => Just(Loss::Reply)];
    prop_oneof![
        8 => (by.clone(), ask(), loss).prop_map(|(by, ask, loss)| Step::Write { by, ask, loss }),
        3 => proptest::collection::vec((by.clone(), ask()), 2..6).prop_map(Step::Burst),
        4 => (by.clone(), 0..KEYS).prop_map(|(by, key)| Step::Look { by, key }),
        2 => (-5000..5000i32).prop_map(Step::Jump),
        1 => (by, ask()).prop_map(|(by, ask)| Step::Crash { by, ask }),
    ]
}

/// The rules, over a map.
#[derive(Clone, Default)]
struct Model {
    rows: BTreeMap<u64, Record>,
    fence: u64,
    date: u64,
}

/// What the model says of a write; a drawn fence is the store's to choose.
enum Expected {
    Put {
        row: Box<Record>,
        drawn: bool,
    },
    Removed,
    Stands(Option<Box<Record>>),
    /// Any so many of the expired rows.
    Expired(u32),
}

impl Model {
    fn expect(&self, key: u64, op: &Op) -> Expected {
        let stands = self.rows.get(&key);
        let holds = |guard: &Guard| stands.is_some_and(|row| row.guard() == *guard);
        match op {
            Op::Insert(row) if stands.is_none() => Expected::Put {
                row: row.clone(),
                drawn: true,
            },
            Op::Replace { next, guard, draw } if holds(guard) => Expected::Put {
                row: next.clone(),
                drawn: *draw,
            },
            Op::Remove { guard, .. } if holds(guard) => Expected::Removed,
            Op::Expire { now, limit } => {
                let expired = self
                    .rows
                    .values()
                    .filter(|row| row.is_expired(*now))
                    .count();
                let count = u32::try_from(expired).unwrap_or(u32::MAX).min(*limit);
                Expected::Expired(count)
            }
            Op::Insert(_) | Op::Replace { .. } | Op::Remove { .. } => {
                Expected::Stands(stands.cloned().map(Box::new))
            }
        }
    }

    fn put(&mut self, key: u64, mut row: Record, drawn: bool, fence: u64) -> TestCaseResult {
        if drawn {
            prop_assert!(fence > self.fence, "fence {fence} after {}", self.fence);
            prop_assert!(fence < 1 << 53);
            self.fence = fence;
            row.standing.fence = fence;
        }
        self.date = self.date.max(row.updated_at.unix_ms());
        self.rows.insert(key, row);
        Ok(())
    }

    /// The end that the store gave is the one that the rules give.
    fn check(&mut self, key: u64, op: &Op, end: OpEnd) -> TestCaseResult {
        match (self.expect(key, op), end) {
            (Expected::Put { row, drawn }, OpEnd::Done(Some(got))) => {
                self.put(key, *row, drawn, got.standing.fence)?;
                prop_assert_eq!(self.rows.get(&key), Some(&*got));
            }
            (Expected::Removed, OpEnd::Done(None)) => {
                self.rows.remove(&key);
            }
            (Expected::Stands(stands), OpEnd::Stands(got)) => {
                prop_assert_eq!(stands, got);
            }
            (Expected::Expired(count), OpEnd::Expired(got)) => prop_assert_eq!(count, got),
            (_, end) => prop_assert!(false, "{op:?} ended {end:?}"),
        }
        Ok(())
    }
}

/// One store, its clock, and what holders believe.
struct World<S> {
    store: Faulty<S>,
    wall: Arc<AtomicU64>,
    model: Model,
    seen: Vec<BTreeMap<u64, Record>>,
    /// The highest date given out by this process.
    now: u64,
    owners: u64,
}

impl<S: Store> World<S> {
    async fn date(&mut self) -> Result<WallTime, TestCaseError> {
        let now = self
            .store
            .now()
            .await
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert!(now.unix_ms() >= self.now, "the date went back");
        prop_assert!(
            now.unix_ms() >= self.model.date,
            "the date is before one that was written"
        );
        self.now = now.unix_ms();
        Ok(now)
    }

    async fn op(&mut self, by: usize, ask: &Ask) -> Result<(u64, Op), TestCaseError> {
        let now = self.date().await?;
        self.owners += 1;
        let shift =
            |by: i32| WallTime::from_unix_ms(now.unix_ms().saturating_add_signed(i64::from(by)));
        let unseen = |key| rows::started(key, 999_999, Start::Reserved, now);
        let last = |key: &u64| {
            self.seen[by]
                .get(key)
                .cloned()
                .unwrap_or_else(|| unseen(*key))
        };
        Ok(match ask {
            Ask::Insert { key } => {
                let row = rows::started(*key, self.owners, Start::Reserved, now);
                (*key, Op::Insert(Box::new(row)))
            }
            Ask::Replace {
                key,
                draw,
                same_owner,
                state,
                body,
                ends,
            } => {
                let seen = last(key);
                let mut next = seen.clone();
                next.version += 1;
                next.updated_at = now;
                if !same_owner {
                    next.standing.owner = rows::owner(self.owners);
                }
                next.standing.state = State::ALL[*state];
                next.standing.answer = body.map_or_else(Default::default, |length| {
                    steadfast::core::record::Answer::Stored(rows::answer(usize::from(length)))
                });
                next.standing.expires_at = ends.map(shift);
                next.before = draw.then(|| Box::new(seen.standing.clone()));
                let (next, guard) = (Box::new(next), seen.guard());
                (
                    *key,
                    Op::Replace {
                        next,
                        guard,
                        draw: *draw,
                    },
                )
            }
            Ask::Remove { key } => {
                let guard = last(key).guard();
                (
                    *key,
                    Op::Remove {
                        scope: rows::scope(*key),
                        guard,
                    },
                )
            }
            Ask::Expire { after, limit } => (
                0,
                Op::Expire {
                    now: shift(*after),
                    limit: *limit,
                },
            ),
        })
    }

    fn learn(&mut self, by: usize, key: u64) {
        match self.model.rows.get(&key) {
            Some(row) => self.seen[by].insert(key, row.clone()),
            None => self.seen[by].remove(&key),
        };
    }

    async fn stands(&self, key: u64) -> Result<Option<Record>, TestCaseError> {
        let row = self.store.inner().get(rows::scope(key)).await;
        row.map_err(|e| TestCaseError::fail(e.to_string()))
    }

    /// Which rows went is the store's choice among the expired; the model takes it over.
    async fn after_expiry(&mut self, op: &Op) -> TestCaseResult {
        let Op::Expire { now, .. } = op else {
            return Ok(());
        };
        for key in 0..KEYS {
            let row = self.stands(key).await?;
            if row.is_none()
                && self
                    .model
                    .rows
                    .get(&key)
                    .is_some_and(|row| row.is_expired(*now))
            {
                self.model.rows.remove(&key);
            }
        }
        Ok(())
    }

    async fn write(&mut self, by: usize, ask: &Ask, loss: Loss) -> TestCaseResult {
        let (key, op) = self.op(by, ask).await?;
        let plan = match loss {
            Loss::None => "",
            Loss::Request => "fail:before:1",
            Loss::Reply => "fail:after:1",
        };
        self.store.arm(
            plan.parse::<Plan>()
                .map_err(|e| TestCaseError::fail(e.to_string()))?,
        );
        let end = self.store.apply(op.clone()).await;
        match (loss, end) {
            (Loss::None, Ok(end)) => self.model.check(key, &op, end)?,
            (Loss::Request, Err(_)) => {}
            (Loss::Reply, Err(_)) => self.send_again(key, &op).await?,
            (_, end) => prop_assert!(false, "{loss:?}, but it ended {end:?}"),
        }
        self.after_expiry(&op).await?;
        self.learn(by, key);
        self.agree().await
    }

    /// The write was done and its reply lost: the same call again is recognised as one's own, and
    /// changes nothing.
    async fn send_again(&mut self, key: u64, op: &Op) -> TestCaseResult {
        let expected = self.model.expect(key, op);
        let stands = self.stands(key).await?;
        if let Expected::Put { row, drawn } = expected {
            let again = self.store.apply(op.clone()).await;
            let again = again.map_err(|e| TestCaseError::fail(e.to_string()))?;
            let Written::Done(got) = Written::of(&row, again) else {
                return Err(TestCaseError::fail("one's own write was not recognised"));
            };
            prop_assert_eq!(stands.as_ref(), Some(&*got));
            self.model.put(key, *row, drawn, got.standing.fence)?;
        } else if let Expected::Removed = expected {
            prop_assert_eq!(stands, None);
            self.model.rows.remove(&key);
        }
        Ok(())
    }

    async fn burst(&mut self, asks: &[(usize, Ask)]) -> TestCaseResult {
        let mut ops = Vec::new();
        // An expiry among others is checked alone: which rows it takes is the store's choice.
        for (by, ask) in asks
            .iter()
            .filter(|(_, ask)| !matches!(ask, Ask::Expire { .. }))
        {
            ops.push(self.op(*by, ask).await?);
        }
        self.store.arm(Plan::default());
        let ends = join_all(ops.iter().map(|(_, op)| self.store.apply(op.clone()))).await;
        for ((key, op), end) in ops.iter().zip(ends) {
            let end = end.map_err(|e| TestCaseError::fail(e.to_string()))?;
            self.model.check(*key, op, end)?;
        }
        self.agree().await
    }

    /// What stands is what the model says.
    async fn agree(&self) -> TestCaseResult {
        for key in 0..KEYS {
            let stands = self.stands(key).await?;
            prop_assert_eq!(stands.as_ref(), self.model.rows.get(&key));
        }
        Ok(())
    }

    /// A write was on its way when the process ended: it is done in whole or not at all.
    async fn in_doubt(&mut self, key: u64, op: &Op) -> TestCaseResult {
        if let Op::Expire { .. } = op {
            return self.after_expiry(op).await;
        }
        let stands = self.stands(key).await?;
        if stands.as_ref() == self.model.rows.get(&key) {
            return Ok(());
        }
        match (self.model.expect(key, op), stands) {
            (Expected::Put { row, drawn }, Some(stands)) => {
                self.model.put(key, *row, drawn, stands.standing.fence)
            }
            (Expected::Removed, None) => {
                self.model.rows.remove(&key);
                Ok(())
            }
            (_, stands) => Err(TestCaseError::fail(format!("{op:?} left {stands:?}"))),
        }
    }
}

/// Runs `steps`. `crash` gives the store that another process finds after this one ended.
fn drive<S: Store>(
    steps: &[Step],
    open: impl FnOnce(WallClock) -> S,
    mut crash: impl FnMut(S, WallClock) -> S,
) -> TestCaseResult {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|e| TestCaseError::fail(e.to_string()))?;
    let wall = Arc::new(AtomicU64::new(rows::DATE.unix_ms()));
    let clock = |wall: &Arc<AtomicU64>| -> WallClock {
        let wall = Arc::clone(wall);
        Arc::new(move || WallTime::from_unix_ms(wall.load(Ordering::Acquire)))
    };
    runtime.block_on(async {
        let mut world = World {
            store: Faulty::new(open(clock(&wall)), Plan::default()),
            wall: Arc::clone(&wall),
            model: Model::default(),
            seen: vec![BTreeMap::new(); HOLDERS],
            now: 0,
            owners: 0,
        };
        for step in steps {
            match step {
                Step::Write { by, ask, loss } => world.write(*by, ask, *loss).await?,
                Step::Burst(asks) => world.burst(asks).await?,
                Step::Look { by, key } => world.learn(*by, *key),
                Step::Jump(by) => {
                    let now = world.wall.load(Ordering::Acquire);
                    let jumped = now.saturating_add_signed(i64::from(*by));
                    world.wall.store(jumped, Ordering::Release);
                    world.date().await?;
                }
                Step::Crash { by, ask } => {
                    let (key, op) = world.op(*by, ask).await?;
                    world.store.arm(Plan::default());
                    // Sent, perhaps begun, and nobody waits for it any more.
                    let _ = world.store.apply(op.clone()).now_or_never();
                    let store = crash(world.store.into_inner(), clock(&wall));
                    world.store = Faulty::new(store, Plan::default());
                    world.now = 0;
                    // Before any read: a row that is read tells its date.
                    world.date().await?;
                    world.in_doubt(key, &op).await?;
                    world.agree().await?;
                    world.date().await?;
                }
            }
        }
        Ok(())
    })
}

fn config(cases: u32) -> Config {
    Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..Config::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn memory_agrees_with_a_map(steps in proptest::collection::vec(step(), 1..60)) {
        // What is in memory ends with its process, so here the process only pauses.
        drive(&steps, Memory::with_clock, |store, _| store)?;
    }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn sqlite_agrees_with_a_map(steps in proptest::collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |life: u32| dir.path().join(format!("{life}.db"));
        let mut life = 0;
        let open = |wall| Sqlite::with_clock(path(0), wall).expect("a new store");
        drive(&steps, open, |store, wall| {
            // What a killed process leaves behind: its files as they are at this moment.
            for end in ["db", "db-wal"] {
                let file = |life| path(life).with_extension(end);
                if file(life).exists() {
                    std::fs::copy(file(life), file(life + 1)).expect("a copy");
                }
            }
            life += 1;
            drop(store);
            Sqlite::with_clock(path(life), wall).expect("the store after a crash")
        })?;
    }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn postgres_agrees_with_a_map(steps in proptest::collection::vec(step(), 1..60)) {
        static DATABASE: OnceLock<String> = OnceLock::new();
        let url = DATABASE.get_or_init(|| shared().database());
        shared().sql(url, "TRUNCATE steadfast.records; UPDATE steadfast.meta SET date_mark = 0");
        let address = Address::parse(url).expect("an address");
        let open = |wall| Postgres::with_clock(&address, wall).expect("the store");
        drive(&steps, open, |store, wall| {
            drop(store);
            open(wall)
        })?;
    }
}
