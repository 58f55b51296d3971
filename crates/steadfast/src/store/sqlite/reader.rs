//! Reads, on threads and connections of their own: they wait for no write and block no task.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::{Connection, Statement, params_from_iter, types::Value};
use steadfast_core::key::ScopeHash;
use steadfast_core::record::{OperationId, Record};
use steadfast_core::time::WallTime;
use tokio::sync::{Semaphore, oneshot};

use super::error::store_error;
use super::rows;
use crate::store::{Cursor, Page, Scan, Secrets, StoreError, codec};

/// Threads for reads by key. One takes some 15 µs from the page cache, so two keep up with any
/// writer.
pub(super) const LOOK_UPS: usize = 2;

/// Threads for reads that may go through all rows: one, so that no number of operators and
/// dashboards takes the disk from the callers.
pub(super) const LISTINGS: usize = 1;

/// Reads that wait for a thread; beyond, callers wait for room.
const WAITING: usize = 1024;

type Job = Box<dyn FnOnce(&mut Reader<'_>) + Send>;

/// The threads that read.
pub(super) struct Readers {
    jobs: Option<Sender<Job>>,
    room: Arc<Semaphore>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts so many, each on a connection from `connect`.
    pub(super) fn start<E: From<std::io::Error>>(
        threads: usize,
        connect: impl Fn() -> Result<Connection, E>,
    ) -> Result<Readers, E> {
        let (sender, jobs) = channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        let mut readers = Readers {
            jobs: Some(sender),
            room: Arc::new(Semaphore::new(WAITING)),
            threads: Vec::new(),
        };
        for _ in 0..threads {
            let (conn, jobs) = (connect()?, Arc::clone(&jobs));
            let thread = std::thread::Builder::new()
                .name("steadfast-read".to_owned())
                .spawn(move || serve(&conn, &jobs))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Runs `read` on one of the threads.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let room = room.map_err(|_| StoreError::Closed)?;
        let (reply, end) = oneshot::channel();
        let job: Job = Box::new(move |reader| {
            // The place in the queue is the job's: a caller who leaves does not take it off.
            let _room = room;
            if !reply.is_closed() {
                let _ = reply.send(read(reader));
            }
        });
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.send(job).map_err(|_| StoreError::Closed)?;
        end.await.unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(conn: &Connection, jobs: &Mutex<Receiver<Job>>) {
    let mut reader = Reader {
        conn,
        by_scope: None,
        by_id: None,
        by_bare_id: None,
        count: None,
    };
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(&mut reader),
            Err(_) => return,
        }
    }
}

/// One connection that reads.
pub(super) struct Reader<'c> {
    pub(super) conn: &'c Connection,
    by_scope: Option<Statement<'c>>,
    by_id: Option<Statement<'c>>,
    by_bare_id: Option<Statement<'c>>,
    pub(super) count: Option<Statement<'c>>,
}

impl Reader<'_> {
    pub(super) fn get(&mut self, scope: &ScopeHash) -> Result<Option<Record>, StoreError> {
        let (conn, sql) = (self.conn, "WHERE r.scope_prefix = ?1");
        let found = one(conn, &mut self.by_scope, sql, &[rows::prefix(scope)])?;
        match found {
            Some(row) if row.scope != *scope => {
                let why = "another operation's hash begins with the same bytes";
                Err(rows::unreadable(&row.id.to_bytes(), why))
            }
            found => Ok(found),
        }
    }

    pub(super) fn by_id(&mut self, id: OperationId) -> Result<Option<Record>, StoreError> {
        let bytes = id.to_bytes();
        let Some(place) = id.place() else {
            let sql = "WHERE r.id = ?1 AND length(r.id) = 16";
            return one(self.conn, &mut self.by_bare_id, sql, &[&bytes]);
        };
        let edge = |filler: u8| {
            let mut edge = [filler; rows::PREFIX];
            edge[..place.len()].copy_from_slice(place);
            edge
        };
        let sql = "WHERE r.scope_prefix BETWEEN ?1 AND ?2 AND r.id = ?3";
        let keys: [&[u8]; 3] = [&edge(0), &edge(0xff), &bytes];
        one(self.conn, &mut self.by_id, sql, &keys)
    }

    /// Rows due, the longest due first. A row that cannot be read does not hide those after it.
    pub(super) fn due(&mut self, now: WallTime, limit: u32) -> Result<Page, StoreError> {
        let sql = rows::select(
            "WHERE r.locked_until IS NOT NULL AND r.locked_until <= ?1 ORDER BY r.locked_until",
        );
        let mut page = Page::default();
        let mut statement = self.conn.prepare(&sql).map_err(|e| store_error(&e))?;
        let mut found = statement
            .query([codec::date(now)])
            .map_err(|e| store_error(&e))?;
        while page.rows.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
            match found.next().map_err(|e| store_error(&e))?.map(rows::read) {
                None => break,
                Some(Ok((row, _))) => page.rows.push(row),
                Some(Err(StoreError::Unreadable(why))) => page.unreadable.push(why),
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(page)
    }

    pub(super) fn scan(&mut self, scan: &Scan) -> Result<Page, StoreError> {
        let (rest, values) = filters(scan);
        let sql = rows::select(&rest);
        let mut statement = self.conn.prepare(&sql).map_err(|e| store_error(&e))?;
        let mut found = statement
            .query(params_from_iter(values))
            .map_err(|e| store_error(&e))?;
        let mut page = Page::default();
        let mut last = None;
        while let Some(row) = found.next().map_err(|e| store_error(&e))? {
            last = u64::try_from(rows::number(row)?).ok();
            // One spoilt row must not hide all others from whoever has to find it.
            match rows::read(row) {
                Ok((row, _)) => page.rows.push(row),
                Err(StoreError::Unreadable(why)) => page.unreadable.push(why),
                Err(error) => return Err(error),
            }
        }
        let given = page.rows.len() + page.unreadable.len();
        let full = given == usize::try_from(scan.limit).unwrap_or(usize::MAX);
        page.next = last.filter(|_| full).map(Cursor);
        Ok(page)
    }

    pub(super) fn secrets(&mut self) -> Result<Secrets, StoreError> {
        let secrets = super::schema::secrets(self.conn).map_err(|e| store_error(&e))?;
        secrets.ok_or_else(|| {
            let why = "its secrets are damaged; restore it from a backup";
            StoreError::Unavailable(why.to_owned())
        })
    }
}

fn one<'c>(
    conn: &'c Connection,
    kept: &mut Option<Statement<'c>>,
    rest: &str,
    keys: &[&[u8]],
) -> Result<Option<Record>, StoreError> {
    let statement = match kept {
        Some(statement) => statement,
        None => kept.insert(
            conn.prepare(&rows::select(rest))
                .map_err(|e| store_error(&e))?,
        ),
    };
    let mut found = statement
        .query(params_from_iter(keys))
        .map_err(|e| store_error(&e))?;
    match found.next().map_err(|e| store_error(&e))? {
        Some(row) => rows::read(row).map(|(record, _)| Some(record)),
        None => Ok(None),
    }
}

