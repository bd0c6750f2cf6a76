//! A run as a folder: which node of its graph stands where, and what its files hold.

use std::collections::{BTreeSet, HashMap};

use tree_agent_contract::graph::{GraphNode, GraphSnapshot};
use tree_agent_contract::search::{Expansion, slug};
use tree_agent_contract::text::{one_line, truncate};
use tree_agent_contract::{DocumentId, NodeId, SessionId, limits};

use crate::layout::{ListedChild, NodeFile, join};

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

/// A node in the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedNode {
    /// The node.
    pub id: NodeId,
    /// Its slug path.
    pub path: String,
    /// Its `node.json`.
    pub file: NodeFile,
    /// What becomes its `document.md`.
    pub document: Option<DocumentId>,
    /// Its `children.json`.
    pub children: Option<Vec<ListedChild>>,
}

impl Export {
    /// The layout of a run of any strategy. A node without a document is not finished, whatever the run says of it:
    /// who reads the folder finds nothing there.
    pub fn of(graph: &GraphSnapshot) -> Self {
        let mut below: HashMap<NodeId, Vec<&GraphNode>> = HashMap::new();
        for node in &graph.nodes {
            if let Some(parent) = node.parent_id {
                below.entry(parent).or_default().push(node);
            }
        }
        let Some(root) = graph.nodes.iter().find(|node| node.parent_id.is_none()) else {
            return Self::default();
        };
        let mut export = Self { document: document_of(root), ..Self::default() };
        let listed = list(&below, root.id);
        export.children = (!listed.is_empty() || root.status.is_final()).then(|| listed.entries());
        // In breadth-first order; a queue needs no stack, however deep the tree is.
        let mut due: std::collections::VecDeque<(String, &GraphNode, ListedChild)> =
            listed.below("").collect();
        while let Some((path, node, entry)) = due.pop_front() {
            let document = document_of(node);
            let listed = list(&below, node.id);
            let has_children = !listed.is_empty();
            let status = match (document, Expansion::of(node, has_children)) {
                (Some(_), _) if has_children => Expansion::Expanded,
                (Some(_), _) => Expansion::Leaf,
                (None, Expansion::InProgress) => Expansion::InProgress,
                (None, _) => Expansion::Unexpanded,
            };
            let has_session = is_topic(node) && status != Expansion::Unexpanded;
            let file = NodeFile {
                title: entry.title,
                slug: entry.slug,
                session_id: has_session.then(|| SessionId::of(node.id).to_string()),
                status,
            };
            let children = (document.is_some() || has_children).then(|| listed.entries());
            due.extend(listed.below(&path));
            export.nodes.push(ExportedNode { id: node.id, path, file, document, children });
        }
        export
    }
}

/// The children of a node with their places.
struct Listed<'a>(Vec<(&'a GraphNode, ListedChild)>);

impl<'a> Listed<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn entries(&self) -> Vec<ListedChild> {
        self.0.iter().map(|(_, entry)| entry.clone()).collect()
    }

    fn below(self, path: &str) -> impl Iterator<Item = (String, &'a GraphNode, ListedChild)> {
        self.0.into_iter().map(move |(node, entry)| (join(path, &entry.slug), node, entry))
    }
}

fn list<'a>(below: &HashMap<NodeId, Vec<&'a GraphNode>>, parent: NodeId) -> Listed<'a> {
    let mut taken = BTreeSet::new();
    let nodes = below.get(&parent).map(Vec::as_slice).unwrap_or_default();
    let listed = nodes.iter().map(|node| {
        let title = title_of(node);
        // The step of a topic is its slug. Steps of plans have names such as s1, which say nothing.
        let step = node.step_id.as_ref().map(|step| step.as_str());
        let name = step.filter(|step| is_topic(node) && slug::check(step).is_ok()).unwrap_or(&title);
        let slug = slug::unique(name, |slug| taken.contains(slug));
        taken.insert(slug.clone());
        (*node, ListedChild { title, slug })
    });
    Listed(listed.collect())
}

/// True for a topic of a search: it belongs to no band of a plan.
const fn is_topic(node: &GraphNode) -> bool {
    node.parent_id.is_some() && node.band_index.is_none()
}

/// The title as a folder can hold it.
fn title_of(node: &GraphNode) -> String {
    let plain: String = node.title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let title = truncate(&one_line(&plain), limits::TITLE_BYTES).into_owned();
    if title.is_empty() { "untitled".to_owned() } else { title }
}

/// The document to read first.
fn document_of(node: &GraphNode) -> Option<DocumentId> {
    let documents = || node.artifacts.iter().filter(|artifact| artifact.document_id.is_some());
    documents().find(|artifact| artifact.is_primary).or_else(|| documents().next())?.document_id
}
