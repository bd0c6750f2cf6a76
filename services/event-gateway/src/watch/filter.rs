//! Which events of a run a stream is for. Looks at the encoded events, because most are shared by many streams.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tree_agent_contract::NodeId;

use super::tree::Tree;
use crate::descriptors;

/// Fields of `treeagent.v1.Event` and of the response around it.
const RESPONSE_EVENT: u32 = 1;
const NODE: u32 = 3;
const PARENT: u32 = 4;
/// Fields from here on are payloads.
const FIRST_BODY: u32 = 10;

/// Which events pass. The default is all of them.
#[derive(Default)]
pub(crate) struct EventFilter {
    /// Field numbers of their payloads; empty for all.
    bodies: Vec<u32>,
    /// Their node, or one above it; none for all.
    below: Option<(NodeId, Arc<Tree>)>,
}

impl EventFilter {
    /// Events of these types, which exist; of all when there are none.
    pub(crate) fn of_types(types: &[String]) -> Self {
        let mut bodies = Vec::new();
        if !types.is_empty() {
            bodies
                .extend(descriptors::event_fields().filter(|(name, _)| types.contains(name)).map(|(_, n)| n));
        }
        Self { bodies, below: None }
    }

    /// Of these only events of `node` and of the nodes below it. None when `tree`, in which every node of the run's log
    /// so far is known, does not have the node.
    pub(crate) fn below(self, node: NodeId, tree: Arc<Tree>) -> Option<Self> {
        tree.has(node).then_some(Self { below: Some((node, tree)), ..self })
    }

    /// True when the event in a framed response passes. The events of a run must be given in order.
    pub(crate) fn passes(&self, framed: &Bytes) -> bool {
        if self.bodies.is_empty() && self.below.is_none() {
            return true;
        }
        // What cannot be read is for the client to judge.
        let Some(look) = Look::at(framed.slice(5..)) else { return true };
        if let Some((top, tree)) = &self.below {
            let Some(node) = look.node else { return true };
            if !tree.is_below(*top, node, look.parent) {
                return false;
            }
        }
        self.bodies.is_empty() || self.bodies.contains(&look.body)
    }
}

/// What a filter needs to know of an event.
#[derive(Default)]
struct Look {
    node: Option<NodeId>,
    parent: Option<NodeId>,
    body: u32,
}

impl Look {
    fn at(mut response: Bytes) -> Option<Self> {
        let mut look = Self::default();
        while response.has_remaining() {
            match decode_key(&mut response).ok()? {
                (RESPONSE_EVENT, WireType::LengthDelimited) => {
                    let mut event = part(&mut response)?;
                    while event.has_remaining() {
                        look.field(&mut event)?;
                    }
                }
                (tag, wire_type) => {
                    skip_field(wire_type, tag, &mut response, DecodeContext::default()).ok()?
                }
            }
        }
        Some(look)
    }

    fn field(&mut self, event: &mut Bytes) -> Option<()> {
        let (tag, wire_type) = decode_key(event).ok()?;
        if tag >= FIRST_BODY {
            self.body = tag;
        }
        match (tag, wire_type) {
            (NODE, WireType::LengthDelimited) => self.node = id(&part(event)?),
            (PARENT, WireType::LengthDelimited) => self.parent = id(&part(event)?),
            _ => skip_field(wire_type, tag, event, DecodeContext::default()).ok()?,
        }
        Some(())
    }
}

/// The next length-delimited part.
fn part(bytes: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(decode_varint(bytes).ok()?).ok()?;
    (length <= bytes.remaining()).then(|| bytes.split_to(length))
}

fn id(text: &[u8]) -> Option<NodeId> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::frame::Frame;
    use tree_agent_contract::event::{Event, NodeStatusChanged, ScratchpadLinked};
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
        let filter = EventFilter::of_types(&["tree.node_status".into(), "tree.run_status".into()]);
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
        let both = EventFilter::of_types(&["tree.scratchpad_linked".into()]).below(node(2), tree).unwrap();
        assert!(both.passes(&event(2, Some(1), linked())) && !both.passes(&event(2, Some(1), status())));
        assert!(!both.passes(&event(3, Some(1), linked())));
    }
}
