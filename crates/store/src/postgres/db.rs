//! Postgres for what is written once over both databases.

use std::sync::Arc;

use deadpool_postgres::tokio_postgres::Row;
use tree_agent_contract::{Command, RunId, Timestamp};

use super::columns::Columns;
use super::connection::Connection;
use super::failure::map_error;
use super::{PostgresStore, append, commands};
use crate::error::StoreError;
use crate::logic::inherited::Range;
use crate::logic::sql::{Backend, Cell, Db, Param, Record, Work};
use crate::ports::{Answer, AppendOutcome, Projection, RunAppend, Sent, StoredEvent};
use crate::schema::Dialect;

impl Record for Row {
    fn get<T: Cell>(&self, i: usize) -> Result<T, StoreError> {
        self.try_get(i).map_err(map_error)
    }
}

impl Db for Connection {
    type Row = Row;
    const DIALECT: Dialect = Dialect::Postgres;

    async fn rows(&mut self, sql: &str, params: &[&dyn Param]) -> Result<Vec<Row>, StoreError> {
        let params: Vec<_> = params.iter().map(|param| param.postgres()).collect();
        self.query(sql, &params).await
    }

    async fn append_first(&mut self, append: &RunAppend) -> Result<(), StoreError> {
        append::write(self, std::slice::from_ref(append)).await.map(drop)
    }

    /// The statement of an append, without events and without moving the head.
    async fn project(
        &mut self,
        run: RunId,
        epoch: u64,
        head: (u64, Timestamp),
        projection: &Projection,
    ) -> Result<bool, StoreError> {
        let columns = Columns::of_projection(run, epoch as i64, head, projection)?;
        let shape = columns.shape();
        Ok(self.query(shape.sql(), &columns.params(shape)).await?.len() == 1)
    }

    async fn events(
        &mut self,
        parts: &[Range],
        after: i64,
        limit: i64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        append::events(self, parts, after, limit).await
    }

    async fn send(&mut self, run: RunId, command: &Command) -> Result<Sent, StoreError> {
        commands::send(self, run, command).await
    }

    async fn answer(&mut self, run: RunId, epoch: u64, answers: &[Answer]) -> Result<bool, StoreError> {
        commands::answer(self, run, epoch, answers).await
    }
}

impl Backend for PostgresStore {
    type Db = Connection;

    async fn append(&self, appends: Arc<[RunAppend]>) -> Result<Vec<AppendOutcome>, StoreError> {
        append::append(&mut self.connections.take_ordered().await?, &appends).await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Connection) -> Work<'d, T> + Send + 'static,
    ) -> Result<T, StoreError> {
        work(&mut self.connection().await?).await
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Connection) -> Work<'d, T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.with(work).await
    }

    async fn snapshot<T: Send + 'static>(
        &self,
        work: impl for<'d> FnOnce(&'d mut Connection) -> Work<'d, T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut connection = self.connection().await?;
        connection.begin_snapshot().await?;
        let result = work(&mut connection).await;
        connection.end(result).await
    }

    async fn transaction_if<T: Send + 'static>(
        &self,
        is_kept: fn(&T) -> bool,
        work: impl for<'d> FnOnce(&'d mut Connection) -> Work<'d, T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut connection = self.connection().await?;
        connection.begin().await?;
        match work(&mut connection).await {
            Ok(result) if !is_kept(&result) => connection.roll_back().await.map(|()| result),
            result => connection.end(result).await,
        }
    }

    fn levels(&self) -> Vec<(&'static str, usize)> {
        self.connections.levels()
    }
}
