//! Whether the ids in a log follow from it.
//!
//! The ids of nodes, artifacts and documents are derived from the run that began the log and from what the log says
//! ([`NodeId::child`], [`ArtifactId::of`], [`DocumentId`]). Nobody can choose a log whose derived id is that of another
//! run's node or document. So a log from elsewhere proves that its documents are its own.

use std::collections::{HashMap, HashSet};

use tree_agent_contract::document::Document;
use tree_agent_contract::{ArtifactId, DocumentId, Event, EventBody, NodeId, RunId};

/// The names that a log gives, event by event.
#[derive(Clone, Debug)]
pub struct Names {
    origin: RunId,
    nodes: HashMap<NodeId, Seen>,
    documents: HashSet<DocumentId>,
}

/// How often a node may have named something so far.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Its events: it has no more plans, and has begun again no more often.
    events: u32,
    /// Its results.
    results: u32,
}

impl Names {
    /// The names in a log that the run `origin` began. A fork goes on with the log of another run.
    pub fn new(origin: RunId) -> Self {
        let documents = HashSet::from([DocumentId::workspace(origin)]);
        Self { origin, nodes: HashMap::new(), documents }
    }

    /// Reads the next event.
    ///
    /// # Errors
    /// If the event gives a node, artifact or document an id that does not follow from the log so far: what is wrong.
    pub fn event(&mut self, event: &Event) -> Result<(), String> {
        match &event.body {
            EventBody::NodeCreated(e) => {
                let root = || event.node_id == NodeId::root(self.origin);
                let child = |parent: NodeId| {
                    let (seen, step) = (self.nodes.get(&parent)?, e.step_id.as_ref()?);
                    let mut versions = 1..=seen.events.saturating_add(1);
                    Some(versions.any(|version| event.node_id == NodeId::child(parent, version, step)))
                };
                if !e.parent_node_id.map_or_else(root, |parent| child(parent).unwrap_or(false)) {
                    return Err(format!("node {} is not named after its place in the log", event.node_id));
                }
                self.nodes.entry(event.node_id).or_default();
            }
            EventBody::ArtifactCreated(e) => {
                let label = e.label.as_deref().unwrap_or_default();
                let results = self.nodes.get(&event.node_id).map_or(0, |seen| seen.results);
                if !(0..=results).any(|n| e.artifact_id == ArtifactId::of(event.node_id, n, label)) {
                    return Err(format!("artifact {} is not named after its node and label", e.artifact_id));
                }
                if let Some(id) = e.document_id {
                    let kept = DocumentId::of_run(self.origin, label);
                    if id != DocumentId::of_artifact(e.artifact_id) && id != kept {
                        return Err(format!("document {id} is not named after its artifact"));
                    }
                    self.documents.insert(id);
                }
            }
            _ => {}
        }
        if let Some(seen) = self.nodes.get_mut(&event.node_id) {
            seen.events = seen.events.saturating_add(1);
            seen.results += u32::from(matches!(event.body, EventBody::NodeResult(_)));
        }
        Ok(())
    }

    /// True if the log names this document: that of an artifact or of the run, or one that its own properties say it is,
    /// of a node in the log.
    pub fn has(&self, document: &Document) -> bool {
        let (id, props) = (document.id, &document.props);
        let of_node = |node: NodeId| {
            let branch = props.branch_id.as_deref().is_some_and(|b| id == DocumentId::branch(node, b));
            let iteration = props.iteration.is_some_and(|i| id == DocumentId::iteration(node, i));
            branch || iteration || id == DocumentId::scratchpad(node) || id == DocumentId::plan(node)
        };
        let node = props.tree_agent_node_id.filter(|node| self.nodes.contains_key(node));
        self.documents.contains(&id) || node.is_some_and(of_node)
    }
}
