//! An effect that does as it is told, with a ledger of what reached it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use steadfast::body::{Body, BoxError, Cut, full};
use steadfast::client::SharedUpstream;
use steadfast::clock;
use steadfast::core::attempt::Failure;
use steadfast::core::breaker::BreakerPolicy;
use steadfast::core::budget::BudgetPolicy;
use steadfast::core::deadline::Deadline;
use steadfast::server::{Execute, Executed, Failed};
use tokio::sync::{Semaphore, mpsc, watch};

use super::LONG;

/// What the effect does when it is reached.
pub enum Turn {
    /// Answers with a body that names the number of the effect.
    Answer(u16),
    /// Answers so.
    Whole(u16, Vec<(&'static str, &'static [u8])>, Bytes),
    /// Answers with this head, and with what the test sends.
    Stream(u16, &'static str, mpsc::Receiver<Result<Bytes, Failure>>),
    /// No whole answer.
    Fails(Failure),
    /// 408 before the request was written in full.
    Early(u16),
    Panics,
    Never,
}

/// Opens once, for one to pass.
#[derive(Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    pub fn shut() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }

    pub fn open(&self) {
        self.0.add_permits(1);
    }

    pub async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// What a turn waits for.
enum Wait {
    Nothing,
    Gate(Gate),
    Time(Duration),
}

/// What happens before a connection is in hand.
pub enum Before {
    Waits(Gate),
    Fails(Failure),
    Never,
}

/// What reached the effect.
#[derive(Clone, Debug)]
pub struct Reached {
    pub fence: Option<u64>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Clone)]
pub struct Script {
    inner: Arc<Inner>,
    /// Where an operation may be sent more than once.
    upstream: Option<SharedUpstream>,
}

struct Inner {
    no_connection: AtomicBool,
    before: Mutex<VecDeque<Before>>,
    turns: Mutex<VecDeque<(Wait, Turn)>>,
    ledger: Mutex<Vec<Reached>>,
    prepared: watch::Sender<usize>,
    reached: watch::Sender<usize>,
}

impl Default for Script {
    fn default() -> Self {
        let inner = Inner {
            no_connection: AtomicBool::new(false),
            before: Mutex::default(),
            turns: Mutex::default(),
            ledger: Mutex::default(),
            prepared: watch::Sender::new(0),
            reached: watch::Sender::new(0),
        };
        Script {
            inner: Arc::new(inner),
            upstream: None,
        }
    }
}

impl Script {
    /// May be sent to more than once for one operation, with a budget and a breaker that never say
    /// no.
    pub fn repeating(&mut self) {
        let budget = BudgetPolicy {
            floor_per_second: 1000,
            ..BudgetPolicy::default()
        };
        let breaker = BreakerPolicy {
            min_requests: u32::MAX,
            ..BreakerPolicy::default()
        };
        self.upstream = Some(SharedUpstream::new(budget, breaker));
    }

    /// May be sent to more than once for one operation, with this budget and breaker.
    pub fn behind(&mut self, upstream: &SharedUpstream) {
        self.upstream = Some(upstream.clone());
    }

    /// The next turn.
    pub fn then(&self, turn: Turn) -> &Script {
        self.inner
            .turns
            .lock()
            .unwrap()
            .push_back((Wait::Nothing, turn));
        self
    }

    /// The next turn, behind a gate that the test opens.
    pub fn gated(&self, turn: Turn) -> Gate {
        let gate = Gate::shut();
        let mut turns = self.inner.turns.lock().unwrap();
        turns.push_back((Wait::Gate(gate.clone()), turn));
        gate
    }

    /// The next turn, which takes so long.
    pub fn after(&self, time: Duration, turn: Turn) {
        let mut turns = self.inner.turns.lock().unwrap();
        turns.push_back((Wait::Time(time), turn));
    }

    /// A connection is at hand from now on, or none any more.
    pub fn toggle(&self) {
        self.inner.no_connection.fetch_xor(true, Ordering::SeqCst);
    }

    /// No connection is at hand from now on.
    pub fn unconnected(&self) -> &Script {
        self.inner.no_connection.store(true, Ordering::SeqCst);
        self
    }

