//! The one writer: performs a batch of writes in as few statements as their keys allow.
//!
//! Rule: what a statement says is done was committed before it was said; what fails for its own
//! sake leaves the others alone; what the database asks to send again is sent again, three times in
//! all. A write whose reply did not come is an error to its caller, who reads what became of it.

use std::collections::HashMap;
use std::sync::Arc;

use steadfast_core::key::ScopeHash;
use steadfast_core::record::{Guard, Record};
use steadfast_core::time::WallTime;
use tokio::runtime::Handle;
use tokio_postgres::types::Type;

use super::date::{Date, Told};
use super::error::{Fault, Remedy, store_error};
use super::link::{CALL_WITHIN, Link, Parameter};
use super::rows::{self, Array};
use super::statements::{self, Kinds};
use super::turns::{Turn, plan};
use crate::store::batcher::{Applied, Committed, Engine};
use crate::store::codec::{self, Columns};
use crate::store::{Op, StoreError};

/// How often a write is sent that the database asks to send again, or that meets a row which is
/// gone when it is looked at.
const TRIES: usize = 3;

type End = Result<Applied, StoreError>;

/// The engine behind the store's queue.
pub(super) struct Writer {
    runtime: Handle,
    link: Link,
    date: Arc<Date>,
    sql: HashMap<Kinds, String>,
    whole: String,
}

/// The writes of one statement, as parameters.
#[derive(Default)]
struct Batch<'a> {
    /// Places of the writes that draw a fence.
    draws: Vec<Option<i64>>,
    inserts: Vec<Columns<'a>>,
    inserts_at: Vec<Option<i64>>,
    replacements: Vec<Columns<'a>>,
    guards: Guards,
    fences: Vec<Option<i64>>,
    replacements_at: Vec<Option<i64>>,
    removed: Vec<Option<&'a [u8]>>,
    removals: Guards,
    last: Option<WallTime>,
}

#[derive(Default)]
struct Guards {
    owners: Vec<String>,
    versions: Vec<Option<i64>>,
}

impl Guards {
    fn push(&mut self, guard: &Guard) {
        self.owners.push(guard.owner.to_string());
        let version = i64::try_from(guard.version).unwrap_or(i64::MAX);
        self.versions.push(Some(version));
    }

    fn arrays(&self) -> [Array<'_>; 2] {
        let owners = self.owners.iter().map(String::as_str).collect();
        [Array::Text(owners), Array::Whole(self.versions.clone())]
    }
}

