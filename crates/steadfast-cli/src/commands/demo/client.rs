//! A plain client that repeats what failed, as common libraries do. It knows nothing of steadfast;
//! a key is one more field to it.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use steadfast::clock;
use tokio::net::TcpStream;

use super::stop::Stop;

/// How long the client waits for an answer. A healthy one takes some milliseconds; a service that
/// is silent is silent for longer than anybody waits.
pub const LIMIT: Duration = Duration::from_secs(1);

/// Attempts at one order. No order of the plan needs more than three.
pub const ATTEMPTS_MAX: u32 = 4;

/// Before the second attempt; twice as long before each later one.
const WAIT: Duration = Duration::from_millis(25);

/// What the client saw of one attempt.
#[derive(Clone, Debug)]
pub enum Seen {
    /// No answer within [`LIMIT`].
    TimedOut,
    /// The connection ended before the answer did.
    Cut,
    /// A whole answer.
    Answer(Answer),
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// The last part of a problem's type, such as `outcome-unknown`.
    pub fn problem(&self) -> Option<String> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let slug = body.get("type")?.as_str()?.rsplit(':').next()?;
        Some(slug.to_owned())
    }

    /// `true` or `false` where the gateway says whether it is a stored answer.
    pub fn replayed(&self) -> Option<&str> {
        self.headers.get("idempotent-replayed")?.to_str().ok()
    }
}

impl Seen {
    /// The answer, where it is a success.
    pub fn success(&self) -> Option<&Answer> {
        match self {
            Seen::Answer(answer) if answer.status.is_success() => Some(answer),
            _ => None,
        }
    }

    /// Worth another attempt, as such libraries see it.
    fn is_repeated(&self) -> bool {
        match self {
            Seen::TimedOut | Seen::Cut => true,
            Seen::Answer(answer) => matches!(answer.status.as_u16(), 502..=504),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::TimedOut => f.write_str("time-out"),
            Seen::Cut => f.write_str("connection cut"),
            Seen::Answer(answer) => {
                write!(f, "{}", answer.status.as_u16())?;
                let slug = answer.problem();
                slug.map_or(Ok(()), |slug| write!(f, " {slug}"))
            }
        }
    }
}

/// A POST of JSON, with a key or without.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// The path.
    pub path: &'a str,
    /// The key.
    pub key: Option<&'a str>,
    /// The body.
    pub body: &'a Value,
}

/// Sends `post` until something comes that is not worth another attempt. Everything that the client
/// saw, the last of it being how it ended.
pub async fn send(to: SocketAddr, post: Post<'_>) -> Vec<Seen> {
    let request = || {
        let request =
            request(to, Method::POST, post.path).header(header::CONTENT_TYPE, "application/json");
        let request = match post.key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        request.body(Full::from(post.body.to_string()))
    };
    let (mut seen, mut wait) = (Vec::new(), WAIT);
    loop {
        // What we wrote ourselves is a sound request.
        let Ok(request) = request() else { return seen };
        let last = once(to, request).await;
        let again = last.is_repeated();
        seen.push(last);
        if !again || seen.len() as u32 == ATTEMPTS_MAX {
            return seen;
        }
        clock::sleep(wait).await;
        wait *= 2;
    }
}

/// Reads `path`, several times if need be. The answer, whatever its status.
pub async fn get(from: SocketAddr, path: &str) -> Result<Answer, Stop> {
    for _ in 0..ATTEMPTS_MAX {
        let request = request(from, Method::GET, path).body(Full::default());
        let request = request.map_err(|error| Stop::Ours(error.to_string()))?;
        if let Seen::Answer(answer) = once(from, request).await {
            return Ok(answer);
        }
    }
    let why = format!("http://{from}{path} gave no answer, {ATTEMPTS_MAX} times");
    Err(Stop::Machine(why))
}

fn request(to: SocketAddr, method: Method, path: &str) -> http::request::Builder {
    let request = Request::builder().method(method).uri(path);
    request.header(header::HOST, to.to_string())
}

/// One attempt, on a connection of its own, which goes with it.
async fn once(to: SocketAddr, request: Request<Full<Bytes>>) -> Seen {
    match clock::within(LIMIT, exchange(to, request)).await {
        Ok(Some(answer)) => Seen::Answer(answer),
        Ok(None) => Seen::Cut,
        Err(clock::Elapsed) => Seen::TimedOut,
    }
}

async fn exchange(to: SocketAddr, request: Request<Full<Bytes>>) -> Option<Answer> {
    let tcp = TcpStream::connect(to).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(tcp)).await.ok()?;
    let answer = async move {
        let (head, body) = sender.send_request(request).await.ok()?.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        Some(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    };
    // How the connection ended shows in the answer.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}
