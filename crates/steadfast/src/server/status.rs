//! Records as JSON: what a caller may see of its own operation, and what an operator sees.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use steadfast_core::record::{Answer, Record, State, may_be_learnt};
use steadfast_core::time::WallTime;

use super::reply;
use crate::body::Body;

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

/// The answer of the status address.
pub fn response(row: &Record) -> Response<Body> {
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
/// `response-not-stored` where there is none.
pub fn answer(row: &Record) -> Response<Body> {
    if row.is_held() || row.standing.state == State::Deferred {
        return reply::problem(&reply::in_progress(row.id));
    }
    match (&row.standing.state, &row.standing.answer) {
        (State::Released, Answer::None) => {
            reply::problem(&reply::not_stored(row.id, &row.standing, None))
        }
        _ => {
            let standing = &row.standing;
            let repeats = may_be_learnt(standing, standing.on_unknown);
            reply::settled(row.id, standing, repeats)
        }
    }
}
