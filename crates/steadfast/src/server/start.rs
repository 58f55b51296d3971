//! From a path to a server, for a program that has one store.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::{Limits, Server};
use crate::store::StoreError;
use crate::store::sqlite::{OpenError, Sqlite};

/// Why there is no server.
#[derive(Debug)]
pub enum StartError {
    /// The file cannot be used.
    Open(OpenError),
    /// The store in it gave no answer.
    Store(StoreError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Open(error) => error.fmt(f),
            StartError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Open(error) => Some(error),
            StartError::Store(error) => Some(error),
        }
    }
}

impl Server {
    /// A server with the usual limits over the SQLite file at `path`, which is made where it is
    /// missing.
    ///
    /// # Errors
    /// The file cannot be used, or the store in it gave no answer.
    pub async fn open(path: impl AsRef<Path>) -> Result<Server, StartError> {
        let store = Sqlite::open(path).map_err(StartError::Open)?;
        let server = Server::new(Arc::new(store), Limits::default()).await;
        server.map_err(StartError::Store)
    }
}
