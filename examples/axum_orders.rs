//! An axum service whose `POST /orders` happens once for each `Idempotency-Key`.
//!
//!     cargo run -p steadfast --features axum --example axum_orders -- PORT FOLDER
//!
//! The folder keeps the records (`steadfast.db`) and the service's own orders (`orders.db`).

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use steadfast::server::{IdempotencyLayer, KeyedOperation, Server};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// How long a stop waits for work; longer than the layer's deadline, which is 30 s.
const DRAIN: Duration = Duration::from_secs(35);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(port), Some(folder)) = (words.next(), words.next()) else {
        return Err("usage: axum_orders PORT FOLDER".into());
    };
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder)?;

    let ledger = Ledger::open(&folder.join("orders.db"))?;
    let server = Server::open(folder.join("steadfast.db")).await?;
    let app = Router::new()
        .route(
            "/orders",
            post(place).layer(IdempotencyLayer::new(server.clone())),
        )
        .route("/orders", get(list))
        .with_state(ledger);

    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    println!("orders are taken on http://{}", listener.local_addr()?);
    let stop = async move {
        terminate.recv().await;
    };
    let served = server
        .serve_until(stop, DRAIN, |stop| {
            axum::serve(listener, app).with_graceful_shutdown(stop)
        })
        .await;
    println!(
        "drained; orders stopped with an unknown outcome: {}",
        served.stopped
    );
    Ok(())
}

#[derive(Deserialize)]
struct NewOrder {
    item: String,
}

#[derive(Serialize)]
struct Order {
    id: i64,
    item: String,
    fence: i64,
}

/// Places an order. It runs once for each key of a caller; who repeats the request is given this
/// answer again.
async fn place(
    State(ledger): State<Ledger>,
    operation: KeyedOperation,
    headers: HeaderMap,
    Json(order): Json<NewOrder>,
) -> Response {
    if operation.remaining() < Duration::from_secs(1) {
        // 503 says that nothing was done: the same key may try again.
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    match ledger
        .place(customer(&headers), operation, order.item)
        .await
    {
        Some(order) => (StatusCode::CREATED, Json(order)).into_response(),
        None => (
            StatusCode::CONFLICT,
            "a later attempt has placed this order",
        )
            .into_response(),
    }
}

async fn list(State(ledger): State<Ledger>) -> Json<Vec<Order>> {
    Json(ledger.orders().await)
}

/// Whose order it is. A service of yours has checked the token before it gets here.
fn customer(headers: &HeaderMap) -> String {
    let sent = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    sent.unwrap_or("nobody")
        .trim_start_matches("Bearer ")
        .to_owned()
}

/// The service's own database.
#[derive(Clone)]
struct Ledger(Arc<Mutex<rusqlite::Connection>>);

impl Ledger {
    fn open(path: &Path) -> rusqlite::Result<Ledger> {
        let connection = rusqlite::Connection::open(path)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS orders (
                 id INTEGER PRIMARY KEY, customer TEXT, key TEXT, fence INTEGER, item TEXT,
                 UNIQUE (customer, key))",
        )?;
        Ok(Ledger(Arc::new(Mutex::new(connection))))
    }

    /// Places an order, or finds the one of the same key, in one statement that also refuses a
    /// stale attempt: `None` where one with a later fence has been here.
    async fn place(
        &self,
        customer: String,
        operation: KeyedOperation,
        item: String,
    ) -> Option<Order> {
        let key = operation.key.as_str().to_owned();
        // Without a fence the store has failed; then the key alone keeps the order single.
        let fence = operation.fence.unwrap_or(0).cast_signed();
        self.with(move |connection| {
            let placed = connection.query_row(
                "INSERT INTO orders (customer, key, fence, item) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (customer, key) DO UPDATE SET fence = excluded.fence
                 WHERE fence <= excluded.fence
                 RETURNING id, item, fence",
                (customer, key, fence, item),
                order,
            );
            match placed {
                Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
                placed => placed.map(Some),
            }
        })
        .await
    }

    async fn orders(&self) -> Vec<Order> {
        self.with(|connection| {
            let mut all = connection.prepare("SELECT id, item, fence FROM orders ORDER BY id")?;
            all.query_map((), order)?.collect()
        })
        .await
    }

    /// Asks the database on a thread that may wait for it. A failure panics, which is written down
    /// as an unknown outcome: it may have come behind the effect.
    async fn with<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> T {
        let connection = Arc::clone(&self.0);
        let asked = move || ask(&connection.lock().expect("no earlier panic"));
        let asked = tokio::task::spawn_blocking(asked).await;
        asked.expect("no panic").expect("the ledger answers")
    }
}

fn order(row: &rusqlite::Row<'_>) -> rusqlite::Result<Order> {
    Ok(Order {
        id: row.get(0)?,
        item: row.get(1)?,
        fence: row.get(2)?,
    })
}
