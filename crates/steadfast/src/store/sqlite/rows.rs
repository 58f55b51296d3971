//! A record's columns in SQL: their order, and both ways.

use std::borrow::Cow;

use rusqlite::types::ValueRef;
use rusqlite::{Params, Row, params_from_iter, types::ToSqlOutput};
use steadfast_core::key::ScopeHash;
use steadfast_core::record::Record;

use crate::store::StoreError;
use crate::store::codec::{self, Columns};

use super::error::store_error;

/// What the unique index holds of a scope hash.
pub(super) const PREFIX: usize = 16;

/// All columns of `records` but `n` and `scope_prefix`, in the order of [`params`] and [`read`].
const COLUMNS: [&str; 29] = [
    "scope",
    "id",
    "tenant",
    "principal_rule",
    "operation",
    "key",
    "created_at",
    "updated_at",
    "version",
    "state",
    "effect",
    "ambiguous",
    "honours_key",
    "attempts",
    "owner",
    "fence",
    "fingerprint",
    "answer",
    "status",
    "reason",
    "on_unknown",
    "lease_ms",
    "retention_ms",
    "locked_until",
    "final_at",
    "expires_at",
    "due_at",
    "keeps_request",
    "details",
];

/// Whole rows, with their bodies; `rest` goes on after `FROM records r …`.
pub(super) fn select(rest: &str) -> String {
    format!(
        "SELECT r.{}, a.body, b.body, q.body, r.n FROM records r \
         LEFT JOIN answers a ON a.n = r.n LEFT JOIN answers_before b ON b.n = r.n \
         LEFT JOIN requests q ON r.keeps_request = 1 AND q.n = r.n {rest}",
        COLUMNS.join(", r.")
    )
}

/// Parameters: the columns, the prefix, `n`. Changes nothing where a row stands under the prefix.
pub(super) fn insert() -> String {
    let marks: Vec<String> = (1..=COLUMNS.len() + 2).map(|at| format!("?{at}")).collect();
    format!(
        "INSERT INTO records ({}, scope_prefix, n) VALUES ({}) \
         ON CONFLICT (scope_prefix) DO NOTHING",
        COLUMNS.join(", "),
        marks.join(", ")
    )
}

/// What of a row another hold of the same operation leaves as it is. These are the columns of the
/// unique indexes: an update that names them writes both indexes anew, each on a page of its own.
const OF_THE_OPERATION: [&str; 2] = ["scope", "id"];

/// Parameters: the columns, the prefix (as it is already), `n`. With `same`, the operation that
/// stands is the one that is written.
pub(super) fn update(same: bool) -> String {
    let sets: Vec<String> = (1..)
        .zip(COLUMNS)
        .filter(|(_, c)| !same || !OF_THE_OPERATION.contains(c))
        .map(|(at, c)| format!("{c} = ?{at}"))
        .collect();
    let prefix = COLUMNS.len() + 1;
    format!(
        "UPDATE records SET {} WHERE n = ?{} AND scope_prefix = ?{prefix}",
        sets.join(", "),
        COLUMNS.len() + 2
    )
}

pub(super) fn prefix(scope: &ScopeHash) -> &[u8] {
    &codec::scope_bytes(scope)[..PREFIX]
}

/// The parameters of [`insert`] and [`update`].
pub(super) fn params<'a>(c: &'a Columns<'a>, n: i64) -> impl Params + 'a {
    fn text(value: &str) -> ValueRef<'_> {
        ValueRef::Text(value.as_bytes())
    }
    fn optional(value: Option<i64>) -> ValueRef<'static> {
        value.map_or(ValueRef::Null, ValueRef::Integer)
    }
    let values: [ValueRef<'a>; COLUMNS.len() + 2] = [
        ValueRef::Blob(&c.scope),
        ValueRef::Blob(&c.id),
        text(&c.tenant),
        text(&c.principal_rule),
        text(&c.operation),
        text(&c.key),
        ValueRef::Integer(c.created_at),
        ValueRef::Integer(c.updated_at),
        ValueRef::Integer(c.version),
        text(&c.state),
        text(&c.effect),
        ValueRef::Integer(c.ambiguous),
        ValueRef::Integer(c.honours_key),
        ValueRef::Integer(c.attempts),
        text(&c.owner),
        ValueRef::Integer(c.fence),
        text(&c.fingerprint),
        text(&c.answer),
        optional(c.status),
        text(&c.reason),
        text(&c.on_unknown),
        ValueRef::Integer(c.lease),
        ValueRef::Integer(c.retention),
        optional(c.locked_until),
        optional(c.final_at),
        optional(c.expires_at),
        optional(c.due_at),
        ValueRef::Integer(i64::from(c.body_kept.is_some())),
        text(&c.details),
        ValueRef::Blob(&c.scope[..PREFIX]),
        ValueRef::Integer(n),
    ];
    params_from_iter(values.map(ToSqlOutput::Borrowed))
}

/// The record of a row of [`select`], and its `n`.
pub(super) fn read(row: &Row<'_>) -> Result<(Record, i64), StoreError> {
    let columns = columns(row).map_err(|error| store_error(&error))?;
    let id = columns.id.to_vec();
    let record = codec::decode(columns).map_err(|why| unreadable(&id, &why.to_string()))?;
    Ok((record, number(row)?))
}

/// The `n` of a row of [`select`].
pub(super) fn number(row: &Row<'_>) -> Result<i64, StoreError> {
    row.get(COLUMNS.len() + 3)
        .map_err(|error| store_error(&error))
}

/// The row under `scope`'s prefix belongs to another scope, or is not what a store writes.
pub(super) fn unreadable(id: &[u8], why: &str) -> StoreError {
    let name = codec::id(id).map_or_else(|| "without an id".to_owned(), |id| id.to_string());
    StoreError::Unreadable(format!(
        "record {name}: {why}; it is never executed again, restore it from a backup"
    ))
}

fn columns<'a>(row: &'a Row<'_>) -> rusqlite::Result<Columns<'a>> {
    let mut at = 0;
    let mut next = || {
        at += 1;
        at - 1
    };
    let text = |at: usize| -> rusqlite::Result<Cow<'a, str>> {
        Ok(Cow::Borrowed(row.get_ref(at)?.as_str()?))
    };
    let blob = |at: usize| -> rusqlite::Result<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(row.get_ref(at)?.as_blob()?))
    };
    let body = |at: usize| -> rusqlite::Result<Option<Cow<'a, [u8]>>> {
        Ok(row.get_ref(at)?.as_blob_or_null()?.map(Cow::Borrowed))
    };
    Ok(Columns {
        scope: blob(next())?,
        id: blob(next())?,
        tenant: text(next())?,
        principal_rule: text(next())?,
        operation: text(next())?,
        key: text(next())?,
        created_at: row.get(next())?,
        updated_at: row.get(next())?,
        version: row.get(next())?,
        state: text(next())?,
        effect: text(next())?,
        ambiguous: row.get(next())?,
        honours_key: row.get(next())?,
        attempts: row.get(next())?,
        owner: text(next())?,
        fence: row.get(next())?,
        fingerprint: text(next())?,
        answer: text(next())?,
        status: row.get(next())?,
        reason: text(next())?,
        on_unknown: text(next())?,
        lease: row.get(next())?,
        retention: row.get(next())?,
        locked_until: row.get(next())?,
        final_at: row.get(next())?,
        expires_at: row.get(next())?,
        due_at: row.get(next())?,
        details: {
            // Whether a request is kept is told by its body.
            next();
            text(next())?
        },
        body: body(next())?,
        body_before: body(next())?,
        body_kept: body(next())?,
    })
}
