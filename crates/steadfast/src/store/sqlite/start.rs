//! Starting a store's threads: the writer, the readers, the checkpoint, the lookout.
//!
//! Rule: a thread that cannot do its work fails the opening, not the first caller.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;

use super::checkpoint::{self, Checkpointer};
use super::reader::Readers;
use super::{OpenError, Shared, Sqlite, lookout, open, reader, writer};
use crate::clock;
use crate::store::WallClock;
use crate::store::batcher::Batcher;
use crate::store::watch::Hub;

/// The thread that looks for other processes' writes.
pub(super) struct Looking {
    hub: Arc<Hub>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.hub.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) fn start(path: &Path, create: bool, wall: WallClock) -> Result<Sqlite, OpenError> {
    let path = std::path::absolute(path)?;
    let conn = open::writer(&path, create, &wall)?;
    let last: i64 = conn.query_row("SELECT last_date FROM meta", [], |row| row.get(0))?;
    let found = std::fs::metadata(&path)?;
    let shared = Arc::new(Shared {
        place: path.clone(),
        file: (found.dev(), found.ino()),
        wall,
        date: AtomicU64::new(u64::try_from(last).unwrap_or(0)),
        token: i64::from_le_bytes(clock::random()),
        foreign: AtomicBool::new(false),
    });
    let hub: Arc<Hub> = Arc::default();
    let (checkpointer, wake) = Checkpointer::start(open::connect(&path)?)?;
    let look_ups = Readers::start(reader::LOOK_UPS, || open::connect(&path))?;
    let listings = Readers::start(reader::LISTINGS, || open::connect(&path))?;

    // Both threads make their statements before anybody uses the store: a failure there is ours.
    let look_conn = open::connect(&path)?;
    let (looking, on_hub, told) = (Arc::clone(&shared), Arc::clone(&hub), Told::new());
    let tell = told.teller();
    let thread = std::thread::Builder::new()
        .name("steadfast-lookout".to_owned())
        .spawn(move || match lookout::Lookout::new(&look_conn, looking) {
            Ok(mut lookout) => {
                tell(Ok(()));
                on_hub.poll(&mut lookout);
            }
            Err(error) => tell(Err(error)),
        })?;
    let lookout = Looking {
        hub: Arc::clone(&hub),
        thread: Some(thread),
    };
    told.wait()?;

    let (writing, told) = (Arc::clone(&shared), Told::new());
    let tell = told.teller();
    let writes = Batcher::start(Arc::clone(&hub), move |turns| {
        let writer = checkpoint::Log::new(&conn, wake)
            .and_then(|log| writer::Writer::new(&conn, writing, log));
        match writer {
            Ok(mut writer) => {
                tell(Ok(()));
                turns.serve(&mut writer);
            }
            Err(error) => tell(Err(error)),
        }
    })?;
    told.wait()?;
    Ok(Sqlite {
        _lookout: lookout,
        writes,
        _checkpointer: checkpointer,
        look_ups,
        listings,
        hub,
        shared,
        path,
    })
}

/// One word from a starting thread.
struct Told {
    sender: std::sync::mpsc::SyncSender<rusqlite::Result<()>>,
    receiver: std::sync::mpsc::Receiver<rusqlite::Result<()>>,
}

impl Told {
    fn new() -> Told {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        Told { sender, receiver }
    }

    fn teller(&self) -> impl Fn(rusqlite::Result<()>) + Send + use<> {
        let sender = self.sender.clone();
        move |word| {
            let _ = sender.send(word);
        }
    }

    fn wait(self) -> Result<(), OpenError> {
        drop(self.sender);
        let gone = || OpenError::Other("a thread of the store ended while starting".to_owned());
        Ok(self.receiver.recv().map_err(|_| gone())??)
    }
}
