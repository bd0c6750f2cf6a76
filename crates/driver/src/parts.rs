//! Cuts what ends many nodes into parts, which are appended one after the other.
//!
//! A decision must be written whole: a plan without its steps would not be one. Only where a node is cancelled, or the
//! run ends, the log up to there is as good as the whole. A successor that finds such a log goes on with the rest.

use std::collections::HashSet;

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{NodeId, NodeStatus};
use tree_agent_engine::{Decision, Graph};
use tree_agent_store::Projection;

/// Bytes of an encoded part after which the next one begins.
const PART_BYTES: usize = 4 * 1024 * 1024;

/// One append.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) decision: Decision,
    pub(crate) projection: Projection,
}

/// The parts of a decision, each of about `most` events, where it can be cut. `sizes` are the encoded events' bytes.
pub(crate) fn parts(decision: Decision, sizes: &[usize], graph: &Graph, most: usize) -> Vec<Part> {
    let whole = decision.events.len() <= most && sizes.iter().sum::<usize>() <= PART_BYTES;
    let mut parts = match whole {
        true => vec![decision],
        false => cut(decision, sizes, most),
    };
    let mut later = HashSet::new();
    let mut rows: Vec<Projection> = Vec::with_capacity(parts.len());
    for (behind, part) in parts.iter().rev().enumerate() {
        let mut projection = Projection::of(&part.events, graph);
        // The graph is that of the whole decision. A row that changes again is written then, and the run's own at last.
        if behind > 0 {
            projection.run = None;
        }
        if parts.len() > 1 {
            projection.nodes.retain(|node| later.insert(node.id.0));
            projection.plans.retain(|plan| later.insert(plan.id.0));
        }
        rows.push(projection);
    }
    rows.reverse();
    parts.drain(..).zip(rows).map(|(decision, projection)| Part { decision, projection }).collect()
}

fn cut(decision: Decision, sizes: &[usize], most: usize) -> Vec<Decision> {
    // Documents and conversations belong to what was decided before the nodes were cancelled.
    let mut part =
        Decision { events: Vec::new(), documents: decision.documents, sessions: decision.sessions };
    let (mut parts, mut bytes) = (Vec::new(), 0);
    let mut created = HashSet::new();
    for (event, size) in decision.events.into_iter().zip(sizes) {
        if matches!(event.body, EventBody::NodeCreated(_)) {
            created.insert(event.node_id);
        }
        // A cancelled node is two events: its own and that of its step.
        let full = part.events.len() + 2 > most || bytes + size > PART_BYTES;
        if full && is_cut(&event, &created) && !part.events.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size;
        part.events.push(event);
    }
    parts.push(part);
    parts
}

/// True if the log may end before this event. A node that is cancelled by the decision that `created` it belongs to a list
/// of nodes, which must be whole.
fn is_cut(event: &Event, created: &HashSet<NodeId>) -> bool {
    match &event.body {
        EventBody::NodeStatusChanged(e) => {
            e.status == NodeStatus::Cancelled && !created.contains(&event.node_id)
        }
        EventBody::RunStatusChanged(e) => e.status.is_final(),
        _ => false,
    }
}
