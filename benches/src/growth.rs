//! Pairs on a store of some records beside one of ten times as many, in turns, and what a record
//! takes on the disk.

use std::path::Path;
use std::sync::Arc;

use steadfast::store::sqlite::Sqlite;

use crate::drive::drive;
use crate::pairs::{AtStore, KEPT, bytes_on_disk, fill};
use crate::{Failure, Window, measured, on_all_cores};

/// Who writes.
const WAITERS: usize = 64;

/// Fills both, then measures `rounds` windows of each.
pub fn measure(window: Window, dir: &Path, rounds: u32, records: u64) -> Result<(), Failure> {
    let (small, large) = (dir.join("small.db"), dir.join("large.db"));
    on_all_cores(async {
        let few = Arc::new(Sqlite::open(&small)?);
        fill(&few, records, KEPT).await?;
        // Closed once it is full, so that its log is copied back before it is weighed.
        fill(&Arc::new(Sqlite::open(&large)?), records * 10, KEPT).await?;
        let bytes = bytes_on_disk(&large) / (records * 10) as f64;
        measured::write(1, "growth.bytes_a_record", bytes);
        let many = Arc::new(Sqlite::open(&large)?);
        let mut at_few = AtStore::some(&few, WAITERS, KEPT)?;
        let mut at_many = AtStore::some(&many, WAITERS, KEPT)?;
        for round in 1..=rounds {
            let window = window.length();
            drive(&mut at_few, window)
                .await?
                .write(round, "growth.small");
            drive(&mut at_many, window)
                .await?
                .write(round, "growth.large");
        }
        Ok(())
    })
}
