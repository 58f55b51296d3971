//! One file a command.

use std::io::{self, Write};

use steadfast::store::StoreError;

use crate::run::Exit;

pub mod call;
pub mod config;
pub mod deferred;
pub mod demo;
pub mod explain;
pub mod gateway;
pub mod keys;
pub mod plan;
mod policy;
pub mod shell;
pub mod store;

/// The runtime that a command works on.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}

/// A store that failed under a command.
fn print_store_error(error: &StoreError, err: &mut dyn Write) -> io::Result<Exit> {
    writeln!(err, "error: {error}")?;
    Ok(Exit::Failed)
}
