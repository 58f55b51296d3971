//! Writes while a backlog of expired records is removed by the server's own sweeper, window by
//! window beside writes without it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use steadfast::clock;
use steadfast::server::{Limits, Server, sweep};
use steadfast::store::sqlite::Sqlite;

use crate::drive::drive;
use crate::pairs::{AtStore, KEPT, fill};
use crate::{Failure, Window, measured, on_all_cores};

/// Who writes meanwhile.
const WAITERS: usize = 64;

/// What the sweeping task shares.
struct Sweeping {
    on: AtomicBool,
    gone: AtomicU64,
}

/// `rounds` windows of each kind, then sweeping and writing until the backlog is gone.
pub fn measure(window: Window, dir: &Path, rounds: u32, records: u64) -> Result<(), Failure> {
    on_all_cores(async {
        let store = Arc::new(Sqlite::open(dir.join("expiry.db"))?);
        fill(&store, records, Duration::from_millis(1)).await?;
        let server = Server::new(store.clone(), Limits::default()).await?;
        let mut waiting = AtStore::some(&store, WAITERS, KEPT)?;
        let (mut gone, mut busy) = (0, 0.0);
        for round in 1..=rounds {
            let alone = drive(&mut waiting, window.length()).await?;
            let began = clock::mono_now();
            let (beside, removed) = beside(&server, &mut waiting, window.length()).await?;
            gone += removed;
            busy += clock::mono_now().since(began).as_secs_f64();
            if gone >= records {
                eprintln!("the backlog ended in round {round}, which does not count");
                break;
            }
            alone.write(round, "expiry.alone");
            beside.write(round, "expiry.beside");
        }
        while gone < records {
            let began = clock::mono_now();
            let (_, removed) = beside(&server, &mut waiting, window.length()).await?;
            if removed == 0 {
                return Err("expiry removes nothing; look at the sweeper".into());
            }
            gone += removed;
            busy += clock::mono_now().since(began).as_secs_f64();
        }
        measured::write(1, "expiry.expired_per_s", gone as f64 / busy);
        measured::write(1, "expiry.backlog_seconds", busy);
        Ok(())
    })
}

/// One window with the sweeper at work; how many records it removed.
async fn beside(
    server: &Server,
    waiting: &mut Vec<AtStore>,
    length: Duration,
) -> Result<(crate::drive::Window, u64), Failure> {
    let shared = Arc::new(Sweeping {
        on: AtomicBool::new(true),
        gone: AtomicU64::new(0),
    });
    let (own, server) = (Arc::clone(&shared), server.clone());
    let sweeper = tokio::spawn(async move {
        // As the gateway does: at once again while there is more.
        while own.on.load(Ordering::Acquire) {
            let swept = sweep(&server).await?;
            own.gone
                .fetch_add(u64::from(swept.expired), Ordering::AcqRel);
            if !swept.more {
                break;
            }
        }
        Ok::<_, Failure>(())
    });
    let window = drive(waiting, length).await?;
    shared.on.store(false, Ordering::Release);
    sweeper.await??;
    Ok((window, shared.gone.load(Ordering::Acquire)))
}
