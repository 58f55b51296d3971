//! When the write-ahead log is copied back into the file.
//!
//! Rule: by the log's size, not by time; on a connection of its own, off the commit path. Only where
//! writes outrun that connection does the writer copy the rest itself, between two commits, so that the
//! log is bounded. Measured: a checkpoint within the commit is the worst tail there is, and a timer
//! costs a lone client a quarter of its rate (ARCHITECTURE.md).

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, Statement};

/// Log pages not yet copied, from which on a checkpoint is worth its syncs: 16 MB.
const COPY_PAGES: i64 = 4_000;

/// Pages of the log at which the writer itself copies the rest, so that the log starts anew: 64 MB.
const LOG_PAGES: i64 = 16_000;

/// The log's file is cut to this length when it starts anew.
pub(super) const LOG_BYTES: i64 = LOG_PAGES * 4096;

/// The writer's view of the log.
pub(super) struct Log<'c> {
    size: Statement<'c>,
    copy: Statement<'c>,
    wake: SyncSender<()>,
    /// The size at which the writer copies next: grows while a reader keeps the log from starting anew.
    copy_at: i64,
}

impl<'c> Log<'c> {
    pub(super) fn new(conn: &'c Connection, wake: SyncSender<()>) -> rusqlite::Result<Log<'c>> {
        Ok(Log {
            size: conn.prepare("PRAGMA wal_checkpoint(NOOP)")?,
            copy: conn.prepare("PRAGMA wal_checkpoint(PASSIVE)")?,
            wake,
            copy_at: LOG_PAGES,
        })
    }

    /// Has the log copied where it is long. A failure here is no write's failure: the next commit tries
    /// again, and an error that lasts shows in the commits themselves.
    pub(super) fn bound(&mut self) {
        let pages = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let Ok((all, copied)) = self.size.query_row([], pages) else {
            return;
        };
        if all < LOG_PAGES {
            self.copy_at = LOG_PAGES;
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
