//! A node in a folder: where it stands, and what its files hold.

use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::search::{Expansion, clean_title, slug};
use tree_agent_contract::{DocumentId, NodeId};

use crate::layout::{ListedChild, NodeFile, join};

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
    // The log says which it is: a topic that is researched again begins another conversation.
    let topic = node.topic.as_ref().filter(|_| status != Expansion::Unexpanded);
    let Place { path, entry: ListedChild { title, slug } } = place;
    ExportedNode {
        id: node.id,
        path,
        file: NodeFile { title, slug, session_id: topic.and_then(|topic| topic.session_id.clone()), status },
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
