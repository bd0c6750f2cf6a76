//! A folder that grows with the run of its search.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::mpsc;
use tree_agent_contract::{DocumentId, RunId};
use tree_agent_engine::Graph;
use tree_agent_mirror::{Change, Disk, Folder, Growth, Mirror, Record, Root};
use tree_agent_store::Store;

use super::logged::{body, follow, unreadable};
use crate::client::Client;
use crate::client::reconnect::Policy;
use crate::client::watch::{self, End, Update, Wanted};
use crate::commands::export::unusable;
use crate::error::CliError;

/// What a watcher of a run is told.
pub(super) type Updates = mpsc::Receiver<Result<Update, CliError>>;

/// A folder that follows its run. The log comes first: what a crash keeps from the folder is written by the next
/// process.
pub(super) struct Growing {
    store: Arc<dyn Store>,
    mirror: Mirror,
    graph: Graph,
    growth: Growth,
    /// Documents that are on the disk.
    written: HashSet<DocumentId>,
}

impl Growing {
    /// The folder `root`, which holds `folder`, of the run with this `graph`. The documents in `written` are on the
    /// disk.
    pub(super) fn new(
        store: Arc<dyn Store>,
        (root, folder): (Root, &Folder),
        disk: Box<dyn Disk>,
        (graph, growth): (Graph, Growth),
        written: HashSet<DocumentId>,
    ) -> Result<Self, CliError> {
        let mirror = Mirror::new(root, folder, disk).map_err(unusable)?;
        Ok(Self { store, mirror, graph, growth, written })
    }

    pub(super) fn run(&self) -> RunId {
        self.graph.run_id()
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The folder, still locked.
    pub(super) fn into_root(self) -> Root {
        self.mirror.into_root()
    }

    /// Writes what events have changed.
    pub(super) async fn write(&mut self) -> Result<(), CliError> {
        let changes = self.growth.take(&self.graph);
        self.record(&changes).await
    }

    /// Writes `changes`, as far as they are not on the disk.
    pub(super) async fn record(&mut self, changes: &[Change]) -> Result<(), CliError> {
        for change in changes {
            let id = match change {
                Change::Root { document, .. } => *document,
                Change::Node(node) => node.document,
            };
            let text = match id {
                Some(id) if !self.written.contains(&id) => Some(body(&*self.store, id).await?),
                _ => None,
            };
            let (mirror, document) = (&mut self.mirror, text.as_deref());
            let written = tokio::task::block_in_place(|| match change {
                Change::Root { children, .. } => mirror.record_root(children, document),
                Change::Node(node) => {
                    let children = node.children.as_deref();
                    mirror.record(&node.path, &Record { file: node.file.clone(), document, children })
                }
            });
            written.map_err(unusable)?;
            self.written.extend(id);
        }
        Ok(())
    }

    /// Follows the run to its end.
    pub(super) async fn follow(&mut self, client: &Client, policy: Policy) -> Result<End, CliError> {
        let wanted = Wanted::after(self.graph.seq());
        let updates = watch::spawn(client.clone(), self.run(), wanted, policy);
        self.take(updates).await
    }

    /// Writes what `updates` tell. The folder is written only when an append of the log has been followed whole: in the
    /// middle of one, a list of topics is not complete, and that must not be what a crash leaves behind.
    pub(super) async fn take(&mut self, mut updates: Updates) -> Result<End, CliError> {
        loop {
            let head = self.head().await?;
            while self.graph.seq() < head {
                if let Some(end) = self.next(&mut updates).await? {
                    return self.write().await.map(|()| end);
                }
            }
            self.write().await?;
            if let Some(end) = self.next(&mut updates).await? {
                return Ok(end);
            }
        }
    }

    /// Follows the next event; how the run has ended if there is none.
    async fn next(&mut self, updates: &mut Updates) -> Result<Option<End>, CliError> {
        match updates.recv().await {
            Some(Ok(Update::Event(event))) => {
                follow(&mut self.graph, &mut self.growth, &event).map(|()| None)
            }
            Some(Ok(Update::Ended(end))) => Ok(Some(end)),
            Some(Ok(Update::Reconnecting { .. } | Update::Reconnected)) => Ok(None),
            Some(Err(error)) => Err(error),
            None => Err(CliError::Other("watching the run stopped without a reason".into())),
        }
    }

    /// The last event of the log.
    async fn head(&self) -> Result<u64, CliError> {
        let heads = self.store.heads(&[self.run()]).await.map_err(unreadable)?;
        Ok(heads.first().map_or(0, |(_, head)| *head))
    }
}
