//! The store that maintenance commands work on, without a server in between.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tree_agent_contract::RunId;
use tree_agent_maintenance::MaintenanceError;
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{Archives, StoreError};

use crate::cluster::chain;
use crate::error::CliError;

/// Runs of one page while all are gone through.
const PAGE: usize = 1_000;

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The database, such as postgres://user@localhost/tree_agent
    #[arg(long, value_name = "URL", env = "TREE_AGENT_DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
    /// The embedded store in this folder, whatever database is configured; no other process may have it open
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Which runs.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The runs
    #[arg(value_name = "RUN", required_unless_present = "all")]
    runs: Vec<RunId>,
    /// Every run of the store
    #[arg(long, conflicts_with = "runs")]
    all: bool,
}

impl StoreArgs {
    /// Opens the store that is named.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Archives>, CliError> {
        let url = self.database_url.as_deref().filter(|url| !url.trim().is_empty());
        match (&self.data_dir, url) {
            (Some(dir), _) if !dir.is_dir() => {
                Err(CliError::Usage(format!("there is no data directory {}", dir.display())))
            }
            (Some(dir), _) => Ok(Arc::new(EmbeddedStore::open(dir).await.map_err(refused)?)),
            (None, Some(url)) => {
                Ok(Arc::new(PostgresStore::connect(url, PoolConfig::default()).await.map_err(refused)?))
            }
            (None, None) => Err(unnamed()),
        }
    }
}

impl RunArgs {
    /// The runs that are named, in order.
    pub(crate) async fn ids(&self, store: &dyn Archives) -> Result<Vec<RunId>, CliError> {
        if !self.all {
            return Ok(self.runs.clone());
        }
        let mut ids: Vec<RunId> = Vec::new();
        loop {
            let page = store.run_ids(ids.last().copied(), PAGE).await.map_err(refused)?;
            let whole = page.len() == PAGE;
            ids.extend(page);
            if !whole {
                return Ok(ids);
            }
        }
    }
}

/// No store is named.
pub(crate) fn unnamed() -> CliError {
    CliError::Usage(
        "name the database with --database-url URL (or TREE_AGENT_DATABASE_URL), or an embedded store with \
         --data-dir DIR"
            .into(),
    )
}

/// What a store's refusal means to the user.
pub(crate) fn refused(error: StoreError) -> CliError {
    match error {
        StoreError::Unavailable { .. } => {
            CliError::Unreachable { server: "the database".into(), reason: chain(&error) }
        }
        _ => CliError::Usage(chain(&error)),
    }
}

/// What a failed maintenance means to the user.
pub(crate) fn failed(error: MaintenanceError) -> CliError {
    match error {
        MaintenanceError::Store(error) => refused(error),
        // Nothing inside went wrong: what was asked for is not possible with this run or file.
        other => CliError::Usage(chain(&other)),
    }
}
