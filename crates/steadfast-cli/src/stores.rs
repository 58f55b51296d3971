//! From a store's URL to a store.

use std::sync::Arc;

use steadfast::store::Store;
use steadfast::store::memory::Memory;
use steadfast::store::sealed::{Keys, Sealed};
use steadfast::store::sqlite::{OpenError, Sqlite};
use steadfast_core::fingerprint::FingerprintSecret;

use crate::settings::address::StoreUrl;
use crate::settings::top::Top;

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// What is there; nothing is made. For an operator's commands.
    Existing,
    /// It is prepared where it is not there yet.
    Prepare,
}

/// A store that cannot be opened.
#[derive(Debug)]
pub enum NotOpened {
    /// SQLite's file.
    Sqlite(OpenError),
    /// A memory store is gone with the process that holds it.
    OnlyInProcess,
}

impl std::fmt::Display for NotOpened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotOpened::Sqlite(error) => write!(f, "{error}"),
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
    let keys = &top.encrypt_with.keys;
    match (&top.store, &top.secret) {
        (StoreUrl::Memory, Some(secret)) => {
            let memory = Memory::new();
            let (id, bytes) = FingerprintSecret::of_text(secret.expose());
            memory.register_secret(id, bytes);
            Ok(sealed(Arc::new(memory), keys))
        }
        (url, _) => open(url, Open::Prepare, keys),
    }
}

/// Opens the store at `url`, with the keys of the answers in it. Without them it is opened as well:
/// what is not encrypted can be read, and of the rest it says which key is missing.
pub fn open(url: &StoreUrl, how: Open, keys: &Keys) -> Result<Arc<dyn Store>, NotOpened> {
    plain(url, how).map(|store| sealed(store, keys))
}

fn sealed(store: Arc<dyn Store>, keys: &Keys) -> Arc<dyn Store> {
    Arc::new(Sealed::new(store, keys.clone()))
}

fn plain(url: &StoreUrl, how: Open) -> Result<Arc<dyn Store>, NotOpened> {
    match (url, how) {
        (StoreUrl::Sqlite(path), Open::Prepare) => {
            Ok(Arc::new(Sqlite::open(path).map_err(NotOpened::Sqlite)?))
        }
        (StoreUrl::Sqlite(path), Open::Existing) => Ok(Arc::new(
            Sqlite::open_existing(path).map_err(NotOpened::Sqlite)?,
        )),
        (StoreUrl::Memory, Open::Prepare) => Ok(Arc::new(Memory::new())),
        (StoreUrl::Memory, Open::Existing) => Err(NotOpened::OnlyInProcess),
    }
}
