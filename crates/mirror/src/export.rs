//! A run as a folder: which node of its graph stands where, and what its files hold.

use std::collections::{HashMap, HashSet, VecDeque};

use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::search::{Expansion, clean_title, slug};
use tree_agent_contract::{DocumentId, NodeId, SessionId};

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
    /// The layout of a run of any strategy, from the nodes of its graph in order of creation. A node without a
    /// document is not finished, whatever the run says of it: whoever reads the folder finds nothing there.
    pub fn of(nodes: &[GraphNode]) -> Self {
        let mut below: HashMap<NodeId, Vec<&GraphNode>> = HashMap::new();
        for node in nodes {
            if let Some(parent) = node.parent_id {
                below.entry(parent).or_default().push(node);
            }
        }
        let Some(root) = nodes.iter().find(|node| node.parent_id.is_none()) else { return Self::default() };
        let places = |id: NodeId, path: &str| {
            let mut taken = HashSet::new();
            let nodes = below.get(&id).map(Vec::as_slice).unwrap_or_default();
            let placed = nodes.iter().map(|node| {
                let place = place(node, path, |slug| taken.contains(slug));
                taken.insert(place.entry.slug.clone());
                (*node, place)
            });
            placed.collect::<Vec<_>>()
        };
        let entries = |places: &[(&GraphNode, Place)]| -> Vec<ListedChild> {
            places.iter().map(|(_, place)| place.entry.clone()).collect()
        };
        let first = places(root.id, "");
        let mut export = Self { document: document_of(root), ..Self::default() };
        export.children = (!first.is_empty() || root.status.is_final()).then(|| entries(&first));
        // In breadth-first order; a queue needs no stack, however deep the tree is.
        let mut due = VecDeque::from(first);
        while let Some((node, place)) = due.pop_front() {
            let below = places(node.id, &place.path);
            export.nodes.push(exported(node, place, &entries(&below)));
            due.extend(below);
        }
        export
    }
}

/// Where a node stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) entry: ListedChild,
}

/// The place of `node` below the one at `path`, beside siblings that have `taken` some slugs.
pub(crate) fn place(node: &GraphNode, path: &str, taken: impl Fn(&str) -> bool) -> Place {
    let title = title_of(node);
    // The step of a topic is its slug. Steps of plans have names such as s1, which say nothing.
    let step = node.step_id.as_ref().map(|step| step.as_str());
    let name = step.filter(|step| node.topic.is_some() && slug::check(step).is_ok()).unwrap_or(&title);
    let slug = slug::unique(name, taken);
    Place { path: join(path, &slug), entry: ListedChild { title, slug } }
}

/// What the files of `node` hold.
pub(crate) fn exported(node: &GraphNode, place: Place, children: &[ListedChild]) -> ExportedNode {
    let document = document_of(node);
    let has_children = !children.is_empty();
    let status = match (document, Expansion::of(node, has_children)) {
        (Some(_), _) if has_children => Expansion::Expanded,
        (Some(_), _) => Expansion::Leaf,
        (None, Expansion::InProgress) => Expansion::InProgress,
        (None, _) => Expansion::Unexpanded,
    };
    let has_session = node.topic.is_some() && status != Expansion::Unexpanded;
    let Place { path, entry: ListedChild { title, slug } } = place;
    ExportedNode {
        id: node.id,
        path,
        file: NodeFile {
            title,
            slug,
            session_id: has_session.then(|| SessionId::of(node.id).to_string()),
            status,
        },
        document,
        children: (document.is_some() || has_children).then(|| children.to_vec()),
    }
}

/// The title as a folder can hold it.
fn title_of(node: &GraphNode) -> String {
    let title = clean_title(&node.title);
    if title.is_empty() { "untitled".to_owned() } else { title }
}

/// The document to read first.
pub(crate) fn document_of(node: &GraphNode) -> Option<DocumentId> {
    let documents = || node.artifacts.iter().filter(|artifact| artifact.document_id.is_some());
    documents().find(|artifact| artifact.is_primary).or_else(|| documents().next())?.document_id
}