fn filters(scan: &Scan) -> (String, Vec<Value>) {
    let after = scan.after.map_or(0, |cursor| cursor.0);
    let mut rest = String::from("WHERE r.n > ?");
    let mut values = vec![Value::Integer(i64::try_from(after).unwrap_or(i64::MAX))];
    let wanted = [
        (
            "state = ?",
            scan.state
                .map(|state| Value::Text(state.as_str().to_owned())),
        ),
        (
            "updated_at < ?",
            scan.updated_before
                .map(|at| Value::Integer(codec::date(at))),
        ),
        (
            "locked_until < ?",
            scan.locked_before.map(|at| Value::Integer(codec::date(at))),
        ),
        (
            "owner = ?",
            scan.owner.map(|owner| Value::Text(owner.to_string())),
        ),
        (
            "tenant = ?",
            scan.tenant
                .as_ref()
                .map(|t| Value::Text(codec::tenant_text(t).to_owned())),
        ),
        (
            "key = ?",
            scan.key
                .as_ref()
                .map(|key| Value::Text(codec::key_text(key).to_owned())),
        ),
    ];
    for (sql, value) in wanted {
        if let Some(value) = value {
            rest.push_str(" AND r.");
            rest.push_str(sql);
            values.push(value);
        }
    }
    rest.push_str(" ORDER BY r.n LIMIT ?");
    values.push(Value::Integer(i64::from(scan.limit)));
    (rest, values)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// Readers whose threads are all at work until the sender is dropped.
    fn all_at_work() -> (Readers, Sender<()>) {
        let open = || Connection::open_in_memory().map_err(std::io::Error::other);
        let readers = Readers::start(LOOK_UPS, open).expect("readers");
        let (end, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for _ in 0..LOOK_UPS {
            let held = Arc::clone(&held);
            let job: Job = Box::new(move |_| {
                let _ = held.lock().expect("its turn").recv();
            });
            let jobs = readers.jobs.as_ref().expect("they are open");
            jobs.send(job).expect("a thread");
        }
        (readers, end)
    }

    #[test]
    fn reads_that_nobody_waits_for_any_more_count_until_they_are_off_the_queue() {
        let (readers, end) = all_at_work();
        for _ in 0..WAITING {
            let left = readers.run(|_| Ok(())).now_or_never();
            assert!(left.is_none(), "no thread was free");
        }
        assert_eq!(readers.room.available_permits(), 0, "the queue is full");
        drop(end);
    }
}
