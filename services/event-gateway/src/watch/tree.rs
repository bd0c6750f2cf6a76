//! Which node of a run stands below which: known once for all who watch subtrees of the run.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use tree_agent_contract::{NodeId, RunId};
use tree_agent_store::{Store, StoreError};

/// Levels of a tree that are looked at: far more than any run may have.
const LEVELS: usize = 1_000;

/// The parents of the nodes that are known. They never change.
#[derive(Default)]
pub(crate) struct Tree {
    parents: RwLock<HashMap<NodeId, Option<NodeId>>>,
    /// The head of the log when the store was asked. Held by whoever asks it.
    head: tokio::sync::Mutex<u64>,
}

impl Tree {
    /// Makes known every node that the run had at `head`.
    pub(super) async fn read(&self, run: RunId, store: &dyn Store, head: u64) -> Result<(), StoreError> {
        let mut read = self.head.lock().await;
        if *read >= head {
            return Ok(());
        }
        let nodes = store.node_parents(run).await?;
        if nodes.is_empty() {
            // Of an archived run this says so.
            store.read(run, 0, 1).await?;
        }
        self.extend(nodes);
        *read = head;
        Ok(())
    }

    fn extend(&self, nodes: impl IntoIterator<Item = (NodeId, Option<NodeId>)>) {
        self.parents.write().unwrap_or_else(PoisonError::into_inner).extend(nodes);
    }

    pub(super) fn has(&self, node: NodeId) -> bool {
        self.parents.read().unwrap_or_else(PoisonError::into_inner).contains_key(&node)
    }

    /// True if `node`, whose parent is `parent`, is `top` or stands below it. Every node above it is known, or was
    /// asked about before.
    pub(super) fn is_below(&self, top: NodeId, node: NodeId, parent: Option<NodeId>) -> bool {
        if !self.has(node) {
            self.extend([(node, parent)]);
        }
        let parents = self.parents.read().unwrap_or_else(PoisonError::into_inner);
        let above = std::iter::successors(Some(node), |at| parents.get(at).copied().flatten());
        above.take(LEVELS).any(|at| at == top)
    }
}
