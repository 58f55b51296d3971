//! What an operator asks of all rows at once, and what the server promises.

use steadfast_core::key::Tenant;
use steadfast_core::record::State;
use steadfast_core::time::WallTime;
use tokio_postgres::types::Type;

use super::error::Fault;
use super::link::{LISTING_WITHIN, Link, Parameter};
use super::schema;
use crate::store::{Guarantee, Stats, codec};

/// What `status` says, but for the date.
pub(super) struct Counts {
    pub(super) schema: u32,
    pub(super) fence: u64,
    pub(super) rows: Vec<(State, u64)>,
    pub(super) oldest_expiry: Option<WallTime>,
    pub(super) guarantee: Guarantee,
}

pub(super) async fn status(link: &mut Link) -> Result<Counts, Fault> {
    let fence = number(link, "SELECT last_value FROM steadfast.fences", &[]).await?;
    let sql = "SELECT min(expires_at) FROM steadfast.records WHERE expires_at IS NOT NULL";
    let oldest = number(link, sql, &[]).await?;
    let sql = "SELECT CAST(version AS bigint) FROM steadfast.meta";
    let schema = number(link, sql, &[]).await?;
    let schema = schema.and_then(|version| u32::try_from(version).ok());
    let sql = "SELECT state, count(*) FROM steadfast.records GROUP BY state";
    let mut rows = State::ALL.map(|state| (state, 0)).to_vec();
    for row in link.query(sql, &[], LISTING_WITHIN).await? {
        let (word, count): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
        for line in rows.iter_mut().filter(|(state, _)| state.as_str() == word) {
            line.1 = count.unsigned_abs();
        }
    }
    Ok(Counts {
        schema: schema.ok_or_else(|| Fault::Store(schema::not_whole()))?,
        fence: fence.unwrap_or(0).unsigned_abs(),
        rows,
        oldest_expiry: oldest.and_then(codec::read_date),
        guarantee: guarantee(link).await?,
    })
}

async fn number(
    link: &mut Link,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Option<i64>, Fault> {
    let found = link.query(sql, parameters, LISTING_WITHIN).await?;
    Ok(found
        .first()
        .map(|row| row.try_get(0))
        .transpose()?
        .flatten())
}

/// What the server's settings promise of a commit.
pub(super) async fn guarantee(link: &mut Link) -> Result<Guarantee, Fault> {
    let sql = "SELECT current_setting('fsync', true), \
               current_setting('synchronous_commit', true), \
               current_setting('synchronous_standby_names', true)";
    let found = link.query(sql, &[], LISTING_WITHIN).await?;
    let Some(row) = found.first() else {
        return Ok(Guarantee::Durable);
    };
    let setting = |at| row.try_get::<_, Option<&str>>(at);
    Ok(promised(setting(0)?, setting(1)?, setting(2)?))
}

/// A commit that is told before it is on the disk may be gone after a crash of the machine. One
/// that a standby has on its disk, too, survives a fail-over to that standby. A server that does
/// not know a setting has none that could weaken it.
fn promised(fsync: Option<&str>, commit: Option<&str>, standbys: Option<&str>) -> Guarantee {
    let commit = commit.unwrap_or("on");
    match (fsync, commit) {
        (Some("off"), _) | (_, "off") => Guarantee::Volatile,
        (_, "on" | "remote_apply") if standbys.is_some_and(|names| !names.trim().is_empty()) => {
            Guarantee::Linearizable
        }
        _ => Guarantee::Durable,
    }
}

/// What is there at `now`.
pub(super) async fn stats(link: &mut Link, now: WallTime, tenants: u32) -> Result<Stats, Fault> {
    let (now, limit) = (codec::date(now), i64::from(tenants));
    let at: [Parameter<'_>; 1] = [(&now, Type::INT8)];
    let sql = "SELECT count(*) FROM steadfast.records WHERE locked_until <= $1";
    let leases_over = number(link, sql, &at).await?.unwrap_or(0).unsigned_abs();
    let sql = "SELECT count(*) FROM steadfast.records WHERE expires_at <= $1";
    let expired = number(link, sql, &at).await?.unwrap_or(0).unsigned_abs();
    let mut stats = Stats {
        leases_over,
        expired,
        bytes: bytes(link).await?,
        ..Stats::default()
    };
    let sql = "SELECT state, min(updated_at) FROM steadfast.records GROUP BY state";
    let mut oldest = Vec::new();
    for row in link.query(sql, &[], LISTING_WITHIN).await? {
        let state = State::parse(row.try_get(0)?);
        oldest.extend(state.zip(codec::read_date(row.try_get(1)?)));
    }
    let of = |state| oldest.iter().find(|(own, _)| *own == state).copied();
    stats.oldest = State::ALL.into_iter().filter_map(of).collect();
    let sql = "SELECT tenant, count(*) AS live FROM steadfast.records \
               WHERE expires_at IS NULL OR expires_at > $1 \
               GROUP BY tenant ORDER BY live DESC, tenant LIMIT $2";
    let parameters: [Parameter<'_>; 2] = [(&now, Type::INT8), (&limit, Type::INT8)];
    for row in link.query(sql, &parameters, LISTING_WITHIN).await? {
        let (tenant, live): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
        // What is no tenant belongs to a row that cannot be read; `scan` names it.
        let tenant = Tenant::from_stored(tenant);
        stats
            .tenants
            .extend(tenant.map(|tenant| (tenant, live.unsigned_abs())));
    }
    Ok(stats)
}

/// Bytes of all tables with their indexes, where the server knows them.
async fn bytes(link: &mut Link) -> Result<Option<u64>, Fault> {
    let sql = "SELECT CAST(sum(pg_total_relation_size(c.oid)) AS bigint) FROM pg_class c \
               JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = 'steadfast' AND c.relkind = 'r'";
    match number(link, sql, &[]).await {
        Ok(bytes) => Ok(bytes.map(i64::unsigned_abs)),
        // Servers that speak the same language need not have the function.
        Err(Fault::Sql(error)) if error.code().is_some() => Ok(None),
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rule: a-database-promises-what-its-settings-say
    #[test]
    fn a_server_promises_what_its_settings_say() {
        let (on, off) = (Some("on"), Some("off"));
        let table = [
            (on, on, Some(""), Guarantee::Durable),
            (None, None, None, Guarantee::Durable),
            (on, Some("local"), Some("*"), Guarantee::Durable),
            (on, Some("remote_write"), Some("*"), Guarantee::Durable),
            (on, on, Some("ANY 1 (a, b)"), Guarantee::Linearizable),
            (on, Some("remote_apply"), Some("a"), Guarantee::Linearizable),
            (on, off, Some("a"), Guarantee::Volatile),
            (off, on, Some("a"), Guarantee::Volatile),
        ];
        for (fsync, commit, standbys, expected) in table {
            assert_eq!(promised(fsync, commit, standbys), expected, "{commit:?}");
        }
    }
}
