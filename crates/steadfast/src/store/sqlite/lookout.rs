//! Whether another process wrote, and what stands since: for those who wait for a row.
//!
//! Rule: exact while it costs next to nothing. SQLite tells whether anybody committed; each commit
//! names its store in `meta`; and the writer notes a name that is not its own before it commits
//! over it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::{Connection, Statement};
use steadfast_core::key::ScopeHash;
use steadfast_core::record::{Guard, Owner};

use super::error::store_error;
use super::{Shared, rows};
use crate::store::StoreError;
use crate::store::watch::Foreign;

/// Finds other processes' writes, on a connection of its own.
pub(super) struct Lookout<'c> {
    version: Statement<'c>,
    writer: Statement<'c>,
    guard: Statement<'c>,
    seen: Option<i64>,
    shared: Arc<Shared>,
}

impl<'c> Lookout<'c> {
    pub(super) fn new(conn: &'c Connection, shared: Arc<Shared>) -> rusqlite::Result<Lookout<'c>> {
        Ok(Lookout {
            version: conn.prepare("PRAGMA data_version")?,
            writer: conn.prepare("SELECT writer FROM meta")?,
            guard: conn.prepare("SELECT owner, version FROM records WHERE scope_prefix = ?1")?,
            seen: None,
            shared,
        })
    }

    /// Some commit came since the last look, and the last one or one before ours was another
    /// process's. The last committer is read before the writer's note: who commits after another
    /// process has noted it before.
    fn foreign(&mut self) -> rusqlite::Result<bool> {
        let version = self.version.query_row([], |row| row.get(0))?;
        let moved = self.seen.replace(version) != Some(version);
        let writer: i64 = match moved {
            true => self.writer.query_row([], |row| row.get(0))?,
            false => self.shared.token,
        };
        let noted = self.shared.foreign.swap(false, Ordering::AcqRel);
        Ok(noted || writer != self.shared.token)
    }
}

impl Foreign for Lookout<'_> {
    fn may_have_written(&mut self) -> Result<bool, StoreError> {
        self.foreign().map_err(|error| store_error(&error))
    }

    fn guards(&mut self, scopes: &[ScopeHash]) -> Result<HashMap<ScopeHash, Guard>, StoreError> {
        let mut guards = HashMap::with_capacity(scopes.len());
        for scope in scopes {
            if let Some(guard) = self.guard(scope)? {
                guards.insert(*scope, guard);
            }
        }
        Ok(guards)
    }
}

impl Lookout<'_> {
    /// The guard of the row under `scope`.
    fn guard(&mut self, scope: &ScopeHash) -> Result<Option<Guard>, StoreError> {
        let mut found = self
            .guard
            .query([rows::prefix(scope)])
            .map_err(|e| store_error(&e))?;
        let Some(row) = found.next().map_err(|e| store_error(&e))? else {
            return Ok(None);
        };
        let part = |at: usize| row.get_ref(at).map_err(|e| store_error(&e));
        let owner = part(0)?.as_str().ok().and_then(Owner::parse);
        let version = part(1)?.as_i64().ok().and_then(|v| u64::try_from(v).ok());
        match (owner, version) {
            (Some(owner), Some(version)) => Ok(Some(Guard { owner, version })),
            // Whoever waits looks for itself, and is told what is wrong.
            _ => Ok(None),
        }
    }
}
