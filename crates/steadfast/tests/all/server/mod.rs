//! The server layer against a scripted effect with a ledger, over a store that fails on demand.
//!
//! Time stands still in these tests: the runtime moves its clock only when every task is at rest,
//! so that leases, limits and deadlines end in their order and nothing waits for real.

mod axum_layer;
mod deadlines;
mod defaults;
mod doubted;
mod duplicates;
mod ends;
pub mod faults;
mod leases;
mod leaving;
mod observed;
mod quota;
mod repeats;
mod same;
pub mod script;
mod secrecy;
pub mod seen;
mod serving;
mod status;
mod streams;
mod sweeping;
mod tower_layer;
mod untaken;
mod waiting;
mod walks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use steadfast::body::Body;
use steadfast::clock;
use steadfast::core::deadline::Deadline;
use steadfast::core::key::{Key, KeyRules};
use steadfast::core::policy::{Idempotency, OnUnknown, RoutePolicy};
use steadfast::core::record::{Record, State};
use steadfast::core::time::WallTime;
use steadfast::event::RouteId;
use steadfast::server::{Call, Limits, Principal, Server};
use steadfast::store::memory::Memory;
use steadfast::store::{Scan, Store};
use tokio::task::JoinHandle;

use faults::Faulty;
use script::Script;
use seen::Seen;

pub const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
pub const OTHER_KEY: &str = "0f5c7c1e-66ac-4b35-9c7d-3f1c5d2b9a01";

/// Beyond everything that a test waits for; never what it asserts.
const LONG: Duration = Duration::from_secs(7 * 24 * 3600);

pub const SECOND: Duration = Duration::from_secs(1);

/// A server over a store in memory, its effect, and its clock.
pub struct World {
    pub server: Server,
    pub store: Arc<Faulty>,
    pub script: Script,
    pub policy: RoutePolicy,
    wall: Wall,
}

/// The store's wall clock: goes with the runtime's, and can be set ahead.
#[derive(Clone, Default)]
struct Wall {
    ahead_ms: Arc<AtomicU64>,
}

impl Wall {
    fn clock(&self) -> steadfast::store::WallClock {
        let (ahead, start) = (Arc::clone(&self.ahead_ms), clock::mono_now());
        Arc::new(move || {
            let begin = WallTime::from_unix_ms(1_800_000_000_000);
            let ahead = Duration::from_millis(ahead.load(Ordering::SeqCst));
            begin.plus(clock::mono_now().since(start) + ahead)
        })
    }
}

impl World {
    pub async fn new() -> World {
        World::with_limits(Limits::default()).await
    }

    pub async fn with_limits(limits: Limits) -> World {
        let wall = Wall::default();
        let store = Arc::new(Faulty::new(Memory::with_clock(wall.clock())));
        let shared: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
        World {
            server: Server::new(shared, limits).await.unwrap(),
            store,
            script: Script::default(),
            policy: RoutePolicy::default(),
            wall,
        }
    }

    /// With other rules for keyed requests.
    pub async fn with(change: impl FnOnce(&mut Idempotency)) -> World {
        let mut world = World::new().await;
        change(&mut world.policy.idempotency);
        world
    }

    /// Under `on_unknown = "repeat"`.
    pub async fn repeating() -> World {
        World::with(|rules| rules.on_unknown = OnUnknown::Repeat).await
    }

    /// Another process over the same store and the same effect.
    pub async fn neighbour(&self) -> World {
        let shared: Arc<dyn Store> = Arc::clone(&self.store) as Arc<dyn Store>;
        World {
            server: Server::new(shared, Limits::default()).await.unwrap(),
            store: Arc::clone(&self.store),
            script: self.script.clone(),
            policy: self.policy.clone(),
            wall: self.wall.clone(),
        }
    }

