//! What the log of a folder says of its search.

use std::collections::HashMap;

use tree_agent_contract::event::Event;
use tree_agent_contract::{DocumentId, RunId, RunSpec, RunStatus, Strategy};
use tree_agent_engine::{Graph, Run};
use tree_agent_mirror::{Change, Digest, Growth, Wanted, WantedNode};
use tree_agent_store::{RunFilter, RunQuery, Store, StoreError};

use crate::cluster::chain;
use crate::error::CliError;

/// Events of one page of the log.
const PAGE: usize = 5_000;
/// Unfinished searches that are looked for. A folder has one, or two for a moment.
const UNFINISHED: usize = 100;

/// The latest search of a folder.
pub(super) struct Logged {
    /// What was asked for.
    pub(super) spec: RunSpec,
    /// Its tree.
    pub(super) graph: Graph,
    /// Its folder.
    pub(super) growth: Growth,
}

impl Logged {
    /// Reads the log of the latest search; none if there was none, or if it was moved to an archive.
    pub(super) async fn latest(store: &dyn Store) -> Result<Option<Self>, CliError> {
        let latest = searches(store, Vec::new(), 1).await?;
        let Some(&run) = latest.first() else { return Ok(None) };
        let mut logged: Option<Self> = None;
        loop {
            let after = logged.as_ref().map_or(0, |logged| logged.graph.seq());
            let page = match store.read(run, after, PAGE).await {
                Err(StoreError::Archived(_)) => return Ok(None),
                page => page.map_err(unreadable)?,
            };
            if page.is_empty() {
                return Ok(logged);
            }
            for event in &page {
                let logged = match &mut logged {
                    Some(logged) => logged,
                    none => none.insert(Self::begin(event)?),
                };
                follow(&mut logged.graph, &mut logged.growth, event)?;
            }
        }
    }

    fn begin(first: &Event) -> Result<Self, CliError> {
        let spec = Run::begin(first).map_err(|e| CliError::Other(chain(&e)))?.spec().clone();
        Ok(Self { spec, graph: Graph::new(first.run_id), growth: Growth::new() })
    }
}

/// Follows an event of the log.
pub(super) fn follow(graph: &mut Graph, growth: &mut Growth, event: &Event) -> Result<(), CliError> {
    graph.apply(event).map_err(|e| CliError::Other(format!("the log does not add up: {}", chain(&e))))?;
    growth.follow(event, graph);
    Ok(())
}

/// The searches that have not ended.
pub(super) async fn unfinished(store: &dyn Store) -> Result<Vec<RunId>, CliError> {
    let live = vec![RunStatus::Queued, RunStatus::Running, RunStatus::Paused];
    searches(store, live, UNFINISHED).await
}

async fn searches(store: &dyn Store, statuses: Vec<RunStatus>, limit: usize) -> Result<Vec<RunId>, CliError> {
    let filter = RunFilter { statuses, strategies: vec![Strategy::Search], ..RunFilter::default() };
    let page = store.list_runs(RunQuery { filter, before: None, limit }).await.map_err(unreadable)?;
    Ok(page.items.into_iter().map(|run| run.run_id).collect())
}

/// What a folder should hold that has all of these `changes`.
pub(super) async fn wanted(store: &dyn Store, changes: &[Change]) -> Result<Wanted, CliError> {
    let mut wanted = Wanted::default();
    for change in changes {
        match change {
            Change::Root { children, document } => {
                wanted.children = Some(children.clone());
                wanted.document = digest(store, *document).await?;
            }
            Change::Node(node) => wanted.nodes.push(WantedNode {
                path: node.path.clone(),
                file: node.file.clone(),
                document: digest(store, node.document).await?,
                children: node.children.clone(),
            }),
        }
    }
    Ok(wanted)
}

async fn digest(store: &dyn Store, id: Option<DocumentId>) -> Result<Option<Digest>, CliError> {
    match id {
        Some(id) => Ok(Some(Digest::of(&body(store, id).await?))),
        None => Ok(None),
    }
}

/// The text of a document.
pub(super) async fn body(store: &dyn Store, id: DocumentId) -> Result<String, CliError> {
    Ok(store.document(id).await.map_err(unreadable)?.body)
}

/// The title of each node, by its path.
pub(super) fn titles(changes: &[Change]) -> HashMap<String, String> {
    let title = |change: &Change| match change {
        Change::Root { .. } => None,
        Change::Node(node) => Some((node.path.clone(), node.file.title.clone())),
    };
    changes.iter().filter_map(title).collect()
}

pub(super) fn unreadable(error: StoreError) -> CliError {
    CliError::Other(format!("the log of the folder: {}", chain(&error)))
}
