//! One look-up or one compensation: the turn for it, the exchange, and what is written down.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use steadfast_core::attempt::AttemptEnd;
use steadfast_core::deadline::Deadline;
use steadfast_core::lookup::{Compensate, Lookup, pause_after};
use steadfast_core::policy::RoutePolicy;
use steadfast_core::principal::PrincipalRule;
use steadfast_core::record::{self, Compensated, Looked, Owner, Record, Seen};
use steadfast_core::replay;
use steadfast_core::time::WallTime;
use steadfast_core::upstream::Sends;

use crate::attempts::SharedUpstream;
use crate::clock;
use crate::server::answer::next_chunk;
use crate::server::execute::{AttemptNumber, Execute, Failed};
use crate::server::routes::Routed;
use crate::server::work::bounded;
use crate::server::{Asked, Server};
use crate::store::{Op, StoreError, Written};

/// Rounds of writing down what came of it: each means that the row changed meanwhile.
const ROUNDS_MAX: u32 = 16;

/// Who asks without a caller, as histories name it.
const SWEEPER: &str = "sweeper";

/// What a turn takes beyond its exchange: the store's writes before and after it.
const WRITES: Duration = Duration::from_secs(5);

/// What came of a turn.
pub(in crate::server) enum Turn {
    /// It is over; what stands may be new.
    Ended,
    /// There was nothing that could be asked, or no store to write it down.
    NotAsked,
    /// Somebody else's it is: the row.
    Others(Box<Record>),
}

/// Who asks, where, and with what.
pub(in crate::server) struct Asker<E> {
    server: Server,
    policy: Arc<RoutePolicy>,
    execute: E,
    by: &'static str,
    /// The credential of the caller that is present.
    caller: HeaderMap,
}

/// A whole answer.
struct Heard {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl<E: Execute> Asker<E> {
    /// By the request that came, under its own credential where the route has none.
    pub(super) fn of_caller(server: &Server, asked: &Asked, execute: E) -> Asker<E> {
        Asker {
            server: server.clone(),
            policy: Arc::clone(&asked.policy),
            execute,
            by: "caller",
            caller: credential(asked),
        }
    }

    /// Without a caller.
    pub(super) fn of_settler(server: &Server, routed: Routed<E>) -> Asker<E> {
        Asker {
            server: server.clone(),
            policy: routed.policy,
            execute: routed.execute,
            by: SWEEPER,
            caller: HeaderMap::new(),
        }
    }

    /// Asks for the outcome of `row`.
    pub(super) async fn look_up(&self, row: Record) -> Turn {
        let Some(lookup) = self.policy.idempotency.lookup.clone() else {
            return Turn::NotAsked;
        };
        let (row, token) = match self.turn(row, record::ask).await {
            Ok(turn) => turn,
            Err(turn) => return turn,
        };
        let heard = match self.question(&lookup, &row) {
            Ok(request) => self.exchange(request).await,
            Err(why) => Err(why),
        };
        let (seen, detail) = match heard {
            Ok(heard) => lookup.read(heard.status, &heard.headers, &heard.body),
            Err(why) => (Seen::Unclear, why),
        };
        tracing::info!(
            operation = %row.id, by = self.by, seen = detail,
            "an unknown outcome was looked up"
        );
        let looked = Looked {
            seen,
            detail,
            by: self.by.to_owned(),
            settle: lookup.settle,
            pause: pause_after(row.standing.pending.steps),
        };
        let next = |row: &Record, now| record::looked(row, token, &looked, now);
        self.write(row, next).await
    }

