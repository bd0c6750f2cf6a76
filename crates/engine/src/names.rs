//! Whether the ids in a log follow from it.
//!
//! The ids of nodes, artifacts and documents are derived from the run that began the log and from what the log says
//! ([`NodeId::child`], [`ArtifactId::of`], [`DocumentId`]). Nobody can choose a log whose derived id is that of another
//! run's node or document. So a log from elsewhere proves that its documents are its own.

use std::collections::{HashMap, HashSet};

use tree_agent_contract::answers;
use tree_agent_contract::document::Document;
use tree_agent_contract::{ArtifactId, DocumentId, Event, EventBody, NodeId, RunId, StepId};

/// The names that a log gives, event by event.
#[derive(Clone, Debug)]
pub struct Names {
    origin: RunId,
    nodes: HashMap<NodeId, Seen>,
    documents: HashSet<DocumentId>,
    /// Answers of tools, as the log says. They are not known to be named rightly before their paths are known.
    answers: HashSet<DocumentId>,
}

/// What the names of what a node makes depend on.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The version of its latest plan.
    plan: u32,
    /// How often it began again.
    again: u32,
    /// Its results.
    results: u32,
}

impl Names {
    /// The names in a log that the run `origin` began. A fork goes on with the log of another run.
    pub fn new(origin: RunId) -> Self {
        let documents = HashSet::from([DocumentId::workspace(origin)]);
        Self { origin, nodes: HashMap::new(), documents, answers: HashSet::new() }
    }

    /// Reads the next event.
    ///
    /// # Errors
    /// If the event gives a node, artifact or document an id that does not follow from the log so far: what is wrong.
    pub fn event(&mut self, event: &Event) -> Result<(), String> {
        match &event.body {
            EventBody::RunCreated(e) => {
                let root = NodeId::root(self.origin);
                if (event.node_id, e.root_node_id) != (root, root) {
                    return Err(format!("root node {} is not named after its run", e.root_node_id));
                }
            }
            EventBody::NodeCreated(e) => {
                let is_named = match e.parent_node_id {
                    None => event.node_id == NodeId::root(self.origin),
                    Some(parent) => self.is_child(event.node_id, parent, e.step_id.as_ref()),
                };
                if !is_named {
                    return Err(format!("node {} is not named after its place in the log", event.node_id));
                }
                self.nodes.entry(event.node_id).or_default();
            }
            EventBody::ArtifactCreated(e) => {
                let label = e.label.as_deref().unwrap_or_default();
                let seen = self.nodes.get(&event.node_id);
                let of = |seen: &Seen| ArtifactId::of(event.node_id, seen.results, label);
                if seen.map(of) != Some(e.artifact_id) {
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
            EventBody::ToolCallResult(e) => self.answers.extend(e.answer.map(|answer| answer.document_id)),
            _ => {}
        }
        if let Some(seen) = self.nodes.get_mut(&event.node_id) {
            match &event.body {
                EventBody::PlanCreated(e) => seen.plan = e.version,
                EventBody::NodeReopened(e) => seen.again += u32::from(e.again),
                EventBody::NodeResult(_) => seen.results += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// True if `parent` could have named its child `id`: after its latest plan, or in a search after how often it began
    /// again.
    fn is_child(&self, id: NodeId, parent: NodeId, step: Option<&StepId>) -> bool {
        let (Some(seen), Some(step)) = (self.nodes.get(&parent), step) else { return false };
        [seen.plan, seen.again + 1].iter().any(|version| id == NodeId::child(parent, *version, step))
    }

    /// True if the log names this document: that of an artifact or of the run, or one that its own properties say it
    /// is, of a node in the log.
    pub fn has(&self, document: &Document) -> bool {
        let (id, props) = (document.id, &document.props);
        let of_node = |node: NodeId| {
            let branch = props.branch_id.as_deref().is_some_and(|b| id == DocumentId::branch(node, b));
            let iteration = props.iteration.is_some_and(|i| id == DocumentId::iteration(node, i));
            branch || iteration || id == DocumentId::scratchpad(node) || id == DocumentId::plan(node)
        };
        if answers::is_answer(&document.path) {
            return self.answers.contains(&id) && id == DocumentId::of_run(self.origin, &document.path);
        }
        let node = props.tree_agent_node_id.filter(|node| self.nodes.contains_key(node));
        self.documents.contains(&id) || node.is_some_and(of_node)
    }
}
