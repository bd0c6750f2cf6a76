//! A fresh store per test, and queries of its tables.

use std::sync::{Arc, OnceLock};

use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{Claim, Store};
use tree_agent_testkit::services::PrivatePostgres;

use crate::make;
pub use crate::make::*;

/// One server for the whole test binary; it ends with the process.
pub fn server() -> &'static PrivatePostgres {
    static SERVER: OnceLock<PrivatePostgres> = OnceLock::new();
    SERVER.get_or_init(|| PrivatePostgres::start().expect("a private Postgres"))
}

pub struct Fixture {
    pub store: Arc<dyn Store>,
    raw: Raw,
}

enum Raw {
    Postgres(String),
    Embedded(tempfile::TempDir),
}

impl Fixture {
    pub async fn postgres() -> Self {
        let url = tokio::task::spawn_blocking(|| server().create_database()).await.unwrap().unwrap();
        assert!(PostgresStore::migrate(&url).await.unwrap() > 0);
        let store = PostgresStore::connect(&url, PoolConfig::default()).await.unwrap();
        Self { store: Arc::new(store), raw: Raw::Postgres(url) }
    }

    pub async fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path().join("data")).await.unwrap();
        Self { store: Arc::new(store), raw: Raw::Embedded(folder) }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self.raw, Raw::Postgres(_))
    }

    /// The rows of a query that both databases understand, columns joined by `|`, nulls as `-`.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        match &self.raw {
            Raw::Postgres(url) => {
                use deadpool_postgres::tokio_postgres::{NoTls, SimpleQueryMessage};
                let (client, connection) =
                    deadpool_postgres::tokio_postgres::connect(url, NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                let mut rows = Vec::new();
                for message in client.simple_query(sql).await.unwrap() {
                    if let SimpleQueryMessage::Row(row) = message {
                        let cells: Vec<_> = (0..row.len()).map(|i| row.get(i).unwrap_or("-")).collect();
                        rows.push(cells.join("|"));
                    }
                }
                drop(client);
                connection.await.unwrap().unwrap();
                rows
            }
            Raw::Embedded(folder) => {
                use rusqlite::types::ValueRef;
                let db = rusqlite::Connection::open(folder.path().join("data/tree-agent.db")).unwrap();
                let mut statement = db.prepare(sql).unwrap();
                let columns = statement.column_count();
                let cell = |value: ValueRef<'_>| match value {
                    ValueRef::Null => "-".to_owned(),
                    ValueRef::Integer(i) => i.to_string(),
                    other => other.as_str().unwrap().to_owned(),
                };
                let rows = statement.query_map([], |row| {
                    let cells: Vec<_> = (0..columns).map(|i| cell(row.get_ref(i).unwrap())).collect();
                    Ok(cells.join("|"))
                });
                rows.unwrap().map(Result::unwrap).collect()
            }
        }
    }

    /// Creates run `n` and claims it for `owner`. Only this run may be free.
    pub async fn claimed(&self, n: u128, owner: &str) -> Claim {
        make::claimed(&*self.store, n, owner).await
    }
}
