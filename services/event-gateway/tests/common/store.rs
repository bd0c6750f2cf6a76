//! The store that tests run on: a private Postgres per test binary, a database per test.

use std::sync::{Arc, OnceLock};

use tree_agent_store::Store;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_testkit::services::PrivatePostgres;

/// Ends with the process.
static SERVER: OnceLock<PrivatePostgres> = OnceLock::new();

/// An empty store.
pub async fn store() -> Arc<dyn Store> {
    let make = || {
        let server = SERVER.get_or_init(|| PrivatePostgres::start().expect("a private Postgres starts"));
        server.create_database().expect("a database is made")
    };
    let url = tokio::task::spawn_blocking(make).await.unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    Arc::new(PostgresStore::connect(&url, PoolConfig::default()).await.unwrap())
}