    /// Moves the store's clock, and not the process's.
    pub fn jump(&self, ahead: Duration) {
        let ms = u64::try_from(ahead.as_millis()).unwrap();
        self.wall.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Puts the store's clock right again.
    pub fn put_right(&self) {
        self.wall.ahead_ms.store(0, Ordering::SeqCst);
    }

    fn call(&self, ask: Ask) -> Call {
        let mut request = Request::new(());
        *request.method_mut() = ask.method;
        *request.uri_mut() = ask.target.parse().unwrap();
        *request.headers_mut() = ask.headers;
        let rules = KeyRules::default();
        let line = ask.key.as_bytes();
        let mut policy = self.policy.clone();
        if let Some(deadline) = ask.deadline {
            policy.deadline = policy.deadline.max(deadline);
        }
        let within = ask.deadline.unwrap_or(policy.deadline);
        Call {
            parts: request.into_parts().0,
            target: ask.target,
            body: ask.body,
            key: Key::parse([line], &rules).unwrap().unwrap(),
            principal: Principal {
                rule: "authorization".to_owned(),
                kind: "authorization".to_owned(),
                value: ask.who.into(),
            },
            policy: Arc::new(policy),
            deadline: Deadline::after(clock::mono_now(), within),
            route: RouteId::default(),
        }
    }

    /// Sends and keeps the response as it is.
    pub async fn respond(&self, ask: Ask) -> Response<Body> {
        self.server.call(self.call(ask), self.script.clone()).await
    }

    /// Sends and reads the whole answer.
    pub async fn send(&self, ask: Ask) -> Seen {
        Seen::of(self.respond(ask).await).await
    }

    /// Sends from a task of its own.
    pub fn spawn(&self, ask: Ask) -> JoinHandle<Seen> {
        let (server, call, script) = (self.server.clone(), self.call(ask), self.script.clone());
        tokio::spawn(async move { Seen::of(server.call(call, script).await).await })
    }

    pub async fn rows(&self) -> Vec<Record> {
        let all = Scan {
            limit: 1000,
            ..Scan::default()
        };
        self.store.memory().scan(all).await.unwrap().rows
    }

    /// The one record there is.
    pub async fn row(&self) -> Record {
        let rows = self.rows().await;
        assert_eq!(rows.len(), 1, "one record");
        rows.into_iter().next().unwrap()
    }

    pub async fn state(&self) -> State {
        self.row().await.standing.state
    }

    /// Waits until the one record is in `state`.
    pub async fn until(&self, state: State) -> Record {
        let mut row = self.row().await;
        while row.standing.state != state {
            let changed = self.store.memory().changed(row.scope, row.guard());
            let changed = clock::within(LONG, changed).await;
            row = changed.expect("the record changes").unwrap().unwrap();
        }
        row
    }
}

/// Waits until every task is at rest: the clock, which stands still, moves only then.
pub async fn idle() {
    clock::sleep(Duration::from_millis(1)).await;
}

/// Lets `length` pass.
pub async fn pass(length: Duration) {
    clock::sleep(length).await;
}

/// What a task came to.
pub async fn end<T>(task: JoinHandle<T>) -> T {
    clock::within(LONG, task).await.expect("it ends").unwrap()
}

/// A request for a charge.
#[derive(Clone)]
pub struct Ask {
    pub method: Method,
    pub target: String,
    pub headers: HeaderMap,
    pub key: &'static str,
    pub who: &'static str,
    pub body: Bytes,
    pub deadline: Option<Duration>,
}

/// `POST /v1/charges` of `amount` under the usual key.
pub fn charge(amount: u32) -> Ask {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    Ask {
        method: Method::POST,
        target: "/v1/charges".to_owned(),
        headers,
        key: KEY,
        who: "Bearer alice",
        body: format!("{{\"amount\":{amount}}}").into(),
        deadline: None,
    }
}

impl Ask {
    pub fn under(self, key: &'static str) -> Ask {
        Ask { key, ..self }
    }

    pub fn of(self, who: &'static str) -> Ask {
        Ask { who, ..self }
    }

    pub fn within(self, deadline: Duration) -> Ask {
        let deadline = Some(deadline);
        Ask { deadline, ..self }
    }

    pub fn with(mut self, name: &'static str, value: &'static str) -> Ask {
        self.headers.append(name, value.parse().unwrap());
        self
    }
}
