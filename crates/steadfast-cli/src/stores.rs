//! From a store's URL to a store.

use std::sync::Arc;

use steadfast::store::Store;
use steadfast::store::memory::Memory;
use steadfast::store::postgres::{self, Postgres};
use steadfast::store::sqlite::{OpenError, Sqlite};
use steadfast_core::fingerprint::FingerprintSecret;

use crate::settings::address::StoreUrl;
use crate::settings::top::Top;

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// What is there; nothing is made. For an operator's commands.
    Existing,
    /// It is prepared where it is not there yet. Not a database: that is done by `store migrate`
    /// alone, with rights that a gateway need not have.
    Prepare,
}

/// A store that cannot be opened.
#[derive(Debug)]
pub enum NotOpened {
    /// SQLite's file.
    Sqlite(OpenError),
    /// A PostgreSQL database.
    Postgres(postgres::OpenError),
    /// A memory store is gone with the process that holds it.
    OnlyInProcess,
}

impl std::fmt::Display for NotOpened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotOpened::Sqlite(error) => write!(f, "{error}"),
            NotOpened::Postgres(error) => write!(f, "{error}"),
            NotOpened::OnlyInProcess => f.write_str(
                "memory: lives in the gateway's process and cannot be reached from another; ask \
                 the gateway's admin address, or use sqlite:FILE",
            ),
        }
    }
}

impl std::error::Error for NotOpened {}

/// Opens the store of a gateway. One in memory is made for this process, and so knows its secret.
pub fn for_gateway(top: &Top) -> Result<Arc<dyn Store>, NotOpened> {
    match (&top.store, &top.secret) {
        (StoreUrl::Memory, Some(secret)) => {
            let memory = Memory::new();
            let (id, bytes) = FingerprintSecret::of_text(secret.expose());
            memory.register_secret(id, bytes);
            Ok(Arc::new(memory))
        }
        (url, _) => open(url, Open::Prepare),
    }
}

/// Opens the store at `url`.
pub fn open(url: &StoreUrl, how: Open) -> Result<Arc<dyn Store>, NotOpened> {
    match (url, how) {
        (StoreUrl::Sqlite(path), Open::Prepare) => {
            Ok(Arc::new(Sqlite::open(path).map_err(NotOpened::Sqlite)?))
        }
        (StoreUrl::Sqlite(path), Open::Existing) => Ok(Arc::new(
            Sqlite::open_existing(path).map_err(NotOpened::Sqlite)?,
        )),
        (StoreUrl::Postgres(address), _) => Ok(Arc::new(
            Postgres::open(address).map_err(NotOpened::Postgres)?,
        )),
        (StoreUrl::Memory, Open::Prepare) => Ok(Arc::new(Memory::new())),
        (StoreUrl::Memory, Open::Existing) => Err(NotOpened::OnlyInProcess),
    }
}
