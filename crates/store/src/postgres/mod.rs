//! The store on Postgres.
//!
//! [`PostgresStore::connect`] wants a migrated database ([`PostgresStore::migrate`]) and never retries: whoever
//! starts decides how long to wait. Every call that can wait is bounded by [`PoolConfig::request_timeout`].

mod append;
mod append_sql;
mod archives;
mod columns;
mod connection;
mod documents;
mod leases;
mod migrate;
mod operations;
mod projects;
mod runs;
mod types;

use std::time::Duration;

pub use connection::PoolConfig;

use crate::error::StoreError;
use connection::{Connection, Connections};

/// A store on Postgres. Clones share one pool.
#[derive(Clone)]
pub struct PostgresStore {
    connections: Connections,
}

impl PostgresStore {
    /// Connects and checks that the schema is the one that this version needs.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while Postgres cannot be reached; [`StoreError::Broken`] for a malformed URL and
    /// for a schema of another version, with what to do.
    pub async fn connect(url: &str, config: PoolConfig) -> Result<Self, StoreError> {
        let store = Self { connections: Connections::new(url, config)? };
        let mut connection = store.connection().await?;
        migrate::check(&mut connection).await?;
        Ok(store)
    }

    /// Brings the schema to the version that this binary needs and returns how many migrations that took.
    /// Concurrent callers wait for each other.
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
