//! Opening the store: one thread with its runtime, three connections, and every refusal named.
//!
//! Rule: what cannot work fails the opening, not the first caller; opening changes nothing in the
//! database.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_postgres::error::SqlState;

use super::address::Address;
use super::date::Date;
use super::error::{Fault, said, store_error};
use super::link::{Link, Place};
use super::lookout::Lookout;
use super::reader::{self, Reader};
use super::tls::Tls;
use super::writer::Writer;
use super::{Postgres, schema};
use crate::store::WallClock;
use crate::store::batcher::Batcher;
use crate::store::watch::Hub;

/// Why a database cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Nobody answers at the address, or not in time; the text is the system's.
    Unreachable(String),
    /// The database does not take this user with this password.
    Credentials(String),
    /// There is no database of this name.
    NoDatabase(String),
    /// It takes no writes: a standby, or read-only by its settings.
    ReadOnly,
    /// This user may not use the tables.
    Forbidden(String),
    /// It was never prepared.
    Unprepared,
    /// A migration was begun and not ended.
    HalfMigrated {
        /// The version that it was to make.
        to: i32,
    },
    /// Its tables are of a version that this build does not know.
    Newer {
        /// The tables' version.
        found: i32,
        /// The newest version that this build knows.
        known: i32,
    },
    /// Its tables are of an earlier version.
    Older {
        /// The tables' version.
        found: i32,
        /// The version that this build works with.
        known: i32,
    },
    /// TLS cannot be set up.
    Tls(String),
    /// Something else; the text is the database's or the system's.
    Other(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Unreachable(why) => write!(
                f,
                "the database cannot be reached ({why}); check the address, and that it runs"
            ),
            OpenError::Credentials(why) => write!(
                f,
                "the database does not take this user ({why}); correct the user or the password"
            ),
            OpenError::NoDatabase(why) => {
                write!(f, "{why}; make it with `createdb`, or name another")
            }
            OpenError::ReadOnly => f.write_str(
                "the database takes no writes (a standby, or default_transaction_read_only); name \
                 the primary",
            ),
            OpenError::Forbidden(why) => write!(
                f,
                "the database refuses this user ({why}); grant what docs/operations.md lists"
            ),
            OpenError::Unprepared => {
                f.write_str("it is not prepared; run `steadfast store migrate` on it once")
            }
            OpenError::HalfMigrated { to } => write!(
                f,
                "a migration to version {to} was begun by hand and not ended; undo it (`steadfast \
                 store migrate --print --down` shows how, or restore a backup), then run \
                 `steadfast store migrate`"
            ),
            OpenError::Newer { found, known } => write!(
                f,
                "its schema is version {found} and this build knows versions up to {known}; use \
                 the steadfast that migrated it, or a newer one"
            ),
            OpenError::Older { found, known } => write!(
                f,
                "its schema is version {found} and this build needs {known}; run `steadfast store \
                 migrate` on it"
            ),
            OpenError::Tls(why) => write!(f, "TLS to the database cannot be set up: {why}"),
            OpenError::Other(why) => write!(f, "{why}; check the database and its log"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> OpenError {
        let error = match fault {
            Fault::Late => return OpenError::Unreachable("no answer in time".to_owned()),
            Fault::Store(error) => return OpenError::Other(error.to_string()),
            Fault::Sql(error) => error,
        };
        let words = said(&error);
        match error.code() {
            None => without_code(&error, words),
            Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                OpenError::Credentials(words)
            }
            Some(&SqlState::INVALID_CATALOG_NAME) => OpenError::NoDatabase(words),
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => OpenError::Forbidden(words),
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => OpenError::ReadOnly,
            Some(&SqlState::CANNOT_CONNECT_NOW | &SqlState::TOO_MANY_CONNECTIONS) => {
                OpenError::Unreachable(words)
            }
            Some(_) => match store_error(&Fault::Sql(error)) {
                crate::store::StoreError::Unavailable(why) => OpenError::Other(why),
                other => OpenError::Other(other.to_string()),
            },
        }
    }
}

/// A connection that did not come to stand, or was lost.
fn without_code(error: &tokio_postgres::Error, words: String) -> OpenError {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        // What `target_session_attrs` finds.
        Some(io::ErrorKind::PermissionDenied) => OpenError::ReadOnly,
        Some(io::ErrorKind::InvalidData) => OpenError::Tls(words),
        Some(_) => OpenError::Unreachable(words),
        None => OpenError::Credentials(words),
    }
}

/// The thread on which the connections live.
pub(super) struct Home {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Home {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Home {
    /// Starts it. `begin` runs there, before all else; what it gives is handed back.
    fn start<T: Send + 'static>(
        begin: impl AsyncFnOnce() -> Result<T, OpenError> + Send + 'static,
    ) -> Result<(Home, Handle, T), OpenError> {
        let system = |error: io::Error| OpenError::Other(error.to_string());
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(system)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let (tell, told) = sync_channel(1);
        let work = move || {
            runtime.block_on(async move {
                let begun = begin().await;
                let stays = begun.is_ok();
                let _ = tell.send(begun);
                if stays {
                    let _ = ended.await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("steadfast-database".to_owned());
        let thread = Some(thread.spawn(work).map_err(system)?);
        let end = Some(end);
        let home = Home { end, thread };
        let gone = |_| OpenError::Other("its thread ended while starting".to_owned());
        let begun = told.recv().map_err(gone)??;
        Ok((home, handle, begun))
    }
}

fn place(address: &Address) -> Result<Arc<Place>, OpenError> {
    let tls = Tls::new(address).map_err(OpenError::Tls)?;
    let address = address.clone();
    Ok(Arc::new(Place { address, tls }))
}

/// Opens the store at `address`, with dates from `wall` where it is given.
pub(super) fn open(address: &Address, wall: Option<WallClock>) -> Result<Postgres, OpenError> {
    let place = place(address)?;
    let date = Arc::new(Date::new(wall));
    let (at, first) = (Arc::clone(&place), Arc::clone(&date));
    let begin = async move || {
        let mut link = Link::new(Arc::clone(&at));
        schema::check(&mut link).await?;
        first.learn(reader::clock(&mut link).await?, true);
        Ok((Reader::start(&at), Reader::start(&at), link))
    };
    let (home, runtime, (look_ups, listings, link)) = Home::start(begin)?;
    let look_ups = Arc::new(look_ups);
    let hub: Arc<Hub> = Arc::default();
    let lookout = Lookout::start(&hub, runtime.clone(), Arc::clone(&look_ups));
    let system = |error: io::Error| OpenError::Other(error.to_string());
    let lookout = lookout.map_err(system)?;
    let mut writer = Writer::new(runtime, link, Arc::clone(&date));
    let writes = Batcher::start(Arc::clone(&hub), move |turns| turns.serve(&mut writer));
    Ok(Postgres {
        _lookout: lookout,
        writes: writes.map_err(system)?,
        look_ups,
        listings,
        hub,
        date,
        _home: home,
    })
}

/// Prepares the database at `address`, or brings it to this build's version.
pub(super) fn migrate(address: &Address, partitions: u32) -> Result<(), OpenError> {
    let place = place(address)?;
    let work = async move || {
        let mut link = Link::new(place);
        schema::migrate(&mut link, partitions, crate::clock::wall_now).await
    };
    Home::start(work).map(|_| ())
}
