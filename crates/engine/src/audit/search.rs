//! The rules about picks and conversations, for nodes of a guided search.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::NodeId;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::role::CallKind;

/// What is known of the picks and conversations of a log.
#[derive(Clone, Debug, Default)]
pub(super) struct Searches {
    picked: BTreeSet<NodeId>,
    /// Nodes whose research has begun.
    begun: BTreeSet<NodeId>,
    /// The node of each conversation.
    sessions: BTreeMap<String, NodeId>,
}

impl Searches {
    /// Reads an event. Returns what is wrong with it.
    pub(super) fn event(&mut self, event: &Event) -> Option<String> {
        let node = event.node_id;
        match &event.body {
            EventBody::LeafPicked(e) => {
                let leaf = e.leaf_node_id;
                if self.begun.contains(&leaf) {
                    return Some(format!("picks {leaf}, whose research has begun"));
                }
                (!self.picked.insert(leaf)).then(|| format!("picks {leaf} again"))
            }
            EventBody::SessionForked(e) => {
                let parent = e.parent_session_id.as_ref();
                if let Some(parent) = parent.filter(|parent| !self.sessions.contains_key(*parent)) {
                    return Some(format!("continues conversation {parent}, which does not exist"));
                }
                let before = self.sessions.insert(e.session_id.clone(), node);
                before.map(|other| format!("begins conversation {} of node {other} again", e.session_id))
            }
            EventBody::NodeStatusChanged(e) if e.call == Some(CallKind::Research) => {
                let again = !self.begun.insert(node);
                again.then(|| "begins a research again".to_owned())
            }
            _ => None,
        }
    }
}
