//! What the queue keeps, as an operator sees it: no field's value and no body.

use serde_json::{Value, json};
use steadfast_core::record::{Record, State};
use steadfast_core::time::WallTime;

use crate::server::status;
use crate::store::{Scan, Store, StoreError};

/// States in which a record may be in the queue, or be sent from it.
const STATES: [State; 4] = [
    State::Deferred,
    State::Reserved,
    State::Dispatched,
    State::Unknown,
];

/// Rows of one page.
const PAGE: u32 = 256;

/// What the queue keeps, up to `limit` operations: those that wait first, the oldest first.
///
/// # Errors
/// The store's.
pub async fn list_queued(store: &dyn Store, limit: u32) -> Result<Vec<Record>, StoreError> {
    let mut rows = Vec::new();
    for state in STATES {
        let mut scan = Scan {
            state: Some(state),
            limit: PAGE,
            ..Scan::default()
        };
        loop {
            let page = store.scan(scan.clone()).await?;
            let kept = page.rows.into_iter().filter(|row| row.request().is_some());
            rows.extend(kept);
            if rows.len() >= limit as usize {
                rows.truncate(limit as usize);
                return Ok(rows);
            }
            let Some(next) = page.next else { break };
            scan.after = Some(next);
        }
    }
    Ok(rows)
}

/// An operation in the queue, as `deferred list` and `/api/deferred` give it
/// (docs/reference.md).
pub fn queued(row: &Record) -> Value {
    let date = |at: Option<WallTime>| at.map_or(Value::Null, |at| at.rfc3339().into());
    let standing = &row.standing;
    let reason = Some(&standing.reason).filter(|reason| !reason.is_empty());
    let request = row.request();
    json!({
        "id": row.id.to_string(),
        "tenant": row.tenant.as_str(),
        "operation": row.operation.to_string(),
        "state": standing.state.as_str(),
        "effect": standing.effect.as_str(),
        "runs": standing.pending.steps,
        "attempts": standing.attempts,
        "next": date(row.due_at()),
        "reason": reason,
        "to": request.and_then(|request| request.to.as_deref()),
        "body_bytes": request.map(|request| request.body.len()),
        "created_at": row.created_at.rfc3339(),
        "give_up_at": date(request.map(|request| request.give_up_at)),
    })
}

/// The same with its history.
pub fn queued_with_history(row: &Record) -> Value {
    let mut value = queued(row);
    value["history"] = status::record_with_history(row)["history"].take();
    value
}
