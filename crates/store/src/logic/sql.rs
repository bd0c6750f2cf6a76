//! One way to call either database. What is above the SQL is written once, over these traits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use deadpool_postgres::tokio_postgres::types as postgres;
use rusqlite::types as sqlite;
use serde::de::DeserializeOwned;
use tree_agent_contract::{Command, RunId, Timestamp};

use super::inherited::Range;
use crate::error::StoreError;
use crate::ports::{Answer, AppendOutcome, Projection, RunAppend, Sent, StoredEvent};
use crate::schema::Dialect;
use crate::types::{Json, Time};

/// A parameter of a statement.
pub(crate) trait Param: Send + Sync {
    fn postgres(&self) -> &(dyn postgres::ToSql + Sync);
    fn sqlite(&self) -> &dyn sqlite::ToSql;
}

impl<T: postgres::ToSql + sqlite::ToSql + Send + Sync> Param for T {
    fn postgres(&self) -> &(dyn postgres::ToSql + Sync) {
        self
    }

    fn sqlite(&self) -> &dyn sqlite::ToSql {
        self
    }
}

/// A value of a column.
pub(crate) trait Cell: for<'a> postgres::FromSql<'a> + sqlite::FromSql {}
impl<T: for<'a> postgres::FromSql<'a> + sqlite::FromSql> Cell for T {}

/// A row that a statement returned.
pub(crate) trait Record {
    /// The value of column `i`, from 0.
    fn get<T: Cell>(&self, i: usize) -> Result<T, StoreError>;

    /// A number that is never negative.
    fn number(&self, i: usize) -> Result<u64, StoreError> {
        self.get::<i64>(i).map(|number| number as u64)
    }

    fn time(&self, i: usize) -> Result<Timestamp, StoreError> {
        self.get::<Time>(i).map(|at| at.0)
    }

    fn time_opt(&self, i: usize) -> Result<Option<Timestamp>, StoreError> {
        self.get::<Option<Time>>(i).map(|at| at.map(|at| at.0))
    }

    /// A value that is stored as JSON; `what` names it in the error.
    fn json<T: DeserializeOwned>(&self, i: usize, what: impl FnOnce() -> String) -> Result<T, StoreError> {
        parse(&self.get::<Json>(i)?.0, what)
    }
}

/// Reads what is stored as JSON; `what` names it in the error.
pub(crate) fn parse<T: DeserializeOwned>(
    text: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T, StoreError> {
    serde_json::from_slice(text).map_err(|e| StoreError::broken(format!("{} cannot be read", what()), e))
}

/// A connection to a database. Parameters are `$1`, `$2`, …
pub(crate) trait Db: Send {
    type Row: Record + Send + Sync;
    const DIALECT: Dialect;

    /// The rows of a statement, which is prepared once per connection.
    fn rows(
        &mut self,
        sql: &str,
        params: &[&dyn Param],
    ) -> impl Future<Output = Result<Vec<Self::Row>, StoreError>> + Send;

    /// The first row of a statement.
    fn row(
        &mut self,
        sql: &str,
        params: &[&dyn Param],
    ) -> impl Future<Output = Result<Option<Self::Row>, StoreError>> + Send {
        async { Ok(self.rows(sql, params).await?.into_iter().next()) }
    }

    /// Runs a statement.
    fn run(
        &mut self,
        sql: &str,
        params: &[&dyn Param],
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { self.rows(sql, params).await.map(drop) }
    }

    /// Writes the first append of a run.
    fn append_first(&mut self, append: &RunAppend) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Writes projection rows of a run whose row has this epoch and this head; false if it has others.
    fn project(
        &mut self,
        run: RunId,
        epoch: u64,
        head: (u64, Timestamp),
        projection: &Projection,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Events of these parts of a log, as they are stored: those after `after`, in order, at most `limit` and
    /// [`READ_BYTES`](crate::READ_BYTES).
    fn events(
        &mut self,
        parts: &[Range],
        after: i64,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<StoredEvent>, StoreError>> + Send;

    /// Sends a command, or says what has become of it.
    fn send(
        &mut self,
        run: RunId,
        command: &Command,
    ) -> impl Future<Output = Result<Sent, StoreError>> + Send;

    /// Answers commands without an event. False if the run is in another epoch.
    fn answer(
        &mut self,
        run: RunId,
        epoch: u64,
        answers: &[Answer],
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// Work on a connection.
pub(crate) type Work<'d, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'd>>;

/// A store over a database.
pub(crate) trait Backend: Clone + Send + Sync + 'static {
    type Db: Db;

    /// Appends to runs, see [`EventLog::append`](crate::EventLog::append).
    fn append(
        &self,
        appends: Arc<[RunAppend]>,
    ) -> impl Future<Output = Result<Vec<AppendOutcome>, StoreError>> + Send;

    /// Runs `work`, which only reads.
    fn with<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Self::Db) -> Work<'d, T> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs `work`, which writes with a single statement.
    fn write<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Self::Db) -> Work<'d, T> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs `work` in a transaction that reads as of one moment and writes nothing.
    fn snapshot<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Self::Db) -> Work<'d, T> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs `work` in a transaction, which is rolled back after an error and if `is_kept` is false for what it returns.
    fn transaction_if<T: Send + 'static>(
        &self,
        is_kept: fn(&T) -> bool,
        work: impl for<'d> FnOnce(&'d mut Self::Db) -> Work<'d, T> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send;

    /// Runs `work` in a transaction, which is rolled back after an error.
    fn transaction<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Self::Db) -> Work<'d, T> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        self.transaction_if(|_| true, work)
    }

    /// Connections by what they do.
    fn levels(&self) -> Vec<(&'static str, usize)>;
}

/// Conditions and the parameters that they name.
#[derive(Default)]
pub(crate) struct Filter {
    params: Vec<Box<dyn Param>>,
    conditions: Vec<String>,
}

impl Filter {
    /// Adds a parameter and returns its name.
    pub(crate) fn param(&mut self, value: impl Param + 'static) -> String {
        self.params.push(Box::new(value));
        format!("${}", self.params.len())
    }

    pub(crate) fn params(&self) -> Vec<&dyn Param> {
        self.params.iter().map(|param| &**param).collect()
    }

    pub(crate) fn add(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }

    /// `column = value`.
    pub(crate) fn equals(&mut self, column: &str, value: impl Param + 'static) {
        let value = self.param(value);
        self.add(format!("{column} = {value}"));
    }

    /// All conditions, of which there is at least one.
    pub(crate) fn sql(&self) -> String {
        self.conditions.join(" AND ")
    }
}