    /// Undoes what `row` may have done.
    pub(super) async fn compensate(&self, row: Record) -> Turn {
        let Some(undo) = self.policy.idempotency.compensate.clone() else {
            return Turn::NotAsked;
        };
        let (row, token) = match self.turn(row, record::compensate).await {
            Ok(turn) => turn,
            Err(turn) => return turn,
        };
        let heard = match self.undoing(&undo, &row) {
            Ok(request) => self.exchange(request).await,
            Err(why) => Err(why),
        };
        let (done, detail) = match heard {
            Ok(heard) => {
                let done = Some(heard.status).filter(StatusCode::is_success);
                (done, format!("status {}", heard.status.as_u16()))
            }
            Err(why) => (None, why),
        };
        let is_done = done.is_some();
        tracing::warn!(
            operation = %row.id, is_done, seen = detail,
            "an operation of unknown outcome was compensated for"
        );
        let end = Compensated {
            done,
            detail,
            pause: pause_after(row.standing.pending.steps),
        };
        let next = |row: &Record, now| record::compensated(row, token, &end, now);
        self.write(row, next).await
    }

    /// Takes the turn to ask, durably: one at a time, over all processes.
    async fn turn(
        &self,
        mut row: Record,
        take: impl Fn(&Record, Owner, Duration, WallTime) -> Option<Record>,
    ) -> Result<(Record, Owner), Turn> {
        let token = self.server.owner();
        let lease = self.limit() + WRITES;
        for _ in 0..ROUNDS_MAX {
            let now = self.timely(self.server.store().now()).await;
            let now = now.map_err(|_| Turn::NotAsked)?;
            let Some(next) = take(&row, token, lease, now) else {
                return Err(match record::asker(&row, now) {
                    Some(_) => Turn::Others(Box::new(row)),
                    None => Turn::Ended,
                });
            };
            match self.replace(&row, next).await {
                Ok(Written::Done(stands)) => return Ok((*stands, token)),
                Ok(Written::Stands(stands)) => {
                    let asker = stands.standing.pending.asking.as_ref();
                    if asker.is_some_and(|asker| asker.by == token) {
                        return Ok((*stands, token));
                    }
                    // Without a caller what is due is decided anew.
                    if self.by == SWEEPER || stands.standing.fence != row.standing.fence {
                        return Err(Turn::Ended);
                    }
                    row = *stands;
                }
                Ok(Written::Gone) => return Err(Turn::Ended),
                Err(_) => return Err(Turn::NotAsked),
            }
        }
        Err(Turn::NotAsked)
    }

    /// Writes down what came of it, over what stands, as far as the turn still counts. Where the
    /// store takes it not, the turn ends with its lease, and the next one asks again.
    async fn write(
        &self,
        mut row: Record,
        next: impl Fn(&Record, WallTime) -> Option<Record>,
    ) -> Turn {
        for _ in 0..ROUNDS_MAX {
            let Ok(now) = self.timely(self.server.store().now()).await else {
                return Turn::NotAsked;
            };
            let Some(next) = next(&row, now) else {
                return Turn::Ended;
            };
            match self.replace(&row, next).await {
                Ok(Written::Stands(stands)) => row = *stands,
                Ok(Written::Done(_) | Written::Gone) => return Turn::Ended,
                Err(_) => return Turn::NotAsked,
            }
        }
        Turn::NotAsked
    }

    async fn replace(&self, row: &Record, next: Record) -> Result<Written, StoreError> {
        let op = Op::Replace {
            next: Box::new(next.clone()),
            guard: row.guard(),
            draw: false,
        };
        let end = self.timely(self.server.store().apply(op)).await?;
        Ok(Written::of(&next, end))
    }

    async fn timely<T>(
        &self,
        ask: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.policy.idempotency.store_timeout;
        clock::within(limit, ask).await.unwrap_or_else(|_| {
            let why = "it gave no answer within store_timeout; see whether it is overloaded";
            Err(StoreError::Unavailable(why.to_owned()))
        })
    }

    fn question(&self, lookup: &Lookup, row: &Record) -> Result<Request<Bytes>, String> {
        let path = lookup.path.path_of(row).map_err(|why| why.to_string())?;
        let own = lookup.headers.as_ref().unwrap_or(&self.caller);
        request(&lookup.method, &path, own.clone(), Bytes::new())
    }

