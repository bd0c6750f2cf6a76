//! The time limit of calls, and the meaning of Postgres errors.

use std::future::Future;
use std::time::Duration;

use deadpool_postgres::tokio_postgres;
use deadpool_postgres::tokio_postgres::error::{DbError, SqlState};

use crate::error::{LockHeld, StoreError, TookTooLong};

/// Postgres does not answer.
pub(super) fn no_answer(limit: Duration) -> StoreError {
    StoreError::unavailable("Postgres did not answer in time", format!("no answer within {limit:?}"))
}

/// Why a call has no answer.
pub(super) enum Failure {
    Postgres(tokio_postgres::Error),
    TimedOut,
}

/// The answer to a call, if it comes in time.
pub(super) async fn with_timeout<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Failure> {
    // The server ends a call that takes too long and says so. Without an answer by then the connection hangs.
    tokio::time::timeout(limit + limit / 4, call)
        .await
        .map_or(Err(Failure::TimedOut), |r| r.map_err(Failure::Postgres))
}

/// The error code of `tree_agent_refuse_place`.
const REFUSED_PLACE: &str = "TA001";

/// What a Postgres error means to a caller.
pub(super) fn map_error(error: tokio_postgres::Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return if is_ours(&error) {
            StoreError::broken("the call cannot be written for Postgres, or its answer cannot be read", error)
        } else {
            StoreError::unavailable("the connection to Postgres failed", error)
        };
    };
    let code = db.code();
    let message = describe(db);
    if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::UNDEFINED_COLUMN {
        StoreError::broken(
            "the database lacks a table that this version needs; run `tree-agent migrate`",
            error,
        )
    } else if *code == SqlState::UNIQUE_VIOLATION || code.code() == REFUSED_PLACE {
        StoreError::Conflict(message)
    } else if *code == SqlState::LOCK_NOT_AVAILABLE {
        StoreError::unavailable("another client of the database holds a row locked", LockHeld(message))
    } else if *code == SqlState::QUERY_CANCELED {
        StoreError::unavailable("Postgres ended the call because it took too long", TookTooLong(message))
    } else if *code == SqlState::DISK_FULL {
        let message = "the disk of Postgres is full; make room, and the work goes on by itself";
        StoreError::unavailable(message, error)
    } else if is_transient(code.code()) {
        StoreError::unavailable("Postgres could not serve the call now", error)
    } else {
        StoreError::broken("Postgres refused the call", error)
    }
}

/// True if another try may succeed: serialization and deadlock, resources, locks, shutdown, I/O, connections, a server
/// that became read-only by a failover, a transaction that idled, and credentials that are being changed.
fn is_transient(code: &str) -> bool {
    const CLASSES: [&str; 7] = ["08", "28", "40", "53", "55", "57", "58"];
    const CODES: [&str; 2] = ["25006", "25P03"];
    // A message that the server cannot read, and a statement that took too long, are the same next time.
    const NOT: [&str; 2] = ["08P01", "57014"];
    (CLASSES.iter().any(|class| code.starts_with(class)) || CODES.contains(&code)) && !NOT.contains(&code)
}

/// True if the client could not encode the call or decode the answer: nothing is wrong with the connection. The client
/// tells that only in words.
fn is_ours(error: &tokio_postgres::Error) -> bool {
    const WORDS: [&str; 5] = [
        "error serializing parameter",
        "error encoding message to server",
        "error deserializing column",
        "invalid column",
        "expected ",
    ];
    let words = error.to_string();
    WORDS.iter().any(|beginning| words.starts_with(beginning))
}

/// True if Postgres refused the credentials.
pub(super) fn is_refused(error: &StoreError) -> bool {
    let source = std::error::Error::source(error).and_then(|e| e.downcast_ref::<tokio_postgres::Error>());
    source.and_then(|e| e.code()).is_some_and(|code| code.code().starts_with("28"))
}

fn describe(error: &DbError) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.message()),
        None => error.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_tell_what_may_work_later() {
        for code in ["08006", "25006", "25P03", "28000", "28P01", "40001", "53100", "55P03", "57P01", "58030"]
        {
            assert!(is_transient(code), "{code}");
        }
        for code in ["08P01", "22021", "22P05", "23514", "25P02", "42601", "54000", "57014", "XX000"] {
            assert!(!is_transient(code), "{code}");
        }
    }
}
