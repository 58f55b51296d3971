//! A scripted upstream on a loopback port: it reads real requests, keeps a ledger of them, and
//! answers with whatever bytes its script writes.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::listen::raw::{port, soon};

/// One request as it came over the wire.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// The body was read to its end.
    pub whole: bool,
}

impl Seen {
    /// The values of a field, in their order.
    pub fn values(&self, name: &str) -> Vec<&[u8]> {
        let values = self.headers.get_all(name).iter();
        values.map(HeaderValue::as_bytes).collect()
    }

    /// The one value of a field.
    pub fn one(&self, name: &str) -> &str {
        match self.values(name)[..] {
            [value] => std::str::from_utf8(value).expect("text"),
            ref values => panic!("{name}: {values:?}"),
        }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

#[derive(Debug, Default)]
struct Ledger {
    requests: Mutex<Vec<Seen>>,
    changes: watch::Sender<u64>,
}

impl Ledger {
    fn requests(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.requests.lock().expect("no test panics under it")
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }
}

/// The service behind the gateway.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub addr: SocketAddr,
    ledger: Arc<Ledger>,
}

/// The connection again, where it is kept for a next request.
pub type Kept = Option<Exchange>;

type Script = Arc<dyn Fn(Exchange) -> Pin<Box<dyn Future<Output = Kept> + Send>> + Send + Sync>;

impl Upstream {
    /// Plays `script` for each request.
    pub async fn start<F>(script: impl Fn(Exchange) -> F + Send + Sync + 'static) -> Upstream
    where
        F: Future<Output = Kept> + Send + 'static,
    {
        Upstream::start_on(port().await, script)
    }

    /// The same, on a port that is bound already.
    pub fn start_on<F>(
        listener: TcpListener,
        script: impl Fn(Exchange) -> F + Send + Sync + 'static,
    ) -> Upstream
    where
        F: Future<Output = Kept> + Send + 'static,
    {
        let addr = listener.local_addr().expect("its address");
        let ledger = Arc::new(Ledger::default());
        let script: Script = Arc::new(move |exchange| Box::pin(script(exchange)));
        tokio::spawn(accept(listener, script, Arc::clone(&ledger)));
        Upstream { addr, ledger }
    }

    /// Answers everything with these bytes.
    pub async fn saying(answer: &str) -> Upstream {
        let answer = answer.to_owned();
        Upstream::start(move |exchange| {
            let answer = answer.clone();
            async move { exchange.reply(&answer).await }
        })
        .await
    }

    /// Charges: a 201 with a number that no other charge has.
    pub async fn charging() -> Upstream {
        Upstream::start(|exchange| async move {
            let number = exchange.number;
            let body = format!("{{\"charge\":{number}}}");
            let head = format!("Location: /charges/{number}\r\nContent-Type: application/json\r\n");
            exchange.reply(&answer("201 Created", &head, &body)).await
        })
        .await
    }

    /// Answers each request with these bytes once a permit is there for it.
    pub async fn held(answer: &str) -> (Upstream, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let (may, answer) = (Arc::clone(&gate), answer.to_owned());
        let upstream = Upstream::start(move |mut exchange| {
            let (may, answer) = (Arc::clone(&may), answer.clone());
            async move {
                exchange.read().await;
                may.acquire().await.expect("it is never closed").forget();
                exchange.write(answer).await;
                Some(exchange)
            }
        })
        .await;
        (upstream, gate)
    }

    /// An address that takes no connection.
    pub async fn nowhere() -> SocketAddr {
        port().await.local_addr().expect("its address")
    }

    /// Requests whose head came, in their order.
    pub fn seen(&self) -> Vec<Seen> {
        self.ledger.requests().clone()
    }

    pub fn count(&self) -> usize {
        self.ledger.requests().len()
    }

    /// The only request.
    pub fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.into_iter().next().expect("one")
    }

    /// Waits until `holds` of the requests so far.
    pub async fn until(&self, what: &str, holds: impl Fn(&[Seen]) -> bool) {
        let mut changes = self.ledger.changes.subscribe();
        let met = changes.wait_for(|_| holds(&self.ledger.requests()));
        soon(what, met).await.expect("the ledger lives in self");
    }

    pub async fn until_count(&self, requests: usize) {
        self.until("requests", |seen| seen.len() >= requests).await;
    }
}

/// An answer with its length.
pub fn answer(status: &str, head: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{head}Content-Length: {length}\r\n\r\n{body}")
}

async fn accept(listener: TcpListener, script: Script, ledger: Arc<Ledger>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (script, ledger) = (Arc::clone(&script), Arc::clone(&ledger));
        tokio::spawn(async move {
            let mut held = (stream, Vec::new());
            let mut first = true;
            while let Some(mut exchange) = Exchange::begin(held, &ledger).await {
                exchange.first = std::mem::replace(&mut first, false);
                match script(exchange).await {
                    Some(kept) => held = (kept.stream, kept.held),
                    None => return,
                }
            }
        });
    }
}

