//! A payment service as there are many: it charges what it is asked to charge, and knows nothing of
//! keys. What befalls its requests is the plan's to say.
//!
//! It serves one request a connection, so that it can tell when nothing is on its way to it any
//! more. An answer that is held back is held until the caller has gone, and not for a time.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use steadfast::clock;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::client;
use super::ledger::{Charge, Ledger};
use super::plan::{Fate, Plan};
use super::stop::Stop;

/// Most bytes of a request's body: an order has some forty.
const BODY_MAX_BYTES: usize = 64 * 1024;

/// After the system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The service, listening on loopback until it is dropped.
pub struct Service {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its books.
    pub ledger: Arc<Ledger>,
    open: watch::Receiver<usize>,
    accepting: JoinHandle<()>,
}

impl Service {
    /// Opens the service on a port of the system's choice, with empty books.
    pub async fn open(plan: Arc<Plan>) -> io::Result<Service> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let ledger = Arc::new(Ledger::default());
        let counter = Counter {
            plan,
            ledger: Arc::clone(&ledger),
        };
        let (count, open) = watch::channel(0);
        let accepting = tokio::spawn(accept(listener, counter, Arc::new(count)));
        Ok(Service {
            address,
            ledger,
            open,
            accepting,
        })
    }

    /// Waits until nothing that was sent to it so far is at work or on its way in: from then on its
    /// books change by new requests only.
    pub async fn at_rest(&self) -> Result<(), Stop> {
        // Connections are accepted in their order: once this one is answered, all before it are
        // counted.
        client::get(self.address, "/charges").await?;
        let mut open = self.open.clone();
        let rest = clock::within(super::PATIENCE, open.wait_for(|open| *open == 0));
        match rest.await {
            Ok(_) => Ok(()),
            Err(clock::Elapsed) => Err(Stop::waited("the service to be at rest")),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, counter: Counter, open: Arc<watch::Sender<usize>>) {
    loop {
        let Ok((tcp, _)) = listener.accept().await else {
            clock::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        open.send_modify(|open| *open += 1);
        let (counter, open) = (counter.clone(), Arc::clone(&open));
        tokio::spawn(async move {
            serve(tcp, counter).await;
            open.send_modify(|open| *open -= 1);
        });
    }
}

async fn serve(tcp: TcpStream, counter: Counter) {
    let answer = service_fn(move |request| {
        let counter = counter.clone();
        async move { counter.answer(request).await }
    });
    let mut http = http1::Builder::new();
    let connection = http
        .keep_alive(false)
        .serve_connection(TokioIo::new(tcp), answer);
    // However it ends, it has ended: a cut is what the plan wanted, or the caller has gone.
    let _ = connection.await;
}

/// The connection is to be cut without an answer.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut, as planned")
    }
}

impl std::error::Error for Cut {}

type Answer = Response<Full<Bytes>>;

/// Who takes the requests.
#[derive(Clone)]
struct Counter {
    plan: Arc<Plan>,
    ledger: Arc<Ledger>,
}

impl Counter {
    async fn answer(self, request: Request<Incoming>) -> Result<Answer, Cut> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let order = path
            .strip_prefix("/charges/")
            .and_then(|order| order.parse().ok());
        match (&head.method, path, order) {
            (&Method::POST, "/charges", _) => {
                let body = Limited::new(body, BODY_MAX_BYTES).collect().await;
                let body = body.map(|body| body.to_bytes()).unwrap_or_default();
                match asked(&body) {
                    Some((order, amount_cents, fate)) => {
                        self.charge(order, amount_cents, fate).await
                    }
                    None => Ok(answer(StatusCode::BAD_REQUEST, &json!({ "error": USAGE }))),
                }
            }
            (&Method::POST, "/receipts", _) => {
                let receipt = json!({ "receipt": self.ledger.send_receipt() });
                Ok(answer(StatusCode::CREATED, &receipt))
            }
            (&Method::GET, "/charges", _) => {
                let charges: Vec<Value> = self.ledger.charges().iter().map(Charge::json).collect();
                let list = json!({ "count": charges.len(), "charges": charges });
                Ok(answer(StatusCode::OK, &list))
            }
            (&Method::GET, _, Some(order)) => Ok(match self.ledger.charges_of(order).first() {
                Some(charge) => answer(StatusCode::OK, &charge.json()),
                None => answer(StatusCode::NOT_FOUND, &json!({ "error": "not charged" })),
            }),
            _ => Ok(answer(StatusCode::NOT_FOUND, &json!({ "error": USAGE }))),
        }
    }

    /// One attempt at an order, as the plan, or the request itself, wants it.
    async fn charge(
        &self,
        order: u64,
        amount_cents: u64,
        wanted: Option<Fate>,
    ) -> Result<Answer, Cut> {
        let attempt = self.ledger.attempt(order);
        let fate = wanted.unwrap_or_else(|| self.plan.fate(order, attempt));
        if fate == Fate::NeverArrived {
            return silence().await;
        }
        self.ledger.arrive(order);
        let charged = fate
            .charges()
            .then(|| self.ledger.charge(order, amount_cents));
        match (fate, charged) {
            (Fate::Answered, Some(charge)) => Ok(answer(StatusCode::CREATED, &charge.json())),
            (Fate::ChargedThenSilent | Fate::NotExecuted, _) => silence().await,
            (Fate::Unavailable, _) => {
                let why = json!({ "error": "not now" });
                Ok(answer(StatusCode::SERVICE_UNAVAILABLE, &why))
            }
            _ => Err(Cut),
        }
    }
}

/// No answer: the caller's leaving drops this.
async fn silence() -> Result<Answer, Cut> {
    let never: Infallible = std::future::pending().await;
    match never {}
}

const USAGE: &str = "POST /charges with {\"order\":1001,\"amount_cents\":5000}; GET /charges";

/// What a body asks for: order, amount, and a fate that it wants.
fn asked(body: &[u8]) -> Option<(u64, u64, Option<Fate>)> {
    let asked: Value = serde_json::from_slice(body).ok()?;
    let fate = match asked.get("fate") {
        None => None,
        Some(word) => Some(Fate::named(word.as_str()?)?),
    };
    Some((
        asked.get("order")?.as_u64()?,
        asked.get("amount_cents")?.as_u64()?,
        fate,
    ))
}

fn answer(status: StatusCode, body: &Value) -> Answer {
    let mut answer = Response::new(Full::from(format!("{body}\n")));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