impl<'a> Batch<'a> {
    fn of(ops: &'a [Op], these: &[usize]) -> Batch<'a> {
        let mut batch = Batch::default();
        let ops = these.iter().filter_map(|at| ops.get(*at));
        for (place, op) in (0..).map(Some).zip(ops) {
            match op {
                Op::Insert(row) => {
                    batch.draws.push(place);
                    batch.inserts_at.push(place);
                    batch.inserts.push(rows::encode(row));
                    batch.last = batch.last.max(Some(row.updated_at));
                }
                Op::Replace { next, guard, draw } => {
                    let columns = rows::encode(next);
                    batch.fences.push(Some(columns.fence));
                    batch.draws.extend(draw.then_some(place));
                    batch.replacements_at.push(place);
                    batch.replacements.push(columns);
                    batch.guards.push(guard);
                    batch.last = batch.last.max(Some(next.updated_at));
                }
                Op::Remove { scope, guard } => {
                    batch.removed.push(Some(codec::scope_bytes(scope)));
                    batch.removals.push(guard);
                }
                Op::Expire { .. } => {}
            }
        }
        batch
    }

    fn arrays(&'a self) -> Vec<Array<'a>> {
        let mut arrays = Vec::new();
        if !self.draws.is_empty() {
            arrays.push(Array::Whole(self.draws.clone()));
        }
        if !self.inserts.is_empty() {
            arrays.extend(rows::arrays(&self.inserts));
            arrays.push(Array::Whole(self.inserts_at.clone()));
        }
        if !self.replacements.is_empty() {
            arrays.extend(rows::arrays(&self.replacements));
            arrays.extend(self.guards.arrays());
            arrays.push(Array::Whole(self.fences.clone()));
            arrays.push(Array::Whole(self.replacements_at.clone()));
        }
        if !self.removed.is_empty() {
            arrays.push(Array::Bytes(self.removed.clone()));
            arrays.extend(self.removals.arrays());
        }
        arrays
    }

    fn kinds(&self, mark: bool) -> Kinds {
        Kinds {
            inserts: !self.inserts.is_empty(),
            replacements: !self.replacements.is_empty(),
            removals: !self.removed.is_empty(),
            draws: !self.draws.is_empty(),
            redraws: self.draws.len() > self.inserts.len(),
            mark,
        }
    }
}

impl Writer {
    pub(super) fn new(runtime: Handle, link: Link, date: Arc<Date>) -> Writer {
        Writer {
            runtime,
            link,
            date,
            sql: HashMap::new(),
            whole: rows::select("WHERE r.scope = ANY($1)"),
        }
    }

    async fn perform(&mut self, ops: &[Op]) -> Vec<End> {
        let plan = plan(ops);
        let mut ends: Vec<Option<End>> = ops.iter().map(|_| None).collect();
        for turn in plan.turns {
            match turn {
                Turn::Write(these) => self.write(ops, these, &mut ends).await,
                Turn::Expire(at) => {
                    if let Some(Op::Expire { now, limit }) = ops.get(at) {
                        let gone = self.expire(*now, *limit).await;
                        ends[at] = Some(gone.map_err(|fault| store_error(&fault)));
                    }
                }
            }
        }
        for (at, first) in plan.repeats {
            ends[at] = Some(met(&ops[first], ends[first].as_ref()));
        }
        let told = |end: Option<End>| end.unwrap_or_else(|| Err(lost()));
        ends.into_iter().map(told).collect()
    }

    /// Performs writes to different keys. Halves them where one fails for its own sake.
    async fn write(&mut self, ops: &[Op], these: Vec<usize>, ends: &mut [Option<End>]) {
        let mut waiting = vec![these];
        let mut tries = 0;
        while let Some(mut these) = waiting.pop() {
            match self.statement(ops, &these).await {
                Ok(done) => {
                    let fences: HashMap<&[u8], i64> = done
                        .iter()
                        .map(|(scope, fence)| (&scope[..], *fence))
                        .collect();
                    let mut not_done = Vec::new();
                    for at in these {
                        let end = applied(&ops[at], &fences);
                        match end {
                            Some(end) => ends[at] = Some(Ok(end)),
                            None => not_done.push(at),
                        }
                    }
                    let again = self.stands(ops, &not_done, ends, tries + 1 < TRIES).await;
                    if !again.is_empty() {
                        tries += 1;
                        waiting.push(again);
                    }
                }
                Err(fault) => match fault.remedy() {
                    Remedy::Again if tries + 1 < TRIES => {
                        tries += 1;
                        waiting.push(these);
                    }
                    Remedy::Apart if these.len() > 1 => {
                        let half = these.split_off(these.len() / 2);
                        waiting.push(half);
                        waiting.push(these);
                    }
                    Remedy::Again | Remedy::Apart | Remedy::None => {
                        let error = store_error(&fault);
                        for at in these {
                            ends[at] = Some(Err(error.clone()));
                        }
                    }
                },
            }
        }
    }

    /// One statement. The scopes for which it was done, with their fences.
    async fn statement(
        &mut self,
        ops: &[Op],
        these: &[usize],
    ) -> Result<Vec<(Vec<u8>, i64)>, Fault> {
        let batch = Batch::of(ops, these);
        let mark = batch.last.and_then(|last| self.date.mark_for(last));
        let kinds = batch.kinds(mark.is_some());
        let arrays = batch.arrays();
        let mark_value = mark.map(|mark| i64::try_from(mark).unwrap_or(i64::MAX));
        let mut parameters: Vec<Parameter<'_>> = arrays.iter().map(Array::parameter).collect();
        if mark.is_some() {
            parameters.push((&mark_value, Type::INT8));
        }
        let sql = self
            .sql
            .entry(kinds)
            .or_insert_with(|| statements::write(kinds));
        let answer = self.link.query(sql, &parameters, CALL_WITHIN).await?;
        let mut done = Vec::with_capacity(these.len());
        for row in answer {
            if row.try_get::<_, i64>(0)? == statements::CLOCK {
                let (clock, mark): (i64, i64) = (row.try_get(2)?, row.try_get(3)?);
                let (clock, mark) = (clock.unsigned_abs(), mark.unsigned_abs());
                self.date.learn(Told { clock, mark }, false);
            } else {
                done.push((row.try_get(1)?, row.try_get(2)?));
            }
        }
        if let Some(last) = batch.last {
            self.date.written(last, mark);
        }
        Ok(done)
    }

    /// What stands in the way of these writes. With `again`, inserts that nothing stands in the way
    /// of any more are given back.
    async fn stands(
        &mut self,
        ops: &[Op],
        these: &[usize],
        ends: &mut [Option<End>],
        again: bool,
    ) -> Vec<usize> {
        if these.is_empty() {
            return Vec::new();
        }
        let scopes = these.iter().filter_map(|at| scope(&ops[*at]));
        let scopes: Vec<&[u8]> = scopes.map(|scope| &codec::scope_bytes(scope)[..]).collect();
        let parameters: [Parameter<'_>; 1] = [(&scopes, Type::BYTEA_ARRAY)];
        let found = self.link.query(&self.whole, &parameters, CALL_WITHIN).await;
        let mut standing: HashMap<Vec<u8>, Result<Record, StoreError>> = HashMap::new();
        match found {
            Ok(found) => {
                for row in found {
                    let scope = row.try_get::<_, &[u8]>(0).unwrap_or_default().to_vec();
                    standing.insert(scope, rows::read(&row).map(|(record, _)| record));
                }
            }
            Err(fault) => {
                let error = store_error(&fault);
                for at in these {
                    ends[*at] = Some(Err(error.clone()));
                }
                return Vec::new();
            }
        }
        let mut gone = Vec::new();
        for at in these {
            let Some(scope) = scope(&ops[*at]) else {
                continue;
            };
            let end = match standing.remove(&codec::scope_bytes(scope)[..]) {
                None if again && matches!(ops[*at], Op::Insert(_)) => {
                    gone.push(*at);
                    continue;
                }
                None => Ok(Applied::Stands(None)),
                Some(Ok(row)) => {
                    self.date.note(row.updated_at);
                    Ok(Applied::Stands(Some(Box::new(row))))
                }
                Some(Err(error)) => Err(error),
            };
            ends[*at] = Some(end);
        }
        gone
    }

    async fn expire(&mut self, now: WallTime, limit: u32) -> Result<Applied, Fault> {
        let (now, limit) = (codec::date(now), i64::from(limit));
        let parameters: [Parameter<'_>; 2] = [(&now, Type::INT8), (&limit, Type::INT8)];
        let asked = self
            .link
            .query(statements::EXPIRE, &parameters, CALL_WITHIN);
        let mut gone = Vec::new();
        for row in asked.await? {
            gone.extend(codec::scope(row.try_get(0)?));
        }
        Ok(Applied::Expired(gone))
    }
}

fn scope(op: &Op) -> Option<&ScopeHash> {
    match op {
        Op::Insert(row) | Op::Replace { next: row, .. } => Some(&row.scope),
        Op::Remove { scope, .. } => Some(scope),
        Op::Expire { .. } => None,
    }
}

/// What a write came to that the database did; `None` where it did not.
fn applied(op: &Op, done: &HashMap<&[u8], i64>) -> Option<Applied> {
    let fence = done.get(&codec::scope_bytes(scope(op)?)[..])?;
    let drawn = u64::try_from(*fence).ok();
    Some(match op {
        Op::Insert(_) => Applied::Done { fence: drawn },
        Op::Replace { draw, .. } => Applied::Done {
            fence: drawn.filter(|_| *draw),
        },
        Op::Remove { .. } | Op::Expire { .. } => Applied::Removed,
    })
}

/// What an insert meets behind another one of its key.
fn met(first: &Op, end: Option<&End>) -> End {
    match (first, end) {
        (Op::Insert(row), Some(Ok(Applied::Done { fence }))) => {
            let mut row = row.clone();
            row.standing.fence = fence.unwrap_or(row.standing.fence);
            Ok(Applied::Stands(Some(row)))
        }
        (_, Some(Ok(Applied::Stands(row)))) => Ok(Applied::Stands(row.clone())),
        (_, Some(Err(error))) => Err(error.clone()),
        (_, Some(Ok(_)) | None) => Err(lost()),
    }
}

fn lost() -> StoreError {
    let why = "the write was not taken up; send it again";
    StoreError::Unavailable(why.to_owned())
}

impl Engine for Writer {
    fn apply(&mut self, ops: &[Op]) -> Committed {
        let runtime = self.runtime.clone();
        Ok(runtime.block_on(self.perform(ops)))
    }
}
