//! Durable pairs through the SQLite store: inserted as dispatched, replaced by the answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steadfast::store::sqlite::Sqlite;
use steadfast::store::{Op, Store, Written};
use steadfast_core::record::Record;

use crate::drive::{Waiter, drive};
use crate::rows::Rows;
use crate::{Failure, Window, measured, on_all_cores};

/// Long enough that nothing expires while it is measured.
pub const KEPT: Duration = Duration::from_secs(86_400);

/// One waiter at the store.
pub struct AtStore {
    store: Arc<dyn Store>,
    rows: Rows,
}

impl AtStore {
    /// So many waiters, whose records are kept for `retention`.
    pub fn some<S: Store>(
        store: &Arc<S>,
        waiters: usize,
        retention: Duration,
    ) -> Result<Vec<AtStore>, Failure> {
        (0..waiters)
            .map(|_| {
                Ok(AtStore {
                    store: Arc::<S>::clone(store),
                    rows: Rows::new(retention)?,
                })
            })
            .collect()
    }

    async fn write(&self, row: Record, op: Op) -> Result<Record, Failure> {
        match Written::of(&row, self.store.apply(op).await?) {
            Written::Done(row) => Ok(*row),
            Written::Stands(_) | Written::Gone => Err("another row stands".into()),
        }
    }
}

impl Waiter for AtStore {
    async fn pair(&mut self) -> Result<(), Failure> {
        let row = self.rows.reserved(self.store.now().await?);
        let op = Op::Insert(Box::new(row.clone()));
        let stands = self.write(row, op).await?;
        let next = self.rows.completed(&stands, self.store.now().await?)?;
        let guard = stands.guard();
        let op = Op::Replace {
            next: next.clone(),
            guard,
            draw: false,
        };
        self.write(*next, op).await?;
        Ok(())
    }
}

/// Fills `store` with so many completed records.
pub async fn fill<S: Store>(
    store: &Arc<S>,
    records: u64,
    retention: Duration,
) -> Result<(), Failure> {
    const WAITERS: u64 = 256;
    let filling: Vec<_> = AtStore::some(store, WAITERS as usize, retention)?
        .into_iter()
        .zip(0..)
        .map(|(mut waiter, n)| {
            let own = records / WAITERS + u64::from(n < records % WAITERS);
            tokio::spawn(async move {
                for _ in 0..own {
                    waiter.pair().await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for work in filling {
        work.await??;
    }
    Ok(())
}

/// Bytes of the store's file and its log.
pub fn bytes_on_disk(path: &Path) -> f64 {
    let of = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        std::fs::metadata(name).map_or(0, |found| found.len())
    };
    (of("") + of("-wal")) as f64
}

/// A window of `waiters` on a fresh store.
pub fn measure(window: Window, dir: &Path, waiters: usize) -> Result<(), Failure> {
    let path = dir.join(format!("store-{waiters}-{}.db", window.round));
    let measured = on_all_cores(async {
        let store = Arc::new(Sqlite::open(&path)?);
        let mut waiting = AtStore::some(&store, waiters, KEPT)?;
        drive(&mut waiting, window.length()).await
    })?;
    let name = format!("store.{waiters}");
    measured.write(window.round, &name);
    // The store is closed, so that its log is copied back.
    let bytes = bytes_on_disk(&path) / measured.pairs as f64;
    measured::write(window.round, &format!("{name}.bytes_a_record"), bytes);
    Ok(())
}
