//! SQLite for what is written once over both databases.

use std::future::Future;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use tree_agent_contract::{Command, RunId, Timestamp};

use super::connection::map_error;
use super::values::{Values, done, rows};
use super::{EmbeddedStore, Transaction, append, commands, projection};
use crate::error::StoreError;
use crate::logic::inherited::Range;
use crate::logic::sql::{Backend, Db, Param, Work};
use crate::ports::{Answer, AppendOutcome, Projection, RunAppend, Sent, StoredEvent};
use crate::schema::Dialect;
use crate::text::json_text;

impl Db for Connection {
    type Row = Values;
    const DIALECT: Dialect = Dialect::Embedded;

    // The work is done when the future is made, because a connection cannot be shared by threads.
    fn rows(
        &mut self,
        sql: &str,
        params: &[&dyn Param],
    ) -> impl Future<Output = Result<Vec<Values>, StoreError>> + Send {
        std::future::ready(rows(self, sql, params))
    }

    async fn append_first(&mut self, append: &RunAppend) -> Result<(), StoreError> {
        append::write(self, append).map(drop)
    }

    async fn project(
        &mut self,
        run: RunId,
        epoch: u64,
        head: (u64, Timestamp),
        projection: &Projection,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM tree_agent_runs WHERE id = ?1 AND epoch = ?2 AND head_seq = ?3";
        let params = params![run.0, epoch as i64, head.0 as i64];
        let is_there = self.query_row(sql, params, |_| Ok(())).optional().map_err(map_error)?.is_some();
        if is_there {
            projection::write(self, run, projection)?;
        }
        Ok(is_there)
    }

    async fn events(
        &mut self,
        parts: &[Range],
        after: i64,
        limit: i64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        append::events(self, parts, after, limit)
    }

    async fn send(&mut self, run: RunId, command: &Command) -> Result<Sent, StoreError> {
        commands::send(self, run, &command.request_id, &json_text(command)?)
    }

    async fn answer(&mut self, run: RunId, epoch: u64, answers: &[Answer]) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM tree_agent_runs WHERE id = ?1 AND epoch = ?2";
        let owned =
            self.query_row(sql, params![run.0, epoch as i64], |_| Ok(())).optional().map_err(map_error)?;
        if owned.is_some() {
            commands::answer(self, run, answers)?;
        }
        Ok(owned.is_some())
    }
}

impl Backend for EmbeddedStore {
    type Db = Connection;

    async fn append(&self, appends: Arc<[RunAppend]>) -> Result<Vec<AppendOutcome>, StoreError> {
        self.write(move |tx| appends.iter().map(|append| append::write(tx, append)).collect()).await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Connection) -> Work<'d, T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.query(move |db| done(work(db))).await
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Connection) -> Work<'d, T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write(move |db| done(work(db))).await
    }

    async fn snapshot<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Connection) -> Work<'d, T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.query(move |db| {
            let transaction = Transaction::begin(db, "BEGIN")?;
            done(work(transaction.0))
        })
        .await
    }

    async fn transaction_if<T: Send + 'static>(
        &self,
        is_kept: fn(&T) -> bool,
        work: impl for<'d> FnOnce(&'d mut Connection) -> Work<'d, T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_if(is_kept, move |db| done(work(db))).await
    }

    fn levels(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }
}