    fn undoing(&self, undo: &Compensate, row: &Record) -> Result<Request<Bytes>, String> {
        let path = undo.path.path_of(row).map_err(|why| why.to_string())?;
        let body = match &undo.body {
            Some(body) => body.json_of(row).map_err(|why| why.to_string())?,
            None => String::new(),
        };
        let mut headers = undo.headers.clone();
        if undo.body.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.entry(header::CONTENT_TYPE).or_insert(json);
        }
        let rules = &self.policy.idempotency;
        let key = Compensate::key(row).ok_or("its key cannot be made")?;
        headers.insert(rules.header.clone(), key.forward(rules.forward_as));
        request(&undo.method, &path, headers, body.into())
    }

    /// The route's limits of one attempt.
    fn limit(&self) -> Duration {
        self.policy.deadline.min(self.policy.timeouts.attempt)
    }

    /// Sends once, and takes the whole answer; else why there is none.
    async fn exchange(&self, request: Request<Bytes>) -> Result<Heard, String> {
        let limit = self.limit();
        let deadline = Deadline::after(clock::mono_now(), limit);
        let leave = match self.execute.upstream() {
            Some(upstream) => Some(self.leave(upstream, limit)?),
            None => None,
        };
        let told = |failed: &Failed| AttemptEnd::Failed(failed.failure);
        let exchange = async {
            let prepare = pin!(self.execute.prepare(deadline));
            let ready = bounded(&self.server, deadline, prepare).await?;
            let run = pin!(self.execute.run(ready, request, deadline));
            let executed = bounded(&self.server, deadline, run).await?;
            let written = executed.request_written;
            let (head, mut body) = executed.response.into_parts();
            let mut whole = BytesMut::new();
            let most = self.policy.response_limit;
            while let Some(chunk) =
                bounded(&self.server, deadline, pin!(next_chunk(&mut body))).await?
            {
                whole.extend_from_slice(&chunk);
                if whole.len() > most {
                    return Ok((
                        Err("an answer above response_limit".to_owned()),
                        head,
                        written,
                    ));
                }
            }
            Ok((Ok(whole.freeze()), head, written))
        };
        let ended: Result<_, Failed> = exchange.await;
        match ended {
            Ok((body, head, written)) => {
                let read = replay::read(head.status, &head.headers, None, written);
                if let Some(leave) = leave {
                    leave.ended(&AttemptEnd::Answered(read), false);
                }
                Ok(Heard {
                    status: head.status,
                    headers: head.headers,
                    body: body?,
                })
            }
            Err(failed) => {
                let end = told(&failed);
                if let Some(leave) = leave {
                    leave.ended(&end, false);
                }
                Err(format!("no answer ({})", end.slug()))
            }
        }
    }

    fn leave(
        &self,
        upstream: &SharedUpstream,
        limit: Duration,
    ) -> Result<crate::attempts::Leave, String> {
        let shut = |_| "not sent: the breaker is open".to_owned();
        let mut leave = upstream.admit(Sends::First, limit).map_err(shut)?;
        let refused = |_| "not sent: the budget is spent".to_owned();
        leave.pay().map_err(refused)?;
        Ok(leave)
    }
}

fn request(
    method: &Method,
    path: &str,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Bytes>, String> {
    let uri: Uri = path.parse().map_err(|_| "its path is none".to_owned())?;
    let mut request = Request::new(body);
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    let identity = HeaderValue::from_static("identity");
    request
        .headers_mut()
        .insert(header::ACCEPT_ENCODING, identity);
    request.extensions_mut().insert(AttemptNumber(1));
    Ok(request)
}

/// The fields by which the caller shows who it is.
fn credential(asked: &Asked) -> HeaderMap {
    let rule = PrincipalRule::parse(&asked.rule).ok();
    let named = rule.as_ref().and_then(PrincipalRule::guarded_field);
    let names: [Option<&HeaderName>; 3] =
        [Some(&header::AUTHORIZATION), Some(&header::COOKIE), named];
    let mut fields = HeaderMap::new();
    for name in names.into_iter().flatten() {
        for value in asked.parts.headers.get_all(name) {
            fields.append(name.clone(), value.clone());
        }
    }
    fields
}
