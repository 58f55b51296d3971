//! The reference for the store: an append log that commits in groups. It is about the most that an
//! embedded store could do: no tree, no compaction, no second process, no reading back.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use steadfast::clock;
use steadfast_core::record::{Answer, Record};
use tokio::sync::oneshot;

use crate::drive::{Waiter, drive};
use crate::pairs::KEPT;
use crate::rows::Rows;
use crate::{Failure, Window, frames, on_all_cores};

/// Most writes of one commit.
const BATCH_MAX: usize = 1024;

struct Entry {
    key: [u8; 16],
    /// The version that must stand; zero where nothing may.
    over: u64,
    version: u64,
    content: Vec<u8>,
    done: oneshot::Sender<bool>,
}

/// Where a record lies.
struct Place {
    version: u64,
    _at: u64,
}

/// A log with its writer.
struct Log {
    queue: mpsc::Sender<Entry>,
    writer: JoinHandle<std::io::Result<()>>,
}

impl Log {
    fn open(path: &Path) -> std::io::Result<Log> {
        let file = File::create_new(path)?;
        let (queue, entries) = mpsc::channel();
        let writer = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_on(file, &entries))?;
        Ok(Log { queue, writer })
    }
}

/// Writes what is queued, group by group, until nobody can queue any more.
fn write_on(mut file: File, entries: &mpsc::Receiver<Entry>) -> std::io::Result<()> {
    let mut index: HashMap<[u8; 16], Place> = HashMap::new();
    let (mut group, mut frame) = (Vec::new(), Vec::new());
    let mut at = 0u64;
    while let Ok(first) = entries.recv() {
        let more = std::iter::from_fn(|| entries.try_recv().ok()).take(BATCH_MAX - 1);
        let batch: Vec<Entry> = std::iter::once(first).chain(more).collect();
        group.clear();
        let mut ends = Vec::with_capacity(batch.len());
        for entry in batch {
            let stands = index.get(&entry.key).map_or(0, |place| place.version);
            let done = stands == entry.over;
            if done {
                frame.clear();
                frame.extend_from_slice(&entry.key);
                frame.extend_from_slice(&entry.version.to_le_bytes());
                frame.extend_from_slice(&entry.content);
                let place = Place {
                    version: entry.version,
                    _at: at + group.len() as u64,
                };
                index.insert(entry.key, place);
                frames::put(&mut group, &frame);
            }
            ends.push((entry.done, done));
        }
        file.write_all(&group)?;
        file.sync_data()?;
        at += group.len() as u64;
        for (caller, done) in ends {
            let _ = caller.send(done);
        }
    }
    Ok(())
}

/// One waiter at the log.
struct AtLog {
    queue: mpsc::Sender<Entry>,
    rows: Rows,
}

impl AtLog {
    async fn write(&self, row: &Record, over: u64) -> Result<(), Failure> {
        let mut key = [0; 16];
        key.copy_from_slice(&row.scope.as_bytes()[..16]);
        let (done, ended) = oneshot::channel();
        let entry = Entry {
            key,
            over,
            version: row.version,
            content: content(row),
            done,
        };
        self.queue.send(entry)?;
        match ended.await? {
            true => Ok(()),
            false => Err("another record stands".into()),
        }
    }
}

impl Waiter for AtLog {
    async fn pair(&mut self) -> Result<(), Failure> {
        let row = self.rows.reserved(clock::wall_now());
        self.write(&row, 0).await?;
        let next = self.rows.completed(&row, clock::wall_now())?;
        self.write(&next, row.version).await
    }
}

/// What a record is made of, without names: scope, id, key, operation, dates, owner, answer.
fn content(row: &Record) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + 512);
    out.extend_from_slice(row.scope.as_bytes());
    out.extend_from_slice(&row.id.bits().to_le_bytes());
    let date = |at: Option<steadfast_core::time::WallTime>| at.map_or(0, |at| at.unix_ms());
    let standing = &row.standing;
    for number in [
        row.created_at.unix_ms(),
        row.updated_at.unix_ms(),
        date(standing.locked_until),
        date(standing.final_at),
        date(standing.expires_at),
        standing.fence,
        u64::from(standing.attempts),
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for text in [
        row.tenant.as_str(),
        &row.principal_rule,
        row.operation.method().as_str(),
        row.operation.path(),
        row.key.as_str(),
        standing.state.as_str(),
        standing.effect.as_str(),
        &standing.reason,
        &standing.owner.to_string(),
    ] {
        out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(text.as_bytes());
    }
    // A fingerprint is 32 bytes.
    out.extend_from_slice(&[0; 32]);
    if let Answer::Stored(answer) = &standing.answer {
        for (name, value) in &answer.headers {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(&answer.body);
    }
    out
}

/// A window of `waiters` on a fresh log.
pub fn measure(window: Window, dir: &Path, waiters: usize) -> Result<(), Failure> {
    let path = dir.join(format!("log-{waiters}-{}", window.round));
    let Log { queue, writer } = Log::open(&path)?;
    let measured = on_all_cores(async {
        let mut waiting = (0..waiters)
            .map(|_| {
                let queue = queue.clone();
                Rows::new(KEPT).map(|rows| AtLog { queue, rows })
            })
            .collect::<Result<Vec<_>, _>>()?;
        drive(&mut waiting, window.length()).await
    })?;
    drop(queue);
    writer.join().map_err(|_| "the log's writer panicked")??;
    measured.write(window.round, &format!("log.{waiters}"));
    Ok(())
}
