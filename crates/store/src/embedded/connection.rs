//! Connections, and the meaning of SQLite's errors.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, ffi};
use tree_agent_contract::text::prefix;

use crate::error::StoreError;
pub(super) use crate::types::now;

pub(super) fn open(file: &Path) -> Result<Connection, StoreError> {
    let broken =
        |e| StoreError::broken(format!("{} cannot be opened; check the data directory", file.display()), e);
    prepare(Connection::open(file).map_err(broken)?).map_err(broken)
}

pub(super) fn open_in_memory() -> Result<Connection, StoreError> {
    Connection::open_in_memory().and_then(prepare).map_err(map_error)
}

fn prepare(connection: Connection) -> Result<Connection, rusqlite::Error> {
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(64);
    // FULL: an acknowledged commit survives a power cut. WAL: reads never wait for the writer. The temporary table
    // belongs to the connection: what is set aside is so for as long as the store is open.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
         PRAGMA cache_size = -16000; \
         CREATE TEMP TABLE runs_set_aside (id BLOB PRIMARY KEY) WITHOUT ROWID;",
    )?;
    Ok(connection)
}

/// The meaning of an SQLite error for a caller.
pub(super) fn map_error(error: rusqlite::Error) -> StoreError {
    if let rusqlite::Error::SqlInputError { msg, .. } = &error {
        // The statement itself may be long, and hold what a client sent.
        return StoreError::broken("the database does not take a statement", prefix(msg, 400).to_owned());
    }
    let Some(code) = error.sqlite_error() else {
        return StoreError::broken("a stored value cannot be read", error);
    };
    match code.code {
        ErrorCode::ConstraintViolation
            if matches!(
                code.extended_code,
                ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            ) =>
        {
            StoreError::Conflict(error.to_string())
        }
        ErrorCode::DiskFull => StoreError::unavailable(
            "the disk of the embedded database is full; make room, and the work goes on by itself",
            error,
        ),
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::SystemIoFailure
        | ErrorCode::OutOfMemory
        | ErrorCode::OperationInterrupted => {
            StoreError::unavailable("the embedded database could not serve the call now", error)
        }
        _ => StoreError::broken("the embedded database refused the call", error),
    }
}
