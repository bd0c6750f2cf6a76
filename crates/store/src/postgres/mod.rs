//! The store on Postgres.
//!
//! [`PostgresStore::connect`] needs a migrated database ([`PostgresStore::migrate`]) and never retries: the caller
//! decides how long to wait. [`PoolConfig::request_timeout`] limits every call that can wait.

mod append;
mod append_sql;
mod archives;
mod columns;
mod commands;
mod connection;
mod db;
mod failure;
mod leases;
mod migrate;
mod pipelined;
mod tls;

use std::time::Duration;

pub use connection::PoolConfig;

use crate::error::StoreError;
use crate::types;
use connection::{Connection, Connections};

/// A store on Postgres. Clones share one pool.
#[derive(Clone)]
pub struct PostgresStore {
    connections: Connections,
}

impl PostgresStore {
    /// Connects and checks that this version supports the schema.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while Postgres cannot be reached; [`StoreError::Broken`] for a malformed URL and
    /// for a schema of another version, with what to do.
    pub async fn connect(url: &str, config: PoolConfig) -> Result<Self, StoreError> {
        let store = Self { connections: Connections::new(url, config)? };
        // At the start, wrong credentials are a wrong setting. Later they are being changed.
        let connection = store.connection().await;
        let mut connection = connection.map_err(|error| match failure::is_refused(&error) {
            true => StoreError::broken("Postgres refused the credentials", error),
            false => error,
        })?;
        migrate::check(&mut connection).await?;
        Ok(store)
    }

    /// Reads a URL as [`connect`](Self::connect) does.
    ///
    /// # Errors
    /// If it is malformed, or names a file that cannot be read.
    pub fn check_url(url: &str) -> Result<(), StoreError> {
        tls::parse(url).map(drop)
    }

    /// Migrates the schema to the version that this program needs and returns the number of migrations. Concurrent
    /// callers wait for each other.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect); a database of a newer version is left alone.
    pub async fn migrate(url: &str) -> Result<usize, StoreError> {
        migrate::run(url).await
    }

    async fn connection(&self) -> Result<Connection, StoreError> {
        self.connections.take().await
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

/// A duration as microseconds, for `interval '1 microsecond' * $n`.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
