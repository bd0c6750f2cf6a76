//! A run as a folder, and a folder that grows with its run: which files an event changes.
//!
//! An event costs the same however large the tree is: places in the folder are kept, and never worked out again.

use std::collections::{BTreeSet, HashMap, HashSet};

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::graph::{GraphNode, GraphView};
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
        /// What becomes `overview.md`.
        document: Option<DocumentId>,
    },
    /// A node.
    Node(ExportedNode),
}

/// A run in the layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// The first level; none before it is known.
    pub children: Option<Vec<ListedChild>>,
    /// The document of the root: the synthesis of a run that has one.
    pub document: Option<DocumentId>,
    /// Every node below the root, parents before their children.
    pub nodes: Vec<ExportedNode>,
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
            EventBody::NodeCreated(_) => graph.node(id).into_iter().for_each(|node| self.add(node)),
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

    /// Gives a new node its place.
    pub(crate) fn add(&mut self, node: &GraphNode) {
        let id = node.id;
        let place = match node.parent_id {
            None => {
                self.root = Some(id);
                Place::default()
            }
            Some(parent) => {
                let Some(above) = self.grown.get_mut(&parent) else { return };
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
        self.changes(|id| graph.node(id))
    }

    pub(crate) fn changes<'a>(&mut self, node: impl Fn(NodeId) -> Option<&'a GraphNode>) -> Vec<Change> {
        let changed = std::mem::take(&mut self.changed);
        let nodes = changed.into_iter().filter_map(|order| node(self.order[order]));
        let change = |node: &GraphNode| {
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

impl Export {
    /// The layout of a run of any strategy, from the nodes of its graph in order of creation. A node without a
    /// document is not finished, whatever the run says of it: whoever reads the folder finds nothing there.
    pub fn of(nodes: &[GraphNode]) -> Self {
        let mut growth = Growth::new();
        nodes.iter().for_each(|node| growth.add(node));
        let by_id: HashMap<NodeId, &GraphNode> = nodes.iter().map(|node| (node.id, node)).collect();
        let mut export = Self::default();
        for change in growth.changes(|id| by_id.get(&id).copied()) {
            match change {
                Change::Root { children, document } => {
                    (export.children, export.document) = (Some(children), document);
                }
                Change::Node(node) => export.nodes.push(node),
            }
        }
        export
    }
}
