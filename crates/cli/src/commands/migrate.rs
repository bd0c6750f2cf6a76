//! `migrate`: brings a store to this version's schema.

use clap::Args;
use serde_json::json;
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::PostgresStore;

use super::store::{StoreArgs, refused, unnamed};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::count;

/// Bring a store to the schema of this version
///
/// The store is a Postgres database or, with --data-dir, an embedded store.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    #[command(flatten)]
    store: StoreArgs,
}

impl Migrate {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let database_url = self.store.database_url.as_deref().filter(|url| !url.trim().is_empty());
        let (what, applied) = match (&self.store.data_dir, database_url) {
            (Some(dir), _) => {
                // Opening an embedded store migrates it.
                EmbeddedStore::open(dir).await.map_err(refused)?;
                (format!("the store in {}", dir.display()), None)
            }
            (None, Some(url)) => {
                ("the database".to_owned(), Some(PostgresStore::migrate(url).await.map_err(refused)?))
            }
            (None, None) => return Err(unnamed()),
        };
        context.out.done(&json!({ "applied": applied }), || {
            let applied = applied.map(|n| format!("; applied {}", count(n, "migration"))).unwrap_or_default();
            format!("{what} is up to date{applied}")
        })?;
        Ok(Exit::Success)
    }
}
