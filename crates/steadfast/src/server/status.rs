//! Records as JSON: what a caller may see of its own operation, and what an operator sees. And the
//! address at which callers ask.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use steadfast_core::key::ScopeHash;
use steadfast_core::principal::PrincipalRule;
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::record::{Answer, OperationId, Record, State, may_be_learnt};
use steadfast_core::time::WallTime;

use super::{Principal, Server, reply};
use crate::body::Body;
use crate::clock;
use crate::store::StoreError;

/// Where the state of an operation is asked: this, and its id; with `/response` behind it, its
/// answer.
pub const OPERATIONS: &str = "/.steadfast/operations/";

/// How long the state of an operation is looked up: as long as a keyed request asks the store.
const LIMIT: Duration = Duration::from_secs(2);

/// What the status address says (docs/reference.md).
pub fn operation(row: &Record) -> Value {
    json!({
        "operation_id": row.id.to_string(),
        "state": row.standing.state.as_str(),
        "effect": row.standing.effect.as_str(),
        "status": status(row),
        "created_at": row.created_at.rfc3339(),
        "expires_at": date(row.standing.expires_at),
    })
}

/// A record, as `keys list` and `/api/records` give it (docs/reference.md).
pub fn record(row: &Record) -> Value {
    json!({
        "id": row.id.to_string(),
        "tenant": row.tenant.as_str(),
        "operation": row.operation.to_string(),
        "state": row.standing.state.as_str(),
        "effect": row.standing.effect.as_str(),
        "fence": row.standing.fence,
        "owner": row.standing.owner.to_string(),
        "attempts": row.standing.attempts,
        "status": status(row),
        "created_at": row.created_at.rfc3339(),
        "updated_at": row.updated_at.rfc3339(),
        "locked_until": date(row.standing.locked_until),
        "expires_at": date(row.standing.expires_at),
    })
}

/// The same with its history, as `keys show` gives it.
pub fn record_with_history(row: &Record) -> Value {
    let mut value = record(row);
    let history: Vec<Value> = row
        .history
        .iter()
        .map(|event| {
            json!({
                "at": event.at.rfc3339(),
                "event": event.event,
                "by": event.by,
                "detail": event.detail,
            })
        })
        .collect();
    if let Value::Object(members) = &mut value {
        let members: &mut Map<String, Value> = members;
        members.insert("history".to_owned(), Value::Array(history));
    }
    value
}

/// Whether the operation has come to rest, so that asking again is of no use. An unknown outcome is
/// not at rest: a late holder or an operator may still end it.
pub fn is_final(row: &Record) -> bool {
    matches!(row.standing.state, State::Completed | State::Released)
}

fn status(row: &Record) -> Value {
    match &row.standing.answer {
        Answer::None => Value::Null,
        answer => answer
            .status()
            .map_or(Value::Null, |status| status.as_u16().into()),
    }
}

fn date(at: Option<WallTime>) -> Value {
    at.map_or(Value::Null, |at| at.rfc3339().into())
}

/// The status address: answers `method` on `path`, the whole path of the request, for the caller
/// who made the operation and for nobody else. `asks` says who asks by the rule that the record was
/// made under ([`Principal::rule`]); `None` where it cannot tell.
///
/// GET and HEAD of [`OPERATIONS`] and an id give the state of the operation, with `Retry-After`
/// while it is not final; of the same and `/response` its stored answer, or 409 `in-progress`,
/// `outcome-unknown` or `response-not-stored`. Any other method is 405, whatever the id.
///
/// # Errors
/// `operation-not-found`, the same for an id that is missing, malformed, expired or another's: each
/// takes the same calls to the store, so that not even the time tells them apart (S1).
/// `store-unavailable` where the store gave no answer.
pub async fn serve(
    server: &Server,
    method: &Method,
    path: &str,
    asks: impl FnOnce(&str) -> Option<Principal>,
) -> Result<Response<Body>, Problem> {
    let rest = path.strip_prefix(OPERATIONS);
    if rest.is_some() && !matches!(*method, Method::GET | Method::HEAD) {
        return Ok(not_allowed(method));
    }
    let rest = rest.unwrap_or_default();
    let (id, wants_answer) = match rest.strip_suffix("/response") {
        Some(id) => (id, true),
        None => (rest, false),
    };
    let looked = clock::within(LIMIT, look(server, OperationId::parse(id))).await;
    let Ok(Ok(row)) = looked else {
        let detail = "The record store gave no answer. Ask again.";
        return Err(Problem::new(Slug::StoreUnavailable, detail));
    };
    // Who asks is found out and hashed also where there is nothing to compare it with.
    let usual = PrincipalRule::default().to_string();
    let rule = row.as_ref().map_or(&usual, |row| &row.principal_rule);
    let asks = asks(rule).map(|asks| server.tenant(&asks));
    match row.filter(|row| asks.is_some_and(|tenant| tenant == row.tenant)) {
        Some(row) if wants_answer => Ok(answer(&row)),
        Some(row) => Ok(response(&row)),
        None => Err(not_found()),
    }
}

/// The live row with this id. The same calls, whatever there is to be found.
async fn look(server: &Server, id: Option<OperationId>) -> Result<Option<Record>, StoreError> {
    let nobody_s = || {
        OperationId::new(
            &ScopeHash::from_bytes(clock::random()),
            clock::random_bits(),
        )
    };
    let row = server.store().by_id(id.unwrap_or_else(nobody_s)).await?;
    // A store that does not tell its date ends nothing.
    let now = server.store().now().await.ok();
    let is_gone = |row: &Record| now.is_some_and(|now| server.is_expired(row, now));
    Ok(row.filter(|row| Some(row.id) == id && !is_gone(row)))
}

fn not_found() -> Problem {
    let detail =
        "There is no such operation of this caller. Check the address and the credentials.";
    Problem::new(Slug::OperationNotFound, detail)
}

/// 405, with what is allowed (RFC 9110, 15.5.6).
fn not_allowed(method: &Method) -> Response<Body> {
    let detail = format!(
        "The status address takes no {method}: it is only read, and nothing was done. Send GET or \
         HEAD."
    );
    let problem = Problem::new(Slug::BadRequest, detail);
    let mut response = reply::problem(&problem.with_status(StatusCode::METHOD_NOT_ALLOWED));
    let allow = HeaderValue::from_static("GET, HEAD");
    response.headers_mut().insert(header::ALLOW, allow);
    response
}

/// The state of an operation, as the status address gives it.
fn response(row: &Record) -> Response<Body> {
    let mut headers = HeaderMap::new();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if !is_final(row) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply::whole(StatusCode::OK, headers, operation(row).to_string().into())
}

/// The stored answer of an operation, where there is one: 409 `in-progress`, `outcome-unknown` or
/// `response-not-stored` where there is none. What is not final says when to ask again.
fn answer(row: &Record) -> Response<Body> {
    if row.is_held() || row.standing.state == State::Deferred {
        return reply::problem(&reply::in_progress(row.id));
    }
    let standing = &row.standing;
    let repeats = may_be_learnt(standing, standing.on_unknown);
    match (standing.state, &standing.answer) {
        (State::Released, Answer::None) => {
            reply::problem(&reply::not_stored(row.id, standing, None))
        }
        (State::Unknown, Answer::None) => {
            reply::problem(&reply::unknown(row.id, repeats).retry_after(1))
        }
        _ => reply::settled(row.id, standing, repeats),
    }
}
