//! PostgreSQL's errors as the store's, by their codes: the one door through which they come.

use std::error::Error as _;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::store::{StoreError, fence};

/// Why a call to the database did not come to an end.
#[derive(Debug)]
pub(super) enum Fault {
    /// The database said why, or the connection failed.
    Sql(Error),
    /// Nothing came back in time. What became of the call is not known.
    Late,
    /// It is the store's own to say.
    Store(StoreError),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Store(error)
    }
}

/// What is to be done about a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Its reason lies in one of its rows: the others may go on.
    Apart,
    /// The database asks to send it again.
    Again,
    /// Nothing.
    None,
}

impl Fault {
    pub(super) fn remedy(&self) -> Remedy {
        let Fault::Sql(error) = self else {
            return Remedy::None;
        };
        let Some(code) = error.code() else {
            return Remedy::None;
        };
        match code {
            &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => {
                Remedy::Again
            }
            &SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED => Remedy::None,
            code if ["22", "23", "54"].contains(&class(code)) => Remedy::Apart,
            _ => Remedy::None,
        }
    }

    /// Whether the connection is not to be used again: it is gone, nobody knows what it is at, or
    /// it leads to a server that takes no writes (any more).
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Fault::Late => true,
            Fault::Store(_) => false,
            Fault::Sql(error) => match error.code() {
                None => true,
                Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => true,
                Some(code) => ["08", "57", "XX"].contains(&class(code)),
            },
        }
    }
}

fn class(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or_default()
}

/// What a failed call means for its caller.
pub(super) fn store_error(fault: &Fault) -> StoreError {
    let error = match fault {
        Fault::Store(error) => return error.clone(),
        Fault::Late => {
            let why = "the database did not answer in time; steadfast goes on by itself once it \
                       does";
            return StoreError::Unavailable(why.to_owned());
        }
        Fault::Sql(error) => error,
    };
    let Some(code) = error.code() else {
        return StoreError::Unavailable(without_code(error));
    };
    let said = said(error);
    match code {
        &SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED => fence::used_up(),
        &SqlState::DISK_FULL => StoreError::Full(
            "no room left on the database's disk; free some, nothing else is needed".to_owned(),
        ),
        &SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly(
            "the database takes no writes (a standby, or default_transaction_read_only); name the \
             primary"
                .to_owned(),
        ),
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Unavailable(format!(
            "the database refuses this user ({said}); grant what docs/operations.md lists"
        )),
        &SqlState::UNDEFINED_TABLE
        | &SqlState::UNDEFINED_COLUMN
        | &SqlState::INVALID_SCHEMA_NAME => StoreError::Unavailable(format!(
            "its tables are not there any more ({said}); restore them, or run `steadfast store \
             migrate`"
        )),
        _ => StoreError::Unavailable(format!("{said}; steadfast goes on by itself once it works")),
    }
}

/// The database's own words. Never its detail, which may show a row.
pub(super) fn said(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{} (code {})", told.message(), told.code().code()),
        None => without_code(error),
    }
}

/// A connection that failed, or never stood.
fn without_code(error: &Error) -> String {
    let cause = error.source();
    let io = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    match (io, cause) {
        (Some(io), _) => format!("no connection to the database: {io}"),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
