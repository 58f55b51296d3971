//! The gateway in front of the service: the very one that `steadfast gateway` runs, on ports of the
//! system's choice, with its records in SQLite.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steadfast::clock;
use steadfast::store::{Scan, Store};
use steadfast_core::record::{Record, State};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::stop::Stop;
use crate::gateway::run::{Ended, Sockets, prepare, serve};
use crate::settings::environment::Environment;
use crate::settings::top::Flags;
use crate::settings::{Settings, parse};
use crate::stores::for_gateway;

/// How long the gateway waits for the service's answer: longer than the client waits for it, so
/// that a silent service shows to the client as a time-out, as it does without a gateway.
const RESPONSE_MS: u64 = 1500;

/// How long records of receipts are kept: time enough to count them before they go.
pub const RECEIPT_RETENTION: Duration = Duration::from_secs(2);

/// Rows read from the store at once: more than the demonstration ever makes.
const PAGE: u32 = 500;

/// Between two looks at the store.
const LOOK: Duration = Duration::from_millis(10);

/// The gateway, serving until it is closed.
pub struct Front {
    /// Where callers connect.
    pub callers: SocketAddr,
    /// Where operators connect.
    pub operators: SocketAddr,
    /// The store, as its URL.
    pub url: String,
    /// The store itself, as an operator's command opens it.
    pub store: Arc<dyn Store>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Ended>,
}

impl Front {
    /// Starts a gateway to the service at `to`, with its records in `folder`.
    pub async fn open(to: SocketAddr, folder: &Path) -> Result<Front, Stop> {
        let url = format!("sqlite:{}", folder.join("records.db").display());
        let settings = settings(to, url.clone())?;
        let machine = |error: &dyn std::fmt::Display| Stop::machine(error.to_string());
        let store = for_gateway(&settings.top).map_err(|error| machine(&error))?;
        let server = prepare(&settings, Arc::clone(&store))
            .await
            .map_err(|error| machine(&error))?;
        let sockets = Sockets::bind(&settings)
            .await
            .map_err(|error| machine(&error))?;
        let (callers, operators) = sockets.addresses().map_err(|error| machine(&error))?;
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            // A sender that is gone stops it as well.
            let stopped = async { drop(stopped.await) };
            serve(&settings, server, sockets, stopped).await
        });
        Ok(Front {
            callers,
            operators,
            url,
            store,
            stop,
            serving,
        })
    }

    /// The records of `path`, in the order in which they were made.
    pub async fn records(&self, path: &str) -> Result<Vec<Record>, Stop> {
        let scan = Scan {
            limit: PAGE,
            ..Scan::default()
        };
        let page = self.store.scan(scan).await;
        let page = page.map_err(|error| Stop::machine(error.to_string()))?;
        let mut rows = page.rows;
        rows.retain(|row| row.operation.path() == path);
        Ok(rows)
    }

    /// The records of `path`, once `wanted` holds for them; `what` names it.
    pub async fn records_once(
        &self,
        path: &str,
        what: &str,
        wanted: impl Fn(&[Record]) -> bool,
    ) -> Result<Vec<Record>, Stop> {
        let look = async {
            loop {
                let rows = self.records(path).await?;
                if wanted(&rows) {
                    return Ok(rows);
                }
                clock::sleep(LOOK).await;
            }
        };
        match clock::within(super::PATIENCE, look).await {
            Ok(rows) => rows,
            Err(clock::Elapsed) => Err(Stop::waited(what)),
        }
    }

    /// The charges whose outcome is unknown, once the gateway is at work on none any more.
    pub async fn unknown(&self) -> Result<Vec<Record>, Stop> {
        let at_rest = |rows: &[Record]| !rows.iter().any(Record::is_held);
        let rows = self.records_once("/charges", "the gateway to be at rest", at_rest);
        let mut rows = rows.await?;
        rows.retain(|row| row.standing.state == State::Unknown);
        Ok(rows)
    }

    /// Drains the gateway.
    pub async fn close(self) -> Result<(), Stop> {
        // A gateway that has ended already needs no telling; why it did shows below.
        let _ = self.stop.send(());
        let ended = self.serving.await;
        ended
            .map(drop)
            .map_err(|error| Stop::Ours(format!("the gateway ended by itself: {error}")))
    }
}

/// Nothing of the environment and no file counts: every run has the same settings.
fn settings(to: SocketAddr, store: String) -> Result<Settings, Stop> {
    let kept = RECEIPT_RETENTION.as_secs();
    let text = format!(
        "drain = \"1s\"\n\
         [[route]]\npath = \"/receipts\"\nto = \"http://{to}\"\n\
         idempotency = {{ retention = \"{kept}s\" }}\n\
         [[route]]\npath = \"/{{*rest}}\"\nto = \"http://{to}\"\n\
         timeouts = {{ response = \"{RESPONSE_MS}ms\" }}\n\
         idempotency = {{ on_unknown = \"hold\" }}\n"
    );
    let loopback = Some("127.0.0.1:0".to_owned());
    let flags = Flags {
        listen: loopback.clone(),
        admin: loopback,
        store: Some(store),
    };
    let settings = parse(
        &text,
        "the demo's settings",
        &flags,
        &Environment::default(),
    );
    settings.map_err(|faults| Stop::Ours(faults.to_string()))
}
