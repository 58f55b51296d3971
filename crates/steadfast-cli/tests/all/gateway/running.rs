//! A gateway in this process, started as the command starts it, on ports of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use steadfast::store::Store;
use steadfast::store::memory::Memory;
use steadfast::store::postgres::{Address, Postgres};
use steadfast_cli::gateway::run::{Ended, Sockets, run};
use steadfast_cli::settings::environment::Environment;
use steadfast_cli::settings::top::Flags;
use steadfast_cli::settings::{Settings, parse};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::caller::{Answer, Call, Caller, get};
use crate::database::Server;
use crate::listen::raw::soon;

/// A gateway that runs until it is stopped or dropped.
pub struct Gateway {
    pub data: SocketAddr,
    pub admin: SocketAddr,
    pub store: Arc<dyn Store>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Ended>,
}

/// A configuration with one route to `to`, which takes everything; `route` is what else it says.
pub fn config(to: SocketAddr, route: &str) -> String {
    format!("{TOP}[[route]]\npath = \"/{{*rest}}\"\nto = \"http://{to}\"\n{route}\n")
}

/// The beginning of every configuration.
pub const TOP: &str = "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nstore = \"memory:\"\n";

/// Set where the tests run once more over databases, to the server's port.
pub const DATABASES: &str = "STEADFAST_TEST_DATABASES";

/// A store of its own: in memory, or a database where the tests run over these.
pub fn fresh() -> Arc<dyn Store> {
    let environment = Environment::of_process();
    match environment.get(DATABASES).flatten() {
        None => Arc::new(Memory::new()),
        Some(port) => {
            let url = Server::at(port.parse().expect("a port")).database();
            let address = Address::parse(&url).expect("an address");
            Arc::new(Postgres::open(&address).expect("the store"))
        }
    }
}

/// Reads a configuration that is right.
pub fn settings(text: &str) -> Settings {
    let environment = Environment::from_iter([]);
    match parse(text, "test.toml", &Flags::default(), &environment) {
        Ok(settings) => settings,
        Err(faults) => panic!("{faults}\n{text}"),
    }
}

impl Gateway {
    /// One route to `to` over a store in memory.
    pub async fn to(to: SocketAddr) -> Gateway {
        Gateway::start(&config(to, "")).await
    }

    /// The same, with settings of the route.
    pub async fn with(to: SocketAddr, route: &str) -> Gateway {
        Gateway::start(&config(to, route)).await
    }

    pub async fn start(text: &str) -> Gateway {
        Gateway::over(text, fresh()).await
    }

    pub async fn over(text: &str, store: Arc<dyn Store>) -> Gateway {
        let settings = settings(text);
        let sockets = Sockets::bind(&settings).await.expect("two ports");
        let (data, admin) = sockets.addresses().expect("their addresses");
        let (stop, stopped) = oneshot::channel();
        let kept = Arc::clone(&store);
        let ended = tokio::spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            run(&settings, store, sockets, stop).await.expect("a store")
        });
        let gateway = Gateway {
            data,
            admin,
            store: kept,
            stop,
            ended,
        };
        assert_eq!(gateway.operate(get("/readyz")).await.status, 200);
        gateway
    }

    /// Drains, and says how that ended.
    pub async fn stop(self) -> Ended {
        let _ = self.stop.send(());
        soon("the drain", self.ended).await.expect("no panic")
    }

    pub async fn connect(&self) -> Caller {
        Caller::connect(self.data).await
    }

    /// Sends `call` on a connection of its own.
    pub async fn send(&self, call: &Call) -> Answer {
        self.connect().await.ask(call).await
    }

    /// Sends `call` to the admin address, under its own name.
    pub async fn operate(&self, call: Call) -> Answer {
        let call = call.without("Host").with("Host", self.admin.to_string());
        Caller::connect(self.admin).await.ask(&call).await
    }

    /// All records, as an operator sees them.
    pub async fn records(&self) -> Vec<Value> {
        let answer = self.operate(get("/api/records")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        match answer.json() {
            Value::Array(records) => records,
            other => panic!("{other}"),
        }
    }

    /// The only record.
    pub async fn record(&self) -> Value {
        let mut records = self.records().await;
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }

    /// Waits until the only record is in `state`.
    pub async fn until_state(&self, state: &str) -> Value {
        let look = async {
            loop {
                if let [record] = &self.records().await[..]
                    && record["state"] == state
                {
                    return record.clone();
                }
                tokio::task::yield_now().await;
            }
        };
        soon(state, look).await
    }
}
