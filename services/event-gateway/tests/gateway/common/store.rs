//! The store that tests run on.

use std::sync::Arc;

use tree_agent_store::Store;
use tree_agent_store::embedded::EmbeddedStore;

/// An empty store in memory.
pub async fn store() -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open_in_memory().await.expect("SQLite works"))
}
