//! The admin address: liveness, readiness, metrics, and the operator's view of records.
//!
//! Loopback without a token, elsewhere only with one. A page that an operator's browser has open
//! must not act here: requests for foreign host names are refused, and changes that come across
//! sites.

mod guard;
mod resolution;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use serde_json::{Value, json};
use steadfast::body::{Body, full};
use steadfast::clock;
use steadfast::server::admission;
use steadfast::server::operate::{self, NotDone};
use steadfast::server::{Server, list_queued, queued, status};
use steadfast::store::{Scan, StoreError};
use steadfast_core::problem::Slug;
use steadfast_core::record::{OperationId, Record, State};

pub use resolution::read_answer;

use super::metrics;
use super::service::{Gateway, text};
use super::watch::Watch;

/// A body of an operator's act: an answer to give, in JSON.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Records of one page where the caller does not say.
const PAGE: u32 = 100;
/// Records of one page at most: each is read whole.
const PAGE_MAX: u32 = 1000;

/// How long an operator waits for the store: longer than callers do, since nothing hangs on it.
const ANSWER: Duration = Duration::from_secs(10);

/// The admin port. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    inner: Arc<Inner>,
}

/// What an operator may look at.
pub struct Seen {
    /// The records, and those who work on them.
    pub server: Server,
    /// The upstreams' connections.
    pub gateway: Gateway,
    /// What was counted.
    pub watch: Arc<Watch>,
}

struct Inner {
    server: Server,
    gateway: Gateway,
    watch: Arc<Watch>,
    ready: AtomicBool,
    token: Option<String>,
    names: Vec<String>,
}

impl Admin {
    /// The admin port that shows `seen`, bound to `listen`.
    pub fn new(seen: Seen, listen: std::net::SocketAddr, token: Option<String>) -> Admin {
        let Seen {
            server,
            gateway,
            watch,
        } = seen;
        let names = vec![listen.ip().to_string(), format!("[{}]", listen.ip())];
        let ready = AtomicBool::new(true);
        Admin {
            inner: Arc::new(Inner {
                server,
                gateway,
                watch,
                ready,
                token,
                names,
            }),
        }
    }

