//! A record's columns in SQL: their order, as arrays on the way in, and as a row on the way out.

use std::borrow::Cow;

use steadfast_core::record::Record;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use super::error::Fault;
use super::link::Parameter;
use crate::store::StoreError;
use crate::store::codec::{self, Columns};

/// All columns of `records` but `n` and `fence`, in the order of [`arrays`], with their types.
pub(super) const COLUMNS: [(&str, &str); 30] = [
    ("scope", "bytea"),
    ("id", "bytea"),
    ("body", "bytea"),
    ("body_before", "bytea"),
    ("body_kept", "bytea"),
    ("tenant", "text"),
    ("principal_rule", "text"),
    ("operation", "text"),
    ("key", "text"),
    ("state", "text"),
    ("effect", "text"),
    ("owner", "text"),
    ("fingerprint", "text"),
    ("answer", "text"),
    ("reason", "text"),
    ("on_unknown", "text"),
    ("details", "text"),
    ("created_at", "bigint"),
    ("updated_at", "bigint"),
    ("version", "bigint"),
    ("ambiguous", "bigint"),
    ("honours_key", "bigint"),
    ("attempts", "bigint"),
    ("lease_ms", "bigint"),
    ("retention_ms", "bigint"),
    ("status", "bigint"),
    ("locked_until", "bigint"),
    ("final_at", "bigint"),
    ("expires_at", "bigint"),
    ("due_at", "bigint"),
];

/// One column of many rows.
pub(super) enum Array<'a> {
    Bytes(Vec<Option<&'a [u8]>>),
    Text(Vec<&'a str>),
    Whole(Vec<Option<i64>>),
}

impl Array<'_> {
    pub(super) fn parameter(&self) -> Parameter<'_> {
        match self {
            Array::Bytes(all) => (all as &(dyn ToSql + Sync), Type::BYTEA_ARRAY),
            Array::Text(all) => (all, Type::TEXT_ARRAY),
            Array::Whole(all) => (all, Type::INT8_ARRAY),
        }
    }
}

/// The columns of `record` as they are written here.
pub(super) fn encode(record: &Record) -> Columns<'_> {
    let mut columns = codec::encode(record);
    columns.reason = escaped(columns.reason);
    columns
}

