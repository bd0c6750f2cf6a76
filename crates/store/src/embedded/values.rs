//! Statements on SQLite, and what they return.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, params_from_iter};

use super::connection::map_error;
use crate::error::StoreError;
use crate::logic::sql::{Cell, Param, Record};

/// The values of a row.
pub(crate) struct Values(Vec<Value>);

impl Record for Values {
    fn get<T: Cell>(&self, i: usize) -> Result<T, StoreError> {
        let value = self.0.get(i).map_or(ValueRef::Null, ValueRef::from);
        T::column_result(value).map_err(|e| StoreError::broken("a stored value cannot be read", e))
    }
}

impl Record for Row<'_> {
    fn get<T: Cell>(&self, i: usize) -> Result<T, StoreError> {
        Row::get(self, i).map_err(map_error)
    }
}

/// What work gives that waits for nothing: that on a connection to SQLite.
pub(super) fn done<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(StoreError::broken("the store cannot go on", "work on SQLite waits")),
    }
}

/// The rows of a statement with parameters `$1`, `$2`, …
pub(super) fn rows(db: &Connection, sql: &str, params: &[&dyn Param]) -> Result<Vec<Values>, StoreError> {
    let mut statement = db.prepare_cached(&numbered(sql)).map_err(map_error)?;
    let columns = statement.column_count();
    let params = params_from_iter(params.iter().map(|param| param.sqlite()));
    let values = |row: &Row<'_>| (0..columns).map(|i| row.get(i)).collect::<Result<_, _>>().map(Values);
    let rows = statement.query_map(params, values).map_err(map_error)?;
    rows.collect::<Result<_, _>>().map_err(map_error)
}

/// The statement with `?1` for `$1`, because SQLite takes that for a name.
fn numbered(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        out.push_str(before);
        out.push(if after.starts_with(|c: char| c.is_ascii_digit()) { '?' } else { '$' });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Runs a cached statement and returns how many rows it changed.
pub(super) fn execute(
    db: &Connection,
    sql: &str,
    params: &[&dyn rusqlite::ToSql],
) -> Result<usize, StoreError> {
    db.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(map_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_and_json_paths_are_left() {
        let sql = "SELECT spec ->> '$.a', json_extract($2, '$[' || $10 || ']') WHERE id = $1";
        let numbered = numbered(sql);
        assert_eq!(numbered, "SELECT spec ->> '$.a', json_extract(?2, '$[' || ?10 || ']') WHERE id = ?1");
    }
}
