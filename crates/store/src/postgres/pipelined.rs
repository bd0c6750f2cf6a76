//! A connection of its own for one statement.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::tokio_postgres::types::ToSql;
use deadpool_postgres::tokio_postgres::{self, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::{Failure, map_error, no_answer, with_timeout};
use crate::error::StoreError;

/// A connection for one statement. Calls do not wait for the answers of earlier ones.
pub(super) struct Pipelined {
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    request_timeout: Duration,
    open: tokio::sync::Mutex<Option<Arc<(tokio_postgres::Client, Statement)>>>,
}

impl Pipelined {
    /// Connects with the first call.
    pub(super) fn new(
        config: tokio_postgres::Config,
        tls: MakeRustlsConnect,
        request_timeout: Duration,
    ) -> Self {
        Self { config, tls, request_timeout, open: tokio::sync::Mutex::default() }
    }

    /// The rows of the statement.
    pub(super) async fn query(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let open = self.open(sql).await?;
        let answer = with_timeout(self.request_timeout, open.0.query(&open.1, params)).await;
        answer.map_err(|failure| match failure {
            Failure::Postgres(error) => map_error(error),
            Failure::TimedOut => no_answer(self.request_timeout),
        })
    }

    /// The connection, opened if there is none that works.
    async fn open(&self, sql: &'static str) -> Result<Arc<(tokio_postgres::Client, Statement)>, StoreError> {
        let mut open = self.open.lock().await;
        if let Some(open) = open.as_ref().filter(|open| !open.0.is_closed()) {
            return Ok(open.clone());
        }
        let connect = async {
            let (client, connection) = self.config.connect(self.tls.clone()).await?;
            // Ends with the connection. Its error is that of the calls.
            tokio::spawn(connection);
            let statement = client.prepare(sql).await?;
            Ok((client, statement))
        };
        match with_timeout(self.request_timeout, connect).await {
            Ok(opened) => Ok(open.insert(Arc::new(opened)).clone()),
            Err(Failure::Postgres(error)) => Err(map_error(error)),
            Err(Failure::TimedOut) => Err(no_answer(self.request_timeout)),
        }
    }
}
