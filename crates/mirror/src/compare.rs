//! Tells a folder that is behind its log from one that somebody changed.

use std::collections::HashMap;

use tree_agent_contract::search::Expansion;

use crate::error::Problem;
use crate::layout::{
    CHILDREN_JSON, DOCUMENT_MD, Digest, ListedChild, NODE_JSON, NodeFile, OVERVIEW_MD, join,
};
use crate::read::{Folder, FolderNode};

/// What a folder should hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The first level; none before it is known.
    pub children: Option<Vec<ListedChild>>,
    /// Of the document of the root, for runs that end with a synthesis.
    pub document: Option<Digest>,
    /// Every node below the root.
    pub nodes: Vec<WantedNode>,
    /// True if the list of a node may grow until the node is finished, as in runs of plans. The lists of a search are
    /// written once.
    pub lists_grow: bool,
}

/// What the folder of a node should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedNode {
    /// Its slug path.
    pub path: String,
    /// Its `node.json`.
    pub file: NodeFile,
    /// Of its `document.md`.
    pub document: Option<Digest>,
    /// Its `children.json`.
    pub children: Option<Vec<ListedChild>>,
}

/// What in `folder` cannot come from a process that wrote `wanted` and died on the way. A file that is missing is
/// none of it, unless a later one is there.
pub fn edits(wanted: &Wanted, folder: &Folder) -> Vec<Problem> {
    let mut edits = Vec::new();
    let by_path: HashMap<&str, &WantedNode> =
        wanted.nodes.iter().map(|node| (node.path.as_str(), node)).collect();
    // The overview that an earlier search ended with stays until there is another one.
    if let (Some(is), Some(should)) = (folder.document, wanted.document)
        && is != should
    {
        edits.push(Problem::new(OVERVIEW_MD, "was edited"));
    }
    // An earlier search that failed at once has left an empty list.
    let is_nothing = wanted.children.is_none() && folder.children.as_ref().is_some_and(Vec::is_empty);
    if !is_nothing {
        edits.extend(list_edit(folder, "", &folder.children, &wanted.children, wanted.lists_grow));
    }
    let grows = wanted.lists_grow;
    for node in &folder.nodes {
        // A node that the log does not know makes the list differ in which it stands.
        let Some(wanted) = by_path.get(node.path.as_str()) else { continue };
        edits.extend(node_edits(folder, node, wanted, grows));
    }
    edits
}

fn node_edits(folder: &Folder, node: &FolderNode, wanted: &WantedNode, lists_grow: bool) -> Vec<Problem> {
    let at = |name: &str, message: &str| Problem::new(join(&node.path, name), message);
    let mut edits = Vec::new();
    if let Some(file) = &node.file {
        if file.title != wanted.file.title {
            edits.push(at(NODE_JSON, "has another title"));
        }
        // The session of a research that failed is forgotten.
        if let (Some(is), Some(should)) = (&file.session_id, &wanted.file.session_id)
            && is != should
        {
            edits.push(at(NODE_JSON, "has another session"));
        }
        if !may_precede(file.status, wanted.file.status) {
            edits.push(at(NODE_JSON, "has another status"));
        }
    }
    // `node.json` is written last.
    let says_finished = |file: &NodeFile| matches!(file.status, Expansion::Expanded | Expansion::Leaf);
    let is_finished = node.file.as_ref().is_some_and(says_finished);
    match (node.document, wanted.document) {
        (Some(is), Some(should)) if is != should => edits.push(at(DOCUMENT_MD, "was edited")),
        (Some(_), None) => edits.push(at(DOCUMENT_MD, "was added")),
        (None, Some(_)) if is_finished => edits.push(at(DOCUMENT_MD, "was removed")),
        _ => {}
    }
    if node.children.is_none() && wanted.children.is_some() && is_finished {
        edits.push(at(CHILDREN_JSON, "was removed"));
    }
    let may_grow = lists_grow && !is_finished;
    edits.extend(list_edit(folder, &node.path, &node.children, &wanted.children, may_grow));
    edits
}

fn list_edit(
    folder: &Folder,
    path: &str,
    is: &Option<Vec<usize>>,
    should: &Option<Vec<ListedChild>>,
    may_grow: bool,
) -> Option<Problem> {
    let is = folder.entries(is.as_ref()?);
    let message = match should {
        None => "was added",
        Some(should) if *should == is || may_grow && should.starts_with(&is) => return None,
        Some(_) => "was edited",
    };
    Some(Problem::new(join(path, CHILDREN_JSON), message))
}

/// True if a file that says `before` may later say `after`.
const fn may_precede(before: Expansion, after: Expansion) -> bool {
    use Expansion::{Expanded, InProgress, Leaf, Unexpanded};
    match (before, after) {
        // A research that fails, or is given up, leaves its node unexpanded.
        (Unexpanded | InProgress, _) => true,
        (Expanded, Expanded) | (Leaf, Leaf) => true,
        (Expanded | Leaf, _) => false,
    }
}