    /// What the next connecting comes to; without it, it succeeds.
    pub fn connecting(&self, before: Before) -> &Script {
        self.unconnected();
        self.inner.before.lock().unwrap().push_back(before);
        self
    }

    /// How often the effect was reached.
    pub fn effects(&self) -> usize {
        self.ledger().len()
    }

    pub fn ledger(&self) -> Vec<Reached> {
        self.inner.ledger.lock().unwrap().clone()
    }

    /// Waits until the effect was reached `count` times.
    pub async fn reached(&self, count: usize) {
        Script::wait(&self.inner.reached, count).await;
    }

    /// Waits until a connection was asked for `count` times.
    pub async fn prepared(&self, count: usize) {
        Script::wait(&self.inner.prepared, count).await;
    }

    async fn wait(counter: &watch::Sender<usize>, count: usize) {
        let mut counter = counter.subscribe();
        let wait = counter.wait_for(|n| *n >= count);
        let came = clock::within(LONG, wait).await;
        assert!(came.is_ok(), "it is reached {count} times");
    }
}

impl Execute for Script {
    type Ready = ();

    fn upstream(&self) -> Option<&SharedUpstream> {
        self.upstream.as_ref()
    }

    fn at_hand(&self) -> Option<()> {
        (!self.inner.no_connection.load(Ordering::SeqCst)).then_some(())
    }

    async fn prepare(&self, _: Deadline) -> Result<(), Failed> {
        let before = self.inner.before.lock().unwrap().pop_front();
        self.inner.prepared.send_modify(|n| *n += 1);
        match before {
            None => Ok(()),
            Some(Before::Waits(gate)) => {
                gate.pass().await;
                Ok(())
            }
            Some(Before::Fails(failure)) => Err(failed(failure)),
            Some(Before::Never) => std::future::pending().await,
        }
    }

    async fn run(&self, _: (), request: Request<Bytes>, _: Deadline) -> Result<Executed, Failed> {
        let (parts, body) = request.into_parts();
        let fence = parts.headers.get("idempotency-fence");
        let fence = fence.map(|fence| fence.to_str().unwrap().parse().unwrap());
        let number = {
            let mut ledger = self.inner.ledger.lock().unwrap();
            let headers = parts.headers;
            ledger.push(Reached {
                fence,
                headers,
                body,
            });
            ledger.len()
        };
        let turn = self.inner.turns.lock().unwrap().pop_front();
        let (wait, turn) = turn.unwrap_or((Wait::Nothing, Turn::Answer(201)));
        self.inner.reached.send_modify(|n| *n = number);
        match wait {
            Wait::Nothing => {}
            Wait::Gate(gate) => gate.pass().await,
            Wait::Time(time) => clock::sleep(time).await,
        }
        perform(turn, number).await
    }
}

async fn perform(turn: Turn, number: usize) -> Result<Executed, Failed> {
    let written = !matches!(turn, Turn::Early(_));
    let response = match turn {
        Turn::Answer(status) | Turn::Early(status) => {
            let head: [(&str, &[u8]); 1] = [("content-type", b"application/json")];
            respond(status, &head, full(format!("{{\"effect\":{number}}}")))
        }
        Turn::Whole(status, headers, body) => respond(status, &headers, full(body)),
        Turn::Stream(status, kind, frames) => {
            let frames = futures_util::stream::unfold(frames, |mut frames| async move {
                let frame: Result<Bytes, Failure> = frames.recv().await?;
                let frame = frame.map(Frame::data);
                Some((frame.map_err(|f| Box::new(Cut(f)) as BoxError), frames))
            });
            let head = [("content-type", kind.as_bytes())];
            respond(status, &head, Body::new(StreamBody::new(frames)))
        }
        Turn::Fails(failure) => return Err(failed(failure)),
        Turn::Panics => panic!("as the test asks"),
        Turn::Never => std::future::pending().await,
    };
    Ok(Executed {
        response,
        request_written: written,
    })
}

fn respond(status: u16, headers: &[(&str, &[u8])], body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        let value = HeaderValue::from_bytes(value).unwrap();
        response.headers_mut().append(name, value);
    }
    response
}

fn failed(failure: Failure) -> Failed {
    let detail = "as the test asks".to_owned();
    Failed { failure, detail }
}
