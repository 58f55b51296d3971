//! A record as columns and back.
//!
//! Decides how every part of a record is spelled in a store, for all stores at once, and is the
//! only place where the core's types are rebuilt from stored text. It refuses to know tables and
//! files, and to guess: a column that is not what was written is [`Unreadable`], never a panic,
//! never an absent row. Rule: what is decoded equals what was encoded, byte for byte, repeated and
//! non-UTF-8 header values included. Source: ARCHITECTURE.md; requirement I2 (an unreadable
//! record never executes).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use steadfast_core::effect::Effect;
use steadfast_core::fingerprint::{Fingerprint, FingerprintSecret};
use steadfast_core::key::{Key, Operation, ScopeHash, ScopeSecret, Tenant};
use steadfast_core::policy::OnUnknown;
use steadfast_core::record::{Answer, OperationId, Owner, Record, Standing, State, StoredAnswer};
use steadfast_core::time::WallTime;

mod details;
#[cfg(test)]
mod tests;

/// The version of the `details` column. A row with another one is unreadable here.
const DETAILS: u64 = 1;

/// A stored part is not what a store writes. The text names the part and never holds its content
/// (S2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) String);

impl Unreadable {
    fn part(name: &str) -> Unreadable {
        Unreadable(format!("{name} is not what a store writes"))
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One row as plain values. Dates and lengths are whole milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Columns<'a> {
    pub(crate) scope: Cow<'a, [u8]>,
    pub(crate) id: Cow<'a, [u8]>,
    pub(crate) tenant: Cow<'a, str>,
    pub(crate) principal_rule: Cow<'a, str>,
    pub(crate) operation: Cow<'a, str>,
    pub(crate) key: Cow<'a, str>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) version: i64,
    pub(crate) state: Cow<'a, str>,
    pub(crate) effect: Cow<'a, str>,
    pub(crate) ambiguous: i64,
    pub(crate) honours_key: i64,
    pub(crate) attempts: i64,
    pub(crate) owner: Cow<'a, str>,
    pub(crate) fence: i64,
    pub(crate) fingerprint: Cow<'a, str>,
    pub(crate) answer: Cow<'a, str>,
    pub(crate) status: Option<i64>,
    pub(crate) reason: Cow<'a, str>,
    pub(crate) on_unknown: Cow<'a, str>,
    pub(crate) lease: i64,
    pub(crate) retention: i64,
    pub(crate) locked_until: Option<i64>,
    pub(crate) final_at: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    /// Headers, what stood before, history: JSON.
    pub(crate) details: Cow<'a, str>,
    /// The body of the standing answer, and of the answer that stood before.
    pub(crate) body: Option<Cow<'a, [u8]>>,
    pub(crate) body_before: Option<Cow<'a, [u8]>>,
}

/// The columns of `record`.
pub(crate) fn encode(record: &Record) -> Columns<'_> {
    let standing = &record.standing;
    let before = record.before.as_deref();
    Columns {
        scope: Cow::Borrowed(scope_bytes(&record.scope)),
        id: Cow::Owned(record.id.to_bytes()),
        tenant: Cow::Borrowed(tenant_text(&record.tenant)),
        principal_rule: Cow::Borrowed(&record.principal_rule),
        operation: Cow::Owned(record.operation.to_string()),
        key: Cow::Borrowed(key_text(&record.key)),
        created_at: date(record.created_at),
        updated_at: date(record.updated_at),
        version: whole(record.version),
        state: Cow::Borrowed(standing.state.as_str()),
        effect: Cow::Borrowed(standing.effect.as_str()),
        ambiguous: i64::from(standing.ambiguous),
        honours_key: i64::from(standing.honours_key),
        attempts: i64::from(standing.attempts),
        owner: Cow::Owned(standing.owner.to_string()),
        fence: whole(standing.fence),
        fingerprint: Cow::Owned(fingerprint_text(&standing.fingerprint)),
        answer: Cow::Borrowed(answer_word(&standing.answer)),
        status: standing.answer.status().map(|s| i64::from(s.as_u16())),
        reason: Cow::Borrowed(&standing.reason),
        on_unknown: Cow::Borrowed(standing.on_unknown.as_str()),
        lease: length(standing.lease),
        retention: length(standing.retention),
        locked_until: standing.locked_until.map(date),
        final_at: standing.final_at.map(date),
        expires_at: standing.expires_at.map(date),
        details: Cow::Owned(details::write(record)),
        body: body_of(standing).map(Cow::Borrowed),
        body_before: before.and_then(body_of).map(Cow::Borrowed),
    }
}

