//! `migrate`: brings a store to this version's schema.

use clap::Args;
use serde_json::json;
use tree_agent_store::StoreError;
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::PostgresStore;

use crate::Context;
use crate::cluster::chain;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::count;

/// Bring a Postgres database (or, with --data-dir, an embedded store) to the schema of this version
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// The database, such as postgres://user@localhost/tree_agent
    #[arg(long, value_name = "URL", env = "TREE_AGENT_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Migrate the embedded store in this folder, whatever database is configured
    #[arg(long, value_name = "DIR")]
    data_dir: Option<std::path::PathBuf>,
}

impl Migrate {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let database_url = self.database_url.as_deref().filter(|url| !url.trim().is_empty());
        let (what, applied) = match (&self.data_dir, database_url) {
            (Some(dir), _) => {
                // Opening an embedded store migrates it.
                EmbeddedStore::open(dir).await.map_err(refused)?;
                (format!("the store in {}", dir.display()), None)
            }
            (None, Some(url)) => {
                ("the database".to_owned(), Some(PostgresStore::migrate(url).await.map_err(refused)?))
            }
            (None, None) => {
                return Err(CliError::Usage(
                    "name the database with --database-url URL (or TREE_AGENT_DATABASE_URL), or an embedded store \
                     with --data-dir DIR"
                        .into(),
                ));
            }
        };
        if context.out.is_jsonl() {
            context.out.json(&json!({ "applied": applied }))?;
        } else {
            let applied = applied.map(|n| format!("; applied {}", count(n, "migration"))).unwrap_or_default();
            context.out.line(format!("{what} is up to date{applied}"))?;
        }
        Ok(Exit::Success)
    }
}

fn refused(error: StoreError) -> CliError {
    match error {
        StoreError::Unavailable { .. } => {
            CliError::Unreachable { server: "the database".into(), reason: chain(&error) }
        }
        _ => CliError::Usage(chain(&error)),
    }
}
