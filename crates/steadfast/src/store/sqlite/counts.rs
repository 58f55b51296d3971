//! What an operator asks of all rows at once: how many, how old, whose.

use rusqlite::{Connection, Statement};
use steadfast_core::key::Tenant;
use steadfast_core::record::State;
use steadfast_core::time::WallTime;

use super::error::store_error;
use super::reader::Reader;
use crate::store::{Stats, StoreError, codec};

/// Rows past their expiry that are looked through for a principal's own: so many are gone a second
/// after their time, and a sweep that lags behind must not make every count go through all of them.
const EXPIRED_MOST: u32 = 10_000;

fn live<'c>(
    conn: &'c Connection,
    kept: &mut Option<Statement<'c>>,
    tenant: &Tenant,
    now: WallTime,
) -> rusqlite::Result<i64> {
    let statement = match kept {
        Some(statement) => statement,
        None => kept.insert(conn.prepare(
            "SELECT coalesce((SELECT records FROM tenants WHERE tenant = ?1), 0) \
             - (SELECT count(*) FROM (SELECT tenant FROM records WHERE expires_at IS NOT NULL \
             AND expires_at <= ?2 ORDER BY expires_at LIMIT ?3) WHERE tenant = ?1)",
        )?),
    };
    let tenant = codec::tenant_text(tenant);
    statement.query_row((tenant, codec::date(now), EXPIRED_MOST), |row| row.get(0))
}

impl Reader<'_> {
    /// The highest fence drawn, rows by state, and the earliest expiry.
    #[expect(clippy::type_complexity, reason = "the three parts of one status line")]
    pub(super) fn status(
        &mut self,
    ) -> Result<(u64, Vec<(State, u64)>, Option<WallTime>), StoreError> {
        self.counts().map_err(|error| store_error(&error))
    }

    #[expect(clippy::type_complexity, reason = "as above")]
    fn counts(&self) -> rusqlite::Result<(u64, Vec<(State, u64)>, Option<WallTime>)> {
        let number = |sql: &str| {
            self.conn
                .query_row(sql, [], |row| row.get::<_, Option<i64>>(0))
        };
        let fence = number("SELECT fence FROM meta")?.unwrap_or(0);
        let oldest = number("SELECT min(expires_at) FROM records WHERE expires_at IS NOT NULL")?;
        let mut rows = State::ALL.map(|state| (state, 0)).to_vec();
        let sql = "SELECT state, count(*) FROM records GROUP BY state";
        let mut statement = self.conn.prepare(sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let (word, count): (String, i64) = (row.get(0)?, row.get(1)?);
            for line in rows.iter_mut().filter(|(state, _)| state.as_str() == word) {
                line.1 = count.unsigned_abs();
            }
        }
        Ok((
            fence.unsigned_abs(),
            rows,
            oldest.and_then(codec::read_date),
        ))
    }

    /// How many rows `tenant` has, less those past their expiry at `now`.
    pub(super) fn count(&mut self, tenant: &Tenant, now: WallTime) -> Result<u64, StoreError> {
        let count = live(self.conn, &mut self.count, tenant, now);
        let count = count.map_err(|error| store_error(&error))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// What is there at `now`, but for the bytes on disk.
    pub(super) fn stats(&mut self, now: WallTime, tenants: u32) -> Result<Stats, StoreError> {
        stats(self.conn, now, tenants).map_err(|error| store_error(&error))
    }
}

fn stats(conn: &Connection, now: WallTime, tenants: u32) -> rusqlite::Result<Stats> {
    let now = codec::date(now);
    let count = |sql: &str| conn.query_row(sql, [now], |row| row.get::<_, i64>(0));
    let mut stats = Stats {
        leases_over: count("SELECT count(*) FROM records WHERE locked_until <= ?1")?.unsigned_abs(),
        expired: count("SELECT count(*) FROM records WHERE expires_at <= ?1")?.unsigned_abs(),
        ..Stats::default()
    };
    let sql = "SELECT state, min(updated_at) FROM records GROUP BY state";
    let mut statement = conn.prepare(sql)?;
    let mut found = statement.query([])?;
    let mut oldest = Vec::new();
    while let Some(row) = found.next()? {
        let (word, at): (String, i64) = (row.get(0)?, row.get(1)?);
        oldest.extend(State::parse(&word).zip(codec::read_date(at)));
    }
    let at = |state| oldest.iter().find(|(own, _)| *own == state).copied();
    stats.oldest = State::ALL.into_iter().filter_map(at).collect();
    let sql = "SELECT tenant, count(*) AS live FROM records \
               WHERE expires_at IS NULL OR expires_at > ?1 \
               GROUP BY tenant ORDER BY live DESC, tenant LIMIT ?2";
    let mut statement = conn.prepare(sql)?;
    let mut found = statement.query([now, i64::from(tenants)])?;
    while let Some(row) = found.next()? {
        let (tenant, live): (String, i64) = (row.get(0)?, row.get(1)?);
        // What is no tenant belongs to a row that cannot be read; `scan` names it.
        let tenant = Tenant::from_stored(&tenant);
        stats
            .tenants
            .extend(tenant.map(|tenant| (tenant, live.unsigned_abs())));
    }
    Ok(stats)
}