    /// Says from now on that no new requests are wanted.
    pub fn drain(&self) {
        self.inner.ready.store(false, Ordering::Release);
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        match (parts.method.as_str(), parts.uri.path()) {
            ("GET" | "HEAD", "/livez") => text(StatusCode::OK, "alive\n"),
            ("GET" | "HEAD", "/readyz") if self.inner.ready.load(Ordering::Acquire) => {
                text(StatusCode::OK, "ready\n")
            }
            ("GET" | "HEAD", "/readyz") => text(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
            (_, "/metrics") => self
                .metrics(&parts)
                .await
                .unwrap_or_else(Refused::into_response),
            _ => match clock::within(ANSWER, self.records(&parts, body)).await {
                Ok(Ok(response)) => response,
                Ok(Err(refused)) => refused.into_response(),
                Err(clock::Elapsed) => no_answer().into_response(),
            },
        }
    }

    /// Bounded by itself, since what the store does not say is left out.
    async fn metrics(&self, parts: &Parts) -> Result<Response<Body>, Refused> {
        guard::may_ask(parts, &self.inner.names, self.inner.token.as_deref())?;
        if ![Method::GET, Method::HEAD].contains(&parts.method) {
            return Ok(not_allowed("GET", "Metrics are read with GET."));
        }
        let (metrics, store) = (self.inner.watch.metrics(), self.inner.server.store());
        let upstreams = || self.inner.gateway.upstreams();
        let rendered = metrics.render(store, upstreams).await;
        let text = rendered.map_err(|_| {
            let why = "The metrics cannot be written down; report this as a bug.";
            Refused(StatusCode::INTERNAL_SERVER_ERROR, why.into())
        })?;
        let mut response = Response::new(full(text));
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static(metrics::CONTENT_TYPE),
        );
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    async fn records(&self, parts: &Parts, body: Body) -> Result<Response<Body>, Refused> {
        guard::may_ask(parts, &self.inner.names, self.inner.token.as_deref())?;
        if parts.uri.path() == "/api/deferred" {
            return self.deferred(parts).await;
        }
        let path = parts
            .uri
            .path()
            .strip_prefix("/api/records")
            .ok_or_else(not_found)?;
        let path: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (&parts.method, path.as_slice()) {
            (&Method::GET, [""]) => self.list(&parts.uri).await,
            (&Method::GET, [id]) => self.show(id).await,
            (&Method::POST, [id, "resolve"]) => {
                guard::may_change(parts)?;
                self.resolve(id, collect(body).await?).await
            }
            (&Method::POST, [id, "release"]) => {
                guard::may_change(parts)?;
                self.release(id).await
            }
            (_, [_]) => Ok(not_allowed("GET", SETTLED)),
            (_, [_, "resolve" | "release"]) => Ok(not_allowed("POST", SETTLED)),
            _ => Err(not_found()),
        }
    }

    /// What the queue keeps.
    async fn deferred(&self, parts: &Parts) -> Result<Response<Body>, Refused> {
        if parts.method != Method::GET {
            let how = "The queue is read with GET; `steadfast deferred` changes it.";
            return Ok(not_allowed("GET", how));
        }
        let mut limit = PAGE;
        for (name, value) in query(parts.uri.query().unwrap_or_default()) {
            let asked = value
                .parse()
                .ok()
                .filter(|asked| (1..=PAGE_MAX).contains(asked));
            limit = asked.filter(|_| name == "limit").ok_or_else(|| {
                let why = format!("Write limit=N, from 1 to {PAGE_MAX}, and nothing else.");
                Refused(StatusCode::BAD_REQUEST, why)
            })?;
        }
        let store = self.inner.server.store();
        let rows = list_queued(&**store, limit).await.map_err(failed)?;
        let rows: Vec<Value> = rows.iter().map(queued).collect();
        Ok(json_response(StatusCode::OK, &Value::Array(rows)))
    }

    async fn list(&self, uri: &Uri) -> Result<Response<Body>, Refused> {
        let mut scan = Scan {
            limit: PAGE,
            ..Scan::default()
        };
        for (name, value) in query(uri.query().unwrap_or_default()) {
            self.narrow(&mut scan, &name, &value).await?;
        }
        let page = self.inner.server.store().scan(scan).await.map_err(failed)?;
        for why in page.unreadable {
            tracing::error!(reason = why.to_string(), "a stored record cannot be read");
        }
        let rows: Vec<Value> = page.rows.iter().map(status::record).collect();
        Ok(json_response(StatusCode::OK, &Value::Array(rows)))
    }

    async fn narrow(&self, scan: &mut Scan, name: &str, value: &str) -> Result<(), Refused> {
        let wrong = |reason: String| Refused(StatusCode::BAD_REQUEST, reason);
        match name {
            "state" => {
                let states = State::ALL.map(State::as_str).join(", ");
                let known = State::parse(value);
                scan.state = Some(known.ok_or_else(|| {
                    wrong(format!(
                        "state={value} is no state. The states are {states}."
                    ))
                })?);
            }
            "older_than" => {
                let length = humantime::parse_duration(value).map_err(|_| {
                    wrong(format!(
                        "older_than={value} is no length. Write one with its unit, as 10m."
                    ))
                })?;
                let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
                let now = self.inner.server.store().now().await.map_err(failed)?;
                let before = now.unix_ms().saturating_sub(length_ms);
                scan.updated_before = Some(steadfast_core::time::WallTime::from_unix_ms(before));
            }
            "limit" => {
                let limit = value.parse().ok().filter(|n| (1..=PAGE_MAX).contains(n));
                scan.limit = limit.ok_or_else(|| {
                    wrong(format!(
                        "limit={value} is not a whole number from 1 to {PAGE_MAX}."
                    ))
                })?;
            }
            other => {
                return Err(wrong(format!(
                    "{other} is no filter. The filters are state, older_than and limit."
                )));
            }
        }
        Ok(())
    }

    async fn show(&self, id: &str) -> Result<Response<Body>, Refused> {
        let row = self.row(id).await?;
        Ok(json_response(
            StatusCode::OK,
            &status::record_with_history(&row),
        ))
    }

    async fn resolve(&self, id: &str, body: Bytes) -> Result<Response<Body>, Refused> {
        let answer = read_answer(&body).map_err(|why| Refused(StatusCode::BAD_REQUEST, why))?;
        let seen = self.row(id).await?;
        let store = self.inner.server.store();
        settled(operate::resolve(&**store, &seen, answer, "operator (admin)").await)
    }

    async fn release(&self, id: &str) -> Result<Response<Body>, Refused> {
        let seen = self.row(id).await?;
        let store = self.inner.server.store();
        settled(operate::release(&**store, &seen, "operator (admin)").await)
    }

    async fn row(&self, id: &str) -> Result<Record, Refused> {
        let row = self.inner.server.store().by_id(parse_id(id)?).await;
        row.map_err(failed)?.ok_or_else(not_found)
    }
}

fn settled(done: Result<Record, NotDone>) -> Result<Response<Body>, Refused> {
    match done {
        Ok(row) => Ok(json_response(
            StatusCode::OK,
            &status::record_with_history(&row),
        )),
        Err(NotDone::Absent) => Err(not_found()),
        Err(NotDone::Store(error)) => Err(failed(error)),
        Err(refused) => Err(Refused(
            StatusCode::CONFLICT,
            sentence(&refused.to_string()),
        )),
    }
}

async fn collect(body: Body) -> Result<Bytes, Refused> {
    admission::collect(body, BODY_MAX_BYTES)
        .await
        .map_err(|problem| match problem.slug {
            Slug::BodyTooLarge => {
                let why = format!("An act may have {BODY_MAX_BYTES} bytes. Send a smaller answer.");
                Refused(problem.status, why)
            }
            _ => Refused(
                problem.status,
                "The request did not come to its end, so nothing was done. Send it again.".into(),
            ),
        })
}

fn parse_id(id: &str) -> Result<OperationId, Refused> {
    OperationId::parse(id).ok_or_else(not_found)
}

fn query(query: &str) -> Vec<(String, String)> {
    let decode = |part: &str| {
        let spaced = part.replace('+', " ");
        percent_encoding::percent_decode_str(&spaced)
            .decode_utf8_lossy()
            .into_owned()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

/// A refusal of the admin address: its status and why, with the next step.
struct Refused(StatusCode, String);

impl Refused {
    fn into_response(self) -> Response<Body> {
        let body = json!({ "status": self.0.as_u16(), "detail": self.1 });
        let mut response = json_response(self.0, &body);
        if self.0 == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

const SETTLED: &str = "Records are read with GET, and settled with POST to …/resolve or \
                       …/release.";

/// 405, with the one method that is allowed.
fn not_allowed(method: &'static str, why: &str) -> Response<Body> {
    let refused = Refused(StatusCode::METHOD_NOT_ALLOWED, why.into());
    let mut response = refused.into_response();
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(method));
    response
}

fn not_found() -> Refused {
    let why = "There is no such thing here. Records are at /api/records and /api/records/{id}.";
    Refused(StatusCode::NOT_FOUND, why.into())
}

fn no_answer() -> Refused {
    let why = format!(
        "The record store gave no answer within {} s, and what was asked may still be done. Look \
         at the record before asking again.",
        ANSWER.as_secs()
    );
    Refused(StatusCode::SERVICE_UNAVAILABLE, why)
}

fn failed(error: StoreError) -> Refused {
    Refused(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("{}.", sentence(&error.to_string())),
    )
}

/// A clause as the beginning of a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(full(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
