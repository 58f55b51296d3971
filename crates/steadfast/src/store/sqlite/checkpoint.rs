//! When the write-ahead log is copied back into the file.
//!
//! Rule: by the log's size, not by time; on a connection of its own, off the commit path. Only
//! where writes outrun that connection does the writer copy the rest itself, between two commits,
//! so that the log is bounded. Measured: a checkpoint within the commit is the worst tail there
//! is, and a timer costs a lone client a quarter of its rate (ARCHITECTURE.md).

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, Statement};

/// Log pages not yet copied, from which on a checkpoint is worth its syncs: 16 MB.
const COPY_PAGES: i64 = 4_000;

/// Pages of the log at which the writer itself copies the rest, so that the log starts anew: 64
/// MB.
const LOG_PAGES: i64 = 16_000;

/// The log's file is cut to this length when it starts anew.
pub(super) const LOG_BYTES: i64 = LOG_PAGES * 4096;

/// The writer's view of the log.
pub(super) struct Log<'c> {
    size: Statement<'c>,
    copy: Statement<'c>,
    wake: SyncSender<()>,
    /// [`LOG_PAGES`], but for tests.
    bound: i64,
    /// The size at which the writer copies next: grows while a reader keeps the log from starting
    /// anew.
    copy_at: i64,
}

impl<'c> Log<'c> {
    pub(super) fn new(conn: &'c Connection, wake: SyncSender<()>) -> rusqlite::Result<Log<'c>> {
        Ok(Log {
            size: conn.prepare("PRAGMA wal_checkpoint(NOOP)")?,
            copy: conn.prepare("PRAGMA wal_checkpoint(PASSIVE)")?,
            wake,
            bound: LOG_PAGES,
            copy_at: LOG_PAGES,
        })
    }

    /// Has the log copied where it is long. A failure here is no write's failure: the next commit
    /// tries again, and an error that lasts shows in the commits themselves.
    pub(super) fn bound(&mut self) {
        let pages = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let Ok((all, copied)) = self.size.query_row([], pages) else {
            return;
        };
        if all < self.bound {
            self.copy_at = self.bound;
        }
        if all >= self.copy_at {
            self.copy_at = all + COPY_PAGES;
            let _ = self.copy.query_row([], |_| Ok(()));
        } else if all - copied >= COPY_PAGES {
            // Full: it is at work already.
            let _ = self.wake.try_send(());
        }
    }
}

/// The thread with the second connection.
pub(super) struct Checkpointer {
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts it. It ends once the sender is gone.
    pub(super) fn start(conn: Connection) -> std::io::Result<(Checkpointer, SyncSender<()>)> {
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("steadfast-checkpoint".to_owned())
            .spawn(move || serve(&conn, &woken))?;
        let thread = Some(thread);
        Ok((Checkpointer { thread }, wake))
    }
}

fn serve(conn: &Connection, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        let _ = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: i64 = 50;

    fn logged(dir: &tempfile::TempDir) -> Connection {
        let conn = Connection::open(dir.path().join("log.db")).expect("a database");
        conn.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x);",
        )
        .expect("its log");
        conn
    }

    /// The longest that the log gets over many commits.
    fn longest(conn: &Connection) -> i64 {
        let (wake, _woken) = sync_channel(1);
        let mut log = Log::new(conn, wake).expect("its statements");
        (log.bound, log.copy_at) = (BOUND, BOUND);
        let mut longest = 0;
        for _ in 0..300 {
            conn.execute("INSERT INTO t VALUES (zeroblob(9000))", [])
                .expect("a write");
            let pages: i64 = log.size.query_row([], |row| row.get(1)).expect("its size");
            longest = longest.max(pages);
            log.bound();
        }
        longest
    }

    #[test]
    fn the_log_is_bounded_though_nobody_else_copies_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let longest = longest(&logged(&dir));
        assert!((BOUND..BOUND + 10).contains(&longest), "{longest}");
    }

    #[test]
    fn a_reader_that_keeps_the_log_does_not_stop_writes() {
        let dir = tempfile::tempdir().expect("a directory");
        let conn = logged(&dir);
        let reader = Connection::open(dir.path().join("log.db")).expect("a reader");
        let view = "BEGIN; SELECT count(*) FROM t";
        reader.execute_batch(view).expect("a view that stays open");
        assert!(longest(&conn) > BOUND, "the log waits for the reader");
        reader.execute_batch("COMMIT").expect("the view is left");
        longest(&conn);
        conn.execute("INSERT INTO t VALUES (1)", [])
            .expect("a write");
        let sql = "PRAGMA wal_checkpoint(NOOP)";
        let pages: i64 = conn.query_row(sql, [], |row| row.get(1)).expect("its size");
        assert!(pages < BOUND + 10, "and starts anew after it: {pages}");
    }
}
