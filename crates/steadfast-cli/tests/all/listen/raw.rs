//! A front on a loopback port, and callers who send bytes rather than requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use steadfast::clock;
use steadfast_cli::gateway::framing::Violation;
use steadfast_cli::gateway::listen::{Drained, Front, Handler, Limits, Refuse, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long a test waits for what must happen. Never what is asserted.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what must happen.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match clock::within(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// A loopback port that nobody accepts on yet.
pub async fn port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a port")
}

/// A front that runs.
pub struct Running {
    pub addr: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Drained>,
}

impl Running {
    pub async fn start(service: impl Handler, limits: Limits) -> Running {
        Running::start_on(port().await, service, limits)
    }

    /// Starts on a port where callers may be waiting already.
    pub fn start_on(listener: TcpListener, service: impl Handler, limits: Limits) -> Running {
        let addr = listener.local_addr().expect("its address");
        let (stop, stopped) = oneshot::channel();
        let front = Front {
            service,
            refuse: refuse(),
            limits,
        };
        let served = tokio::spawn(serve(listener, front, async {
            let _ = stopped.await;
        }));
        Running { addr, stop, served }
    }

    /// Tells the front to drain; what it returns is how that ended.
    pub fn stop(self) -> JoinHandle<Drained> {
        let _ = self.stop.send(());
        self.served
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.expect("a connection")
    }

    /// Sends `bytes` on a connection of its own and reads until the front closes it.
    pub async fn tell(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        let _ = stream.write_all(bytes).await;
        rest(&mut stream).await
    }
}

/// The refusal of docs/reference.md, "Problems".
fn refuse() -> Refuse {
    Arc::new(|violation: &Violation| {
        let problem = serde_json::json!({
            "type": "urn:steadfast:problem:bad-request", "title": "Bad request", "status": 400,
            "detail": violation.to_string(), "effect": "none", "retryable": false,
        });
        Response::builder()
            .status(400)
            .header("content-type", "application/problem+json")
            .header("steadfast-effect", "none")
            .body(Bytes::from(problem.to_string()))
            .expect("a response")
    })
}

/// Everything until the other side closes.
pub async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = soon("the close", stream.read_to_end(&mut bytes)).await;
    read.expect("a close, not a reset");
    bytes
}

/// Reads until what came ends with `end`.
pub async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end.as_bytes()) {
        let byte = soon(end, stream.read_u8()).await;
        bytes.push(byte.unwrap_or_else(|_| panic!("{end} missing in {bytes:?}")));
    }
    String::from_utf8(bytes).expect("text")
}

/// One answer on the wire.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// The answers that `bytes` hold, each with a Content-Length. Nothing else is in them.
pub fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut fields);
        let length = match head.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            other => panic!("{other:?} in {:?}", String::from_utf8_lossy(bytes)),
        };
        let status = head.code.expect("a status");
        let mut headers = HeaderMap::new();
        for field in head.headers.iter() {
            let name = http::HeaderName::from_bytes(field.name.as_bytes()).expect("a name");
            let value = http::HeaderValue::from_bytes(field.value).expect("a value");
            headers.append(name, value);
        }
        let body = headers.get("content-length").map_or(0, |value| {
            let text = value.to_str().expect("digits");
            text.parse::<usize>().expect("a length")
        });
        all.push(Answer {
            status,
            headers,
            body: bytes[length..length + body].to_vec(),
        });
        bytes = &bytes[length + body..];
    }
    all
}

/// Counts what happens.
#[derive(Clone, Default)]
pub struct Count(Arc<AtomicUsize>);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
