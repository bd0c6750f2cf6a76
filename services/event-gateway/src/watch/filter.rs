//! Which events of a run a stream is for.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use tree_agent_contract::{Event, NodeId};
use tree_agent_proto::Wire;
use tree_agent_proto::v1::WatchRunResponse;
use tree_agent_proto::v1::watch_run_response::Message;

use super::tree::Tree;

/// Which events pass. The default is all of them.
#[derive(Default)]
pub(crate) struct EventFilter {
    /// Their types; empty for all.
    types: Vec<String>,
    /// Their node, or one above it; none for all.
    below: Option<(NodeId, Arc<Tree>)>,
}

impl EventFilter {
    /// Events of these types; of all when there are none.
    pub(crate) const fn of_types(types: Vec<String>) -> Self {
        Self { types, below: None }
    }

    /// Of these only events of `node` and of the nodes below it. None when `tree`, in which every node of the run's log
    /// so far is known, does not have the node.
    pub(crate) fn below(self, node: NodeId, tree: Arc<Tree>) -> Option<Self> {
        tree.has(node).then_some(Self { below: Some((node, tree)), ..self })
    }

    /// True when the event in a framed response passes. The events of a run must be given in order.
    pub(crate) fn passes(&self, framed: &Bytes) -> bool {
        if self.types.is_empty() && self.below.is_none() {
            return true;
        }
        // What cannot be read is for the client to judge.
        let Some(event) = event(framed.slice(5..)) else { return true };
        let is_below =
            |(top, tree): &(NodeId, Arc<Tree>)| tree.is_below(*top, event.node_id, event.parent_node_id);
        self.below.as_ref().is_none_or(is_below)
            && (self.types.is_empty() || self.types.iter().any(|name| name == event.body.event_type()))
    }
}

fn event(response: Bytes) -> Option<Event> {
    match WatchRunResponse::decode(response).ok()?.message? {
        Message::Event(event) => Event::from_wire(event).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::frame::Frame;
    use tree_agent_contract::event::{NodeStatusChanged, ScratchpadLinked};
    use tree_agent_contract::{DocumentId, EventBody, NodeStatus, Role, RunId, Timestamp};
    use uuid::Uuid;

    fn node(n: u128) -> NodeId {
        NodeId(Uuid::from_u128(n))
    }

    fn event(at: u128, parent: Option<u128>, body: impl Into<EventBody>) -> Bytes {
        let run_id = RunId(Uuid::from_u128(9));
        let parent_node_id = parent.map(node);
        let event = Event {
            run_id,
            seq: 7,
            node_id: node(at),
            parent_node_id,
            timestamp: Timestamp(7),
            body: body.into(),
        };
        Frame::of(&event).bytes
    }

    fn status() -> NodeStatusChanged {
        let (status, role) = (NodeStatus::Executing, Role::Executor);
        let (message, progress) = (Some("m".repeat(300)), Some(0.5));
        NodeStatusChanged { message, progress, ..NodeStatusChanged::new(status, role) }
    }

    fn linked() -> ScratchpadLinked {
        ScratchpadLinked { scratchpad_doc_id: DocumentId(Uuid::from_u128(1)) }
    }

    #[test]
    fn types_are_told_apart() {
        assert!(EventFilter::default().passes(&event(1, None, status())));
        let filter = EventFilter::of_types(vec!["tree.node_status".into(), "tree.run_status".into()]);
        assert!(filter.passes(&event(1, None, status())));
        assert!(!filter.passes(&event(1, None, linked())));
    }

    #[test]
    fn a_subtree_grows_with_the_nodes_below_it() {
        let tree = Arc::new(Tree::default());
        for (at, parent) in [(1, None), (2, Some(1)), (3, Some(1)), (4, Some(2))] {
            tree.is_below(node(9), node(at), parent.map(node));
        }
        let filter = EventFilter::default().below(node(2), tree.clone()).unwrap();
        let passes = |at, parent| filter.passes(&event(at, parent, status()));
        assert!(!passes(1, None) && passes(2, Some(1)) && !passes(3, Some(1)) && passes(4, Some(2)));
        assert!(passes(5, Some(4)) && passes(6, Some(5)), "they were created meanwhile");
        assert!(!passes(7, Some(3)) && !passes(8, Some(7)));
        assert!(EventFilter::default().below(node(9), tree.clone()).is_none());
        let both = EventFilter::of_types(vec!["tree.scratchpad_linked".into()]).below(node(2), tree).unwrap();
        assert!(both.passes(&event(2, Some(1), linked())) && !both.passes(&event(2, Some(1), status())));
        assert!(!both.passes(&event(3, Some(1), linked())));
    }
}
