//! The store that maintenance commands work on, without a server in between.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueHint};
use tree_agent_contract::RunId;
use tree_agent_maintenance::MaintenanceError;
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{Archives, StoreError};

use crate::cluster::chain;
use crate::error::CliError;
use crate::value::{RunRef, is_part_of};

/// Runs of one page while all are gone through.
const PAGE: usize = 1_000;
/// Runs that are named when several have an id like the one that was given.
const NAMED: usize = 5;

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The database, such as postgres://user@localhost/tree_agent
    #[arg(long, value_name = "URL", env = "TREE_AGENT_DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
    /// The embedded store in this folder, in place of a database; no other process may have it open
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Runs that were made without a server.
#[derive(Debug, Args)]
pub(crate) struct KeptArgs {
    /// Read the runs that `run --local` keeps in this folder, without a server
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Which runs.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The runs
    #[arg(value_name = "RUN", required_unless_present = "all")]
    runs: Vec<RunRef>,
    /// Every run of the store, and the passages of documents that a search finds
    #[arg(long, conflicts_with = "runs")]
    pub(crate) all: bool,
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
    /// The runs that are named, in this order.
    pub(crate) async fn ids(&self, store: &dyn Archives) -> Result<Vec<RunId>, CliError> {
        if self.all { all_ids(store).await } else { find(store, &self.runs).await }
    }
}

/// The ids of the runs that are meant. A part of an id must fit one run only.
pub(crate) async fn find(store: &dyn Archives, runs: &[RunRef]) -> Result<Vec<RunId>, CliError> {
    let is_whole = runs.iter().all(|run| matches!(run, RunRef::Id(_)));
    let ids = if is_whole { Vec::new() } else { all_ids(store).await? };
    runs.iter().map(|run| find_in(&ids, run)).collect()
}

/// The one id among `ids`, oldest first, that `run` means.
fn find_in(ids: &[RunId], run: &RunRef) -> Result<RunId, CliError> {
    let fitting: Vec<RunId> = match run {
        RunRef::Id(id) => vec![*id],
        RunRef::Recent(n) => ids.len().checked_sub(*n).map(|i| ids[i]).into_iter().collect(),
        RunRef::Part(part) => ids.iter().copied().filter(|id| is_part_of(part, *id)).collect(),
    };
    match fitting[..] {
        [id] => Ok(id),
        [] => Err(CliError::Usage(format!("no run of this store is meant by {run}"))),
        [..] => {
            let named: String = fitting.iter().take(NAMED).map(|id| format!("\n  {id}")).collect();
            Err(CliError::Usage(format!(
                "several run ids begin or end with {run}; give more of the one that you mean:{named}"
            )))
        }
    }
}

/// Every run of the store, oldest first.
async fn all_ids(store: &dyn Archives) -> Result<Vec<RunId>, CliError> {
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

/// The error that no store is named.
pub(crate) fn unnamed() -> CliError {
    CliError::Usage(
        "name the database with --database-url URL (or TREE_AGENT_DATABASE_URL), or an embedded store with \
         --data-dir DIR"
            .into(),
    )
}

/// What an error of the store means to the user.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_store_have_short_names_too() {
        let ids: Vec<RunId> =
            ["0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b", "0190b6f2-8d3e-7cc4-a1c7-3f7f6c1daaaa"]
                .map(|id| id.parse().unwrap())
                .into();
        let find = |text: &str| find_in(&ids, &text.parse().unwrap()).map_err(|e| e.to_string());
        assert_eq!(find("@latest"), Ok(ids[1]));
        assert_eq!(find("@2"), Ok(ids[0]));
        assert_eq!(find("2e4b"), Ok(ids[0]));
        assert!(find("0190").unwrap_err().contains("several run ids begin or end with 0190"));
        assert!(find("@3").unwrap_err().contains("@3") && find("ffff").unwrap_err().contains("ffff"));
    }
}
