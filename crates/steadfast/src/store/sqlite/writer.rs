//! The one writer: performs a batch of writes in one transaction.
//!
//! Rule: what one transaction says is done is on the disk before anybody is told; what fails alone
//! leaves the others alone; a transaction that fails leaves nothing. The fence counter and the
//! last date travel in the same transaction as the rows, and are read anew in each, since another
//! process may have written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::{Connection, OptionalExtension, params};
use steadfast_core::key::ScopeHash;
use steadfast_core::record::{Guard, Owner, Record};
use steadfast_core::time::WallTime;

use super::Shared;
use super::checkpoint::Log;
use super::error::{is_own, store_error};
use super::rows;
use super::statements::Statements;
use crate::store::batcher::{Applied, Committed, Engine};
use crate::store::{Op, StoreError, codec, fence};

/// The engine behind the store's queue. Lives on the writer's thread.
pub(super) struct Writer<'c> {
    conn: &'c Connection,
    sql: Statements<'c>,
    shared: Arc<Shared>,
    log: Log<'c>,
}

/// The one row of `meta`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Meta {
    fence: u64,
    date: i64,
    writer: i64,
}

/// What stands under a scope, as far as a guard needs it.
struct Found {
    n: i64,
    id: Vec<u8>,
    guard: Guard,
    fence: u64,
    has_body: bool,
    keeps_request: bool,
}

/// Why a write did not come to an end.
enum Fault {
    /// Its row is the reason, and nothing was written for it.
    Row(StoreError),
    /// A statement failed.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Row(error)
    }
}