/// The columns of `rows`, one array each, in the order of [`COLUMNS`].
pub(super) fn arrays<'a>(rows: &'a [Columns<'a>]) -> Vec<Array<'a>> {
    let bytes =
        |of: fn(&'a Columns<'a>) -> Option<&'a [u8]>| Array::Bytes(rows.iter().map(of).collect());
    let text = |of: fn(&'a Columns<'a>) -> &'a str| Array::Text(rows.iter().map(of).collect());
    let whole =
        |of: fn(&'a Columns<'a>) -> Option<i64>| Array::Whole(rows.iter().map(of).collect());
    vec![
        bytes(|c| Some(&c.scope)),
        bytes(|c| Some(&c.id)),
        bytes(|c| c.body.as_deref()),
        bytes(|c| c.body_before.as_deref()),
        bytes(|c| c.body_kept.as_deref()),
        text(|c| &c.tenant),
        text(|c| &c.principal_rule),
        text(|c| &c.operation),
        text(|c| &c.key),
        text(|c| &c.state),
        text(|c| &c.effect),
        text(|c| &c.owner),
        text(|c| &c.fingerprint),
        text(|c| &c.answer),
        text(|c| &c.reason),
        text(|c| &c.on_unknown),
        text(|c| &c.details),
        whole(|c| Some(c.created_at)),
        whole(|c| Some(c.updated_at)),
        whole(|c| Some(c.version)),
        whole(|c| Some(c.ambiguous)),
        whole(|c| Some(c.honours_key)),
        whole(|c| Some(c.attempts)),
        whole(|c| Some(c.lease)),
        whole(|c| Some(c.retention)),
        whole(|c| c.status),
        whole(|c| c.locked_until),
        whole(|c| c.final_at),
        whole(|c| c.expires_at),
        whole(|c| c.due_at),
    ]
}

/// Whole rows; `rest` goes on after `FROM steadfast.records r`.
pub(super) fn select(rest: &str) -> String {
    let names: Vec<String> = COLUMNS
        .iter()
        .map(|(name, _)| format!("r.{name}"))
        .collect();
    let names = names.join(", ");
    format!("SELECT {names}, r.fence, r.n FROM steadfast.records r {rest}")
}

/// The record of a row of [`select`], and its `n`.
pub(super) fn read(row: &Row) -> Result<(Record, i64), StoreError> {
    let id = row.try_get::<_, &[u8]>(1).unwrap_or_default();
    let columns = columns(row).map_err(|error| unreadable(id, &error.to_string()))?;
    let record = codec::decode(columns).map_err(|why| unreadable(id, &why.to_string()))?;
    let n = number(row).map_err(|error| unreadable(id, &error.to_string()))?;
    Ok((record, n))
}

/// The `n` of a row of [`select`].
pub(super) fn number(row: &Row) -> Result<i64, Error> {
    row.try_get(COLUMNS.len() + 1)
}

/// The first rows, and which of them cannot be read.
pub(super) fn read_all(rows: &[Row]) -> Result<(Vec<Record>, Vec<String>), Fault> {
    let (mut read_rows, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        // One spoilt row must not hide all others from whoever has to find it.
        match read(row) {
            Ok((record, _)) => read_rows.push(record),
            Err(StoreError::Unreadable(why)) => unreadable.push(why),
            Err(error) => return Err(Fault::Store(error)),
        }
    }
    Ok((read_rows, unreadable))
}

fn unreadable(id: &[u8], why: &str) -> StoreError {
    let name = codec::id(id).map_or_else(|| "without an id".to_owned(), |id| id.to_string());
    StoreError::Unreadable(format!(
        "record {name}: {why}; it is never executed again, restore it from a backup"
    ))
}

fn columns(row: &Row) -> Result<Columns<'_>, Error> {
    let text = |at: usize| row.try_get::<_, &str>(at).map(Cow::Borrowed);
    let bytes = |at: usize| row.try_get::<_, &[u8]>(at).map(Cow::Borrowed);
    let body = |at: usize| {
        let body = row.try_get::<_, Option<&[u8]>>(at);
        body.map(|body| body.map(Cow::Borrowed))
    };
    Ok(Columns {
        scope: bytes(0)?,
        id: bytes(1)?,
        body: body(2)?,
        body_before: body(3)?,
        body_kept: body(4)?,
        tenant: text(5)?,
        principal_rule: text(6)?,
        operation: text(7)?,
        key: text(8)?,
        state: text(9)?,
        effect: text(10)?,
        owner: text(11)?,
        fingerprint: text(12)?,
        answer: text(13)?,
        reason: unescaped(row.try_get(14)?),
        on_unknown: text(15)?,
        details: text(16)?,
        created_at: row.try_get(17)?,
        updated_at: row.try_get(18)?,
        version: row.try_get(19)?,
        ambiguous: row.try_get(20)?,
        honours_key: row.try_get(21)?,
        attempts: row.try_get(22)?,
        lease: row.try_get(23)?,
        retention: row.try_get(24)?,
        status: row.try_get(25)?,
        locked_until: row.try_get(26)?,
        final_at: row.try_get(27)?,
        expires_at: row.try_get(28)?,
        due_at: row.try_get(29)?,
        fence: row.try_get(30)?,
    })
}

/// PostgreSQL's text holds no zero.
fn escaped(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.contains(['\\', '\0']) {
        false => text,
        true => Cow::Owned(text.replace('\\', "\\\\").replace('\0', "\\0")),
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut whole = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => whole.extend(letters.next().map(|l| if l == '0' { '\0' } else { l })),
            letter => whole.push(letter),
        }
    }
    Cow::Owned(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_zeros_and_backslashes_comes_back() {
        for text in ["", "plain", "\0", "\\", "\\0", "a\0\\\\0\0b", "\\\0"] {
            let written = escaped(Cow::Borrowed(text));
            assert!(!written.contains('\0'), "{text:?}");
            assert_eq!(unescaped(&written), text);
        }
    }
}