/// The record of these columns.
pub(crate) fn decode(columns: Columns<'_>) -> Result<Record, Unreadable> {
    let part = Unreadable::part;
    let details = details::read(&columns.details, columns.body_before.as_deref())?;
    let retention = read_length(columns.retention).ok_or_else(|| part("retention_ms"))?;
    let standing = Standing {
        state: State::parse(&columns.state).ok_or_else(|| part("state"))?,
        effect: Effect::parse(&columns.effect).ok_or_else(|| part("effect"))?,
        ambiguous: flag(columns.ambiguous).ok_or_else(|| part("ambiguous"))?,
        honours_key: flag(columns.honours_key).ok_or_else(|| part("honours_key"))?,
        attempts: u32::try_from(columns.attempts).map_err(|_| part("attempts"))?,
        owner: Owner::parse(&columns.owner).ok_or_else(|| part("owner"))?,
        fence: u64::try_from(columns.fence).map_err(|_| part("fence"))?,
        fingerprint: fingerprint(&columns.fingerprint).ok_or_else(|| part("fingerprint"))?,
        answer: answer(
            &columns.answer,
            columns.status,
            details.headers,
            columns.body,
        )
        .ok_or_else(|| part("answer"))?,
        reason: columns.reason.into_owned(),
        on_unknown: OnUnknown::parse(&columns.on_unknown).ok_or_else(|| part("on_unknown"))?,
        lease: read_length(columns.lease).ok_or_else(|| part("lease_ms"))?,
        retention,
        body_retention: details.body_retention.unwrap_or(retention),
        locked_until: optional(columns.locked_until).ok_or_else(|| part("locked_until"))?,
        final_at: optional(columns.final_at).ok_or_else(|| part("final_at"))?,
        expires_at: optional(columns.expires_at).ok_or_else(|| part("expires_at"))?,
    };
    Ok(Record {
        scope: scope(&columns.scope).ok_or_else(|| part("scope"))?,
        id: id(&columns.id).ok_or_else(|| part("id"))?,
        tenant: tenant(&columns.tenant).ok_or_else(|| part("tenant"))?,
        principal_rule: columns.principal_rule.into_owned(),
        operation: operation(&columns.operation).ok_or_else(|| part("operation"))?,
        key: key(&columns.key).ok_or_else(|| part("key"))?,
        created_at: read_date(columns.created_at).ok_or_else(|| part("created_at"))?,
        updated_at: read_date(columns.updated_at).ok_or_else(|| part("updated_at"))?,
        version: u64::try_from(columns.version).map_err(|_| part("version"))?,
        standing,
        before: details.before,
        history: details.history,
    })
}

/// The stored body of a standing, if it keeps one.
fn body_of(standing: &Standing) -> Option<&[u8]> {
    match &standing.answer {
        Answer::Stored(answer) => Some(&answer.body),
        Answer::None | Answer::NotStored(_) => None,
    }
}

fn answer_word(answer: &Answer) -> &'static str {
    match answer {
        Answer::None => "none",
        Answer::Stored(_) => "stored",
        Answer::NotStored(_) => "not-stored",
    }
}

/// An answer from its parts, which must agree with one another.
fn answer(
    word: &str,
    status: Option<i64>,
    headers: Option<http::HeaderMap>,
    body: Option<Cow<'_, [u8]>>,
) -> Option<Answer> {
    let status = match status {
        None => None,
        Some(code) => Some(StatusCode::from_u16(u16::try_from(code).ok()?).ok()?),
    };
    match (word, status, headers, body) {
        ("none", None, None, None) => Some(Answer::None),
        ("not-stored", Some(status), None, None) => Some(Answer::NotStored(status)),
        ("stored", Some(status), Some(headers), Some(body)) => Some(Answer::Stored(StoredAnswer {
            status,
            headers,
            body: Bytes::from(body.into_owned()),
        })),
        _ => None,
    }
}

/// Numbers beyond what a store's integers hold become the largest: only a date or a length that
/// means "never" gets there.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A date as a store's integer.
pub(crate) fn date(at: WallTime) -> i64 {
    whole(at.unix_ms())
}

fn length(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

fn flag(value: i64) -> Option<bool> {
    match value {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// A date from a store's integer.
pub(crate) fn read_date(ms: i64) -> Option<WallTime> {
    u64::try_from(ms).ok().map(WallTime::from_unix_ms)
}

fn read_length(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// `None` for a date that cannot be one; `Some(None)` where there is none.
fn optional(ms: Option<i64>) -> Option<Option<WallTime>> {
    match ms {
        None => Some(None),
        Some(ms) => read_date(ms).map(Some),
    }
}

/// The bytes of a scope hash.
pub(crate) fn scope_bytes(scope: &ScopeHash) -> &[u8; 32] {
    scope.as_bytes()
}

/// The scope hash of stored bytes.
pub(crate) fn scope(bytes: &[u8]) -> Option<ScopeHash> {
    bytes.try_into().ok().map(ScopeHash::from_bytes)
}

/// The id of stored bytes.
pub(crate) fn id(bytes: &[u8]) -> Option<OperationId> {
    OperationId::from_bytes(bytes)
}

/// The text of a principal's hash.
pub(crate) fn tenant_text(tenant: &Tenant) -> &str {
    tenant.as_str()
}

/// The principal's hash of stored text.
pub(crate) fn tenant(text: &str) -> Option<Tenant> {
    Tenant::from_stored(text)
}

/// The text of a key.
pub(crate) fn key_text(key: &Key) -> &str {
    key.as_str()
}

/// The key of stored text.
pub(crate) fn key(text: &str) -> Option<Key> {
    Key::from_stored(text)
}

/// The operation of stored text.
pub(crate) fn operation(text: &str) -> Option<Operation> {
    Operation::from_stored(text)
}

fn fingerprint_text(fingerprint: &Fingerprint) -> String {
    fingerprint.to_text()
}

/// The fingerprint of stored text.
pub(crate) fn fingerprint(text: &str) -> Option<Fingerprint> {
    Fingerprint::from_text(text).ok()
}

/// The scope secret of stored bytes.
pub(crate) fn scope_secret(bytes: [u8; 32]) -> ScopeSecret {
    ScopeSecret::new(bytes)
}

/// A fingerprint secret from its parts.
pub(crate) fn fingerprint_secret(id: &str, bytes: [u8; 32]) -> Option<FingerprintSecret> {
    Some(FingerprintSecret::new(id.parse().ok()?, &bytes))
}

/// Some fingerprint, another one for each `n`.
#[cfg(any(test, feature = "test-util"))]
pub(crate) fn sample_fingerprint(n: u64) -> Fingerprint {
    let text = format!("1:1:meaning:{n:064x}");
    Fingerprint::from_text(&text).expect("the text is one that a fingerprint writes")
}