impl<'c> Writer<'c> {
    pub(super) fn new(
        conn: &'c Connection,
        shared: Arc<Shared>,
        log: Log<'c>,
    ) -> rusqlite::Result<Writer<'c>> {
        let sql = Statements::new(conn)?;
        Ok(Writer {
            conn,
            sql,
            shared,
            log,
        })
    }

    /// One transaction. With `careful`, each write has a savepoint of its own, so that one that
    /// fails is undone alone.
    fn transact(&mut self, ops: &[Op], careful: bool) -> Result<Committed, Fault> {
        if !self.conn.is_autocommit() {
            // An earlier transaction could not be rolled back while the disk failed.
            self.conn.execute_batch("ROLLBACK")?;
        }
        self.sql.begin.execute([])?;
        let outcome = self.perform(ops, careful).and_then(|(ends, date)| {
            self.sql.commit.execute([])?;
            Ok((ends, date))
        });
        match outcome {
            Ok((ends, date)) => {
                self.shared
                    .date
                    .fetch_max(date.unsigned_abs(), Ordering::AcqRel);
                Ok(Ok(ends))
            }
            Err(fault) => {
                if !self.conn.is_autocommit() {
                    self.conn.execute_batch("ROLLBACK")?;
                }
                Err(fault)
            }
        }
    }

    fn perform(
        &mut self,
        ops: &[Op],
        careful: bool,
    ) -> Result<(Vec<Result<Applied, StoreError>>, i64), Fault> {
        let before = self.meta()?;
        if before.writer != self.shared.token {
            self.shared.foreign.store(true, Ordering::Release);
        }
        let mut meta = before;
        let mut ends = Vec::with_capacity(ops.len());
        for op in ops {
            let kept = meta;
            if careful {
                self.conn.execute_batch("SAVEPOINT one")?;
            }
            match self.step(op, &mut meta) {
                Ok(applied) => ends.push(Ok(applied)),
                Err(Fault::Row(error)) => {
                    meta = kept;
                    ends.push(Err(error));
                }
                Err(Fault::Sql(error)) if careful && is_own(&error) => {
                    self.conn.execute_batch("ROLLBACK TO one")?;
                    meta = kept;
                    ends.push(Err(store_error(&error)));
                }
                Err(fault) => return Err(fault),
            }
            if careful {
                self.conn.execute_batch("RELEASE one")?;
            }
        }
        let wrote = ends.iter().any(|end| {
            !matches!(end, Err(_) | Ok(Applied::Stands(_)))
                && !matches!(end, Ok(Applied::Expired(gone)) if gone.is_empty())
        });
        if wrote {
            meta.writer = self.shared.token;
        }
        if meta != before {
            let fence = i64::try_from(meta.fence).unwrap_or(i64::MAX);
            self.sql
                .put_meta
                .execute(params![fence, meta.date, meta.writer])?;
        }
        Ok((ends, meta.date))
    }

    fn meta(&mut self) -> Result<Meta, Fault> {
        let row = self.sql.meta.query_row([], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get(2)?))
        })?;
        let (Ok(fence), 0..) = (u64::try_from(row.0), row.1) else {
            // The counter is what keeps fences growing: without it nothing may be drawn.
            let why = "its counters are damaged; restore it from a backup".to_owned();
            return Err(Fault::Row(StoreError::Unavailable(why)));
        };
        Ok(Meta {
            fence,
            date: row.1,
            writer: row.2,
        })
    }

    fn step(&mut self, op: &Op, meta: &mut Meta) -> Result<Applied, Fault> {
        match op {
            Op::Insert(row) => self.insert(row, meta),
            Op::Replace { next, guard, draw } => self.replace(next, *guard, *draw, meta),
            Op::Remove { scope, guard } => self.remove(scope, *guard),
            Op::Expire { now, limit } => self.expire(*now, *limit),
        }
    }

    fn insert(&mut self, row: &Record, meta: &mut Meta) -> Result<Applied, Fault> {
        let drawn = fence::next(meta.fence, 0)?;
        let mut columns = codec::encode(row);
        columns.fence = i64::try_from(drawn).unwrap_or(i64::MAX);
        let n = columns.fence;
        if self.sql.insert.execute(rows::params(&columns, n))? == 0 {
            // Nothing was written, so the fence is still to be drawn: a batch of duplicates alone
            // leaves the file as it is, and has nothing to sync.
            return match self.find(&row.scope)? {
                Some(found) => self.stands(found.n),
                None => Ok(Applied::Stands(None)),
            };
        }
        meta.fence = drawn;
        meta.date = meta.date.max(codec::date(row.updated_at));
        self.bodies(n, &columns, false)?;
        self.request(n, &columns, false)?;
        Ok(Applied::Done { fence: Some(drawn) })
    }

    fn replace(
        &mut self,
        next: &Record,
        guard: Guard,
        draw: bool,
        meta: &mut Meta,
    ) -> Result<Applied, Fault> {
        let Some(found) = self.find(&next.scope)? else {
            return Ok(Applied::Stands(None));
        };
        if found.guard != guard {
            return self.stands(found.n);
        }
        let mut columns = codec::encode(next);
        let mut fence = None;
        if draw {
            meta.fence = fence::next(meta.fence, found.fence)?;
            columns.fence = i64::try_from(meta.fence).unwrap_or(i64::MAX);
            fence = Some(meta.fence);
        }
        meta.date = meta.date.max(codec::date(next.updated_at));
        let update = match found.id == columns.id[..] {
            true => &mut self.sql.update,
            false => &mut self.sql.update_to_another,
        };
        update.execute(rows::params(&columns, found.n))?;
        self.bodies(found.n, &columns, found.has_body)?;
        // A request does not change while its operation lasts.
        let had_request = found.keeps_request && found.id == columns.id[..];
        if found.keeps_request && !had_request {
            self.sql.drop_request.execute([found.n])?;
        }
        self.request(found.n, &columns, had_request)?;
        if columns.body_before.is_none() {
            self.sql.drop_before.execute([found.n])?;
        }
        Ok(Applied::Done { fence })
    }

    fn bodies(
        &mut self,
        n: i64,
        columns: &codec::Columns<'_>,
        had_body: bool,
    ) -> Result<(), Fault> {
        match &columns.body {
            Some(body) => {
                self.sql.put_body.execute(params![n, body.as_ref()])?;
            }
            None if had_body => {
                self.sql.drop_body.execute([n])?;
            }
            None => {}
        }
        if let Some(body) = &columns.body_before {
            self.sql.put_before.execute(params![n, body.as_ref()])?;
        }
        Ok(())
    }

    fn request(
        &mut self,
        n: i64,
        columns: &codec::Columns<'_>,
        had_request: bool,
    ) -> Result<(), Fault> {
        match &columns.body_kept {
            Some(body) if !had_request => {
                self.sql.put_request.execute(params![n, body.as_ref()])?;
            }
            None if had_request => {
                self.sql.drop_request.execute([n])?;
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    fn remove(&mut self, scope: &ScopeHash, guard: Guard) -> Result<Applied, Fault> {
        match self.find(scope)? {
            None => Ok(Applied::Stands(None)),
            Some(found) if found.guard != guard => self.stands(found.n),
            Some(found) => {
                self.forget(found.n)?;
                if found.keeps_request {
                    self.sql.drop_request.execute([found.n])?;
                }
                Ok(Applied::Removed)
            }
        }
    }

    fn expire(&mut self, now: WallTime, limit: u32) -> Result<Applied, Fault> {
        let found = self
            .sql
            .expired
            .query_map(params![codec::date(now), limit], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
            })?;
        let found: Vec<_> = found.collect::<Result<_, _>>()?;
        let mut gone = Vec::with_capacity(found.len());
        for (n, scope) in found {
            self.forget(n)?;
            gone.extend(codec::scope(&scope));
        }
        Ok(Applied::Expired(gone))
    }

    fn forget(&mut self, n: i64) -> Result<(), Fault> {
        self.sql.remove.execute([n])?;
        self.sql.drop_body.execute([n])?;
        self.sql.drop_before.execute([n])?;
        Ok(())
    }

    fn stands(&mut self, n: i64) -> Result<Applied, Fault> {
        let mut found = self.sql.whole.query([n])?;
        match found.next()? {
            Some(row) => Ok(Applied::Stands(Some(Box::new(rows::read(row)?.0)))),
            None => Ok(Applied::Stands(None)),
        }
    }

    /// What stands under `scope`. Another scope with the same prefix is an error: its row is
    /// neither an answer for this one nor nothing.
    fn find(&mut self, scope: &ScopeHash) -> Result<Option<Found>, Fault> {
        let row = self.sql.find.query_row([rows::prefix(scope)], |row| {
            let owner: String = row.get(3)?;
            let answer: String = row.get(6)?;
            let (scope, id): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
            let numbers: (i64, i64, i64, i64) =
                (row.get(0)?, row.get(4)?, row.get(5)?, row.get(7)?);
            Ok((scope, id, owner, answer, numbers))
        });
        let Some((found, id, owner, answer, (n, version, fence, keeps))) = row.optional()? else {
            return Ok(None);
        };
        if found != codec::scope_bytes(scope) {
            let why = "another operation's hash begins with the same bytes";
            return Err(Fault::Row(rows::unreadable(&id, why)));
        }
        let parts = (
            Owner::parse(&owner),
            u64::try_from(version),
            u64::try_from(fence),
        );
        let (Some(owner), Ok(version), Ok(fence)) = parts else {
            let why = "owner, version or fence is not what a store writes";
            return Err(Fault::Row(rows::unreadable(&id, why)));
        };
        Ok(Some(Found {
            n,
            id,
            guard: Guard { owner, version },
            fence,
            has_body: answer == "stored",
            keeps_request: keeps != 0,
        }))
    }
}

impl Engine for Writer<'_> {
    fn apply(&mut self, ops: &[Op]) -> Committed {
        self.shared.stands()?;
        let fault = match self.transact(ops, false) {
            Ok(committed) => return committed,
            // One of them failed for its own sake: find out which, and let the others through.
            Err(Fault::Sql(error)) if is_own(&error) => match self.transact(ops, true) {
                Ok(committed) => return committed,
                Err(fault) => fault,
            },
            Err(fault) => fault,
        };
        Err(match fault {
            Fault::Row(error) => error,
            Fault::Sql(error) => store_error(&error),
        })
    }

    fn rest(&mut self) {
        self.log.bound();
    }
}
