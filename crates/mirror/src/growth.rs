//! A folder that grows with its run: which files an event changes.
//!
//! An event costs the same however large the tree is: places in the folder are kept, and never worked out again. The
//! files are those that [`Export`](crate::Export) would make of the whole graph.

use std::collections::{BTreeSet, HashMap, HashSet};

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::graph::GraphView;
use tree_agent_contract::{DocumentId, NodeId};

use crate::export::{ExportedNode, Place, document_of, exported, place};
use crate::layout::ListedChild;

/// What has to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The first level, or the document of the root.
    Root {
        /// The content of `children.json`.
        children: Vec<ListedChild>,
        /// What becomes `document.md`.
        document: Option<DocumentId>,
    },
    /// A node.
    Node(ExportedNode),
}

/// The places of a run's nodes, and those that have changed.
#[derive(Debug, Default)]
pub struct Growth {
    root: Option<NodeId>,
    /// In order of creation.
    order: Vec<NodeId>,
    grown: HashMap<NodeId, Grown>,
    /// Changed since the last look, in order of creation, so that parents come first.
    changed: BTreeSet<usize>,
}

#[derive(Debug)]
struct Grown {
    order: usize,
    place: Place,
    children: Vec<ListedChild>,
    /// The slugs of `children`.
    taken: HashSet<String>,
}

impl Growth {
    /// A folder without anything in it. It follows its run from the first event on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows an event, which `graph` has followed as well.
    pub fn follow(&mut self, event: &Event, graph: &dyn GraphView) {
        let id = event.node_id;
        match &event.body {
            EventBody::NodeCreated(_) => self.created(id, event.parent_node_id, graph),
            // The root shows nothing but its children and its document.
            EventBody::NodeStatusChanged(_) | EventBody::NodeFailed(_) if self.root == Some(id) => {}
            EventBody::NodeStatusChanged(_)
            | EventBody::NodeFailed(_)
            | EventBody::NodeResult(_)
            | EventBody::NodeCompleted(_)
            | EventBody::ArtifactCreated(_) => self.touch(id),
            _ => {}
        }
    }

    fn created(&mut self, id: NodeId, parent: Option<NodeId>, graph: &dyn GraphView) {
        let place = match parent {
            None => {
                self.root = Some(id);
                Place::default()
            }
            Some(parent) => {
                let (Some(node), Some(above)) = (graph.node(id), self.grown.get_mut(&parent)) else { return };
                let place = place(node, &above.place.path, |slug| above.taken.contains(slug));
                above.taken.insert(place.entry.slug.clone());
                above.children.push(place.entry.clone());
                self.changed.insert(above.order);
                place
            }
        };
        let order = self.order.len();
        self.order.push(id);
        self.grown.insert(id, Grown { order, place, children: Vec::new(), taken: HashSet::new() });
        self.touch(id);
    }

    fn touch(&mut self, id: NodeId) {
        if let Some(grown) = self.grown.get(&id) {
            self.changed.insert(grown.order);
        }
    }

    /// What has changed since this was last called, parents first. It may be written only where an append of the log
    /// ends: in the middle of one a list of topics is not complete.
    pub fn take(&mut self, graph: &dyn GraphView) -> Vec<Change> {
        let changed = std::mem::take(&mut self.changed);
        let nodes = changed.into_iter().filter_map(|order| graph.node(self.order[order]));
        let change = |node: &tree_agent_contract::graph::GraphNode| {
            let grown = &self.grown[&node.id];
            if Some(node.id) == self.root {
                let is_known = !grown.children.is_empty() || node.status.is_final();
                let (children, document) = (grown.children.clone(), document_of(node));
                return is_known.then_some(Change::Root { children, document });
            }
            Some(Change::Node(exported(node, grown.place.clone(), &grown.children)))
        };
        nodes.filter_map(change).collect()
    }
}
