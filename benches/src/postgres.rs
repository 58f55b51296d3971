//! Durable pairs through the PostgreSQL store: inserted as dispatched, replaced by the answer.

use std::sync::Arc;

use steadfast::store::postgres::{Address, Postgres};

use crate::drive::drive;
use crate::pairs::{AtStore, KEPT};
use crate::{Failure, Window, on_all_cores};

/// A window of `waiters` on the database at `url`, which is prepared.
pub fn measure(window: Window, url: &str, waiters: usize) -> Result<(), Failure> {
    let address = Address::parse(url)?;
    Postgres::migrate(&address, 0)?;
    let measured = on_all_cores(async {
        let store = Arc::new(Postgres::open(&address)?);
        let mut waiting = AtStore::some(&store, waiters, KEPT)?;
        drive(&mut waiting, window.length()).await
    })?;
    measured.write(window.round, &format!("postgres.{waiters}"));
    Ok(())
}
