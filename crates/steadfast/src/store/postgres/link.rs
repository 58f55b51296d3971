//! One connection to the database, made anew when it is needed.
//!
//! Decides when a connection is given up, and bounds every call. Rule: one statement is under way
//! at a time, each by itself (unnamed, with its types told, in no transaction block), so that a
//! pooler may hand every statement to another server connection; nothing is left behind on a
//! connection. A pool of connections would give no more: whoever writes, looks up or lists has one
//! of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use super::address::Address;
use super::error::Fault;
use super::tls::Tls;
use crate::clock;

/// How long a statement may take that callers wait for. They are told sooner, by their
/// `store_timeout`; this is when the connection is given up.
pub(super) const CALL_WITHIN: Duration = Duration::from_secs(5);

/// How long a listing of all rows may take.
pub(super) const LISTING_WITHIN: Duration = Duration::from_secs(60);

/// How long it may take to ask a server to end a statement.
const CANCEL_WITHIN: Duration = Duration::from_secs(1);

/// A parameter with its type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Where connections lead.
pub(super) struct Place {
    pub(super) address: Address,
    pub(super) tls: Tls,
}

/// One connection.
pub(super) struct Link {
    place: Arc<Place>,
    client: Option<Client>,
}

impl Link {
    pub(super) fn new(place: Arc<Place>) -> Link {
        let client = None;
        Link { place, client }
    }

    /// The connection, if it stands; else a new one.
    async fn client(&mut self) -> Result<&Client, Fault> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.client = None;
            let client = connect(&self.place).await?;
            self.client = Some(client);
        }
        self.client.as_ref().ok_or(Fault::Late)
    }

    /// Performs one statement.
    pub(super) async fn query(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
        within: Duration,
    ) -> Result<Vec<Row>, Fault> {
        let client = self.client().await?;
        let asked = clock::within(within, client.query_typed(sql, parameters)).await;
        self.judge(asked)
    }

    /// Performs several statements that take no parameters.
    pub(super) async fn run(&mut self, sql: &str, within: Duration) -> Result<(), Fault> {
        let client = self.client().await?;
        let asked = clock::within(within, client.batch_execute(sql)).await;
        self.judge(asked)
    }

    fn judge<T>(&mut self, asked: Result<Result<T, Error>, clock::Elapsed>) -> Result<T, Fault> {
        let fault = match asked {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => Fault::Sql(error),
            Err(clock::Elapsed) => Fault::Late,
        };
        if let Fault::Late = fault {
            self.cancel();
        }
        if fault.ends_connection() {
            self.client = None;
        }
        Err(fault)
    }

    /// Asks the server to end what nobody waits for any more.
    fn cancel(&self) {
        let Some(client) = &self.client else { return };
        let (token, tls) = (client.cancel_token(), self.place.tls.clone());
        tokio::spawn(async move {
            let _ = clock::within(CANCEL_WITHIN, token.cancel_query(tls)).await;
        });
    }
}

/// A new connection, to a server that takes writes.
async fn connect(place: &Place) -> Result<Client, Fault> {
    let connecting = place.address.config.connect(place.tls.clone());
    let within = clock::within(place.address.connect_within() * 2, connecting).await;
    let (client, connection) = within.map_err(|clock::Elapsed| Fault::Late)??;
    tokio::spawn(async move {
        // Whoever asks next finds it closed.
        let _ = connection.await;
    });
    Ok(client)
}
