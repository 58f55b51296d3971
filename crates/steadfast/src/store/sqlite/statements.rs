//! The writer's statements, prepared once.

use rusqlite::{Connection, Statement};

use super::rows;

pub(super) struct Statements<'c> {
    pub(super) begin: Statement<'c>,
    pub(super) commit: Statement<'c>,
    pub(super) meta: Statement<'c>,
    pub(super) put_meta: Statement<'c>,
    pub(super) find: Statement<'c>,
    pub(super) whole: Statement<'c>,
    pub(super) insert: Statement<'c>,
    pub(super) update: Statement<'c>,
    pub(super) update_to_another: Statement<'c>,
    pub(super) remove: Statement<'c>,
    pub(super) put_body: Statement<'c>,
    pub(super) drop_body: Statement<'c>,
    pub(super) put_before: Statement<'c>,
    pub(super) drop_before: Statement<'c>,
    pub(super) put_request: Statement<'c>,
    pub(super) drop_request: Statement<'c>,
    pub(super) expired: Statement<'c>,
}

impl<'c> Statements<'c> {
    pub(super) fn new(conn: &'c Connection) -> rusqlite::Result<Statements<'c>> {
        Ok(Statements {
            begin: conn.prepare("BEGIN IMMEDIATE")?,
            commit: conn.prepare("COMMIT")?,
            meta: conn.prepare("SELECT fence, last_date, writer FROM meta")?,
            put_meta: conn.prepare("UPDATE meta SET fence = ?1, last_date = ?2, writer = ?3")?,
            find: conn.prepare(
                "SELECT n, scope, id, owner, version, fence, answer, keeps_request FROM records \
                 WHERE scope_prefix = ?1",
            )?,
            whole: conn.prepare(&rows::select("WHERE r.n = ?1"))?,
            insert: conn.prepare(&rows::insert())?,
            update: conn.prepare(&rows::update(true))?,
            update_to_another: conn.prepare(&rows::update(false))?,
            remove: conn.prepare("DELETE FROM records WHERE n = ?1")?,
            put_body: conn.prepare("INSERT OR REPLACE INTO answers (n, body) VALUES (?1, ?2)")?,
            drop_body: conn.prepare("DELETE FROM answers WHERE n = ?1")?,
            put_before: conn
                .prepare("INSERT OR REPLACE INTO answers_before (n, body) VALUES (?1, ?2)")?,
            drop_before: conn.prepare("DELETE FROM answers_before WHERE n = ?1")?,
            put_request: conn
                .prepare("INSERT OR REPLACE INTO requests (n, body) VALUES (?1, ?2)")?,
            drop_request: conn.prepare("DELETE FROM requests WHERE n = ?1")?,
            expired: conn.prepare(
                "SELECT n, scope FROM records WHERE expires_at IS NOT NULL AND expires_at <= ?1 \
                 ORDER BY expires_at LIMIT ?2",
            )?,
        })
    }
}