/// One request and the connection it came on.
pub struct Exchange {
    /// Which request it is, from one.
    pub number: usize,
    /// No other came on its connection before.
    pub first: bool,
    stream: TcpStream,
    held: Vec<u8>,
    ledger: Arc<Ledger>,
    framing: Framing,
}

#[derive(Clone, Copy)]
enum Framing {
    Bytes(usize),
    Chunked,
    Ended,
}

impl Exchange {
    async fn begin(held: (TcpStream, Vec<u8>), ledger: &Arc<Ledger>) -> Option<Exchange> {
        let (mut stream, mut held) = held;
        let end = loop {
            if let Some(at) = held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut held).await.ok()? == 0 {
                return None;
            }
        };
        let seen = read_head(&held[..end]);
        held.drain(..end);
        let length = seen.headers.get("content-length").map(|value| {
            let digits = value.to_str().expect("digits");
            digits.parse().expect("a length")
        });
        let framing = match (seen.headers.contains_key("transfer-encoding"), length) {
            (true, _) => Framing::Chunked,
            (false, Some(length)) => Framing::Bytes(length),
            (false, None) => Framing::Ended,
        };
        let number = {
            let mut requests = ledger.requests();
            requests.push(seen);
            requests.len()
        };
        ledger.changed();
        Some(Exchange {
            number,
            first: true,
            stream,
            held,
            ledger: Arc::clone(ledger),
            framing,
        })
    }

    pub fn seen(&self) -> Seen {
        self.ledger.requests()[self.number - 1].clone()
    }

    /// Reads the body to its end into the ledger; false where it was cut.
    pub async fn read(&mut self) -> bool {
        while self.read_some().await {}
        self.seen().whole
    }

    /// Reads one piece of the body into the ledger; false at its end.
    pub async fn read_some(&mut self) -> bool {
        let piece = match self.framing {
            Framing::Ended => Vec::new(),
            Framing::Bytes(0) => Vec::new(),
            Framing::Bytes(left) => match self.more().await {
                true => {
                    let length = left.min(self.held.len());
                    self.framing = Framing::Bytes(left - length);
                    self.held.drain(..length).collect()
                }
                false => return false,
            },
            Framing::Chunked => match self.chunk().await {
                Some(chunk) => chunk,
                None => return false,
            },
        };
        let ended = matches!(self.framing, Framing::Ended | Framing::Bytes(0));
        {
            let mut requests = self.ledger.requests();
            let seen = &mut requests[self.number - 1];
            seen.body.extend_from_slice(&piece);
            seen.whole = ended;
        }
        self.ledger.changed();
        !ended
    }

    /// Bytes are at hand; false where the other side closed.
    async fn more(&mut self) -> bool {
        !self.held.is_empty() || matches!(self.stream.read_buf(&mut self.held).await, Ok(1..))
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.held.windows(2).position(|bytes| bytes == b"\r\n") {
                let line = self.held.drain(..at + 2).collect::<Vec<u8>>();
                return Some(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.stream.read_buf(&mut self.held).await.ok()? == 0 {
                return None;
            }
        }
    }

    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line().await?, 16).expect("a chunk's size");
        if size == 0 {
            loop {
                let line = self.line().await?;
                let Some((name, value)) = line.split_once(':') else {
                    break;
                };
                let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
                let value = HeaderValue::from_str(value.trim()).expect("a value");
                // Trailers stand beside the fields, where a test can see them.
                let mut requests = self.ledger.requests();
                requests[self.number - 1].headers.append(name, value);
            }
            self.framing = Framing::Ended;
            return Some(Vec::new());
        }
        while self.held.len() < size + 2 {
            if self.stream.read_buf(&mut self.held).await.ok()? == 0 {
                return None;
            }
        }
        let chunk = self.held.drain(..size + 2).take(size).collect();
        Some(chunk)
    }

    /// Writes without reading.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The gateway may have gone; the test sees it elsewhere.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Reads the whole request, answers, and keeps the connection.
    pub async fn reply(mut self, bytes: impl AsRef<[u8]>) -> Kept {
        if !self.read().await {
            return None;
        }
        self.write(bytes).await;
        Some(self)
    }

    /// Reads the whole request, writes `bytes` and closes.
    pub async fn reply_and_close(mut self, bytes: impl AsRef<[u8]>) -> Kept {
        if self.read().await {
            self.write(bytes).await;
            let _ = self.stream.shutdown().await;
        }
        None
    }

    /// Closes with a reset.
    pub fn reset(self) -> Kept {
        self.stream.set_zero_linger().expect("an option");
        None
    }

    /// Waits until the other side closes.
    pub async fn until_closed(&mut self) {
        let mut rest = Vec::new();
        let _ = soon("the gateway to close", self.stream.read_to_end(&mut rest)).await;
    }
}

fn read_head(bytes: &[u8]) -> Seen {
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut fields);
    assert!(request.parse(bytes).expect("a head").is_complete());
    let mut headers = HeaderMap::new();
    for field in request.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).expect("a name");
        headers.append(name, HeaderValue::from_bytes(field.value).expect("a value"));
    }
    Seen {
        method: request.method.expect("a method").to_owned(),
        target: request.path.expect("a target").to_owned(),
        headers,
        ..Seen::default()
    }
}
