//! What nodes have used, counted from the log alone: nothing is lost between a call and the sums above it.

use std::collections::BTreeMap;

use tree_agent_contract::event::EventBody;
use tree_agent_contract::graph::Usage;
use tree_agent_contract::{Event, NodeId};
use tree_agent_engine::Graph;

use crate::store::StoredRun;

/// Each node's own use is that of its calls, a subtree's is its own and its children's, and a run's is what it wrote
/// itself.
pub(super) fn check_sums(run: &StoredRun, graph: &Graph, note: &mut impl FnMut(String)) {
    let mut own: BTreeMap<NodeId, Usage> = BTreeMap::new();
    for (_, event) in &run.log {
        let sum = own.entry(event.node_id).or_default();
        *sum = sum.plus(usage(event));
    }
    let mut below: BTreeMap<NodeId, Usage> = BTreeMap::new();
    for node in graph.nodes() {
        let Some(parent) = node.parent_id else { continue };
        let sum = below.entry(parent).or_default();
        *sum = sum.plus(node.subtree_usage.get());
    }
    for node in graph.nodes() {
        let own = own.get(&node.id).copied().unwrap_or_default();
        let whole = own.plus(below.get(&node.id).copied().unwrap_or_default());
        if node.usage.get() != own || node.subtree_usage.get() != whole {
            note(format!("node {} counts other calls than it made", node.id));
        }
    }
    let shared = run.fork.as_ref().map_or(0, |of| of.parent_seq as usize);
    let written =
        run.log.iter().skip(shared).fold(Usage::default(), |sum, (_, event)| sum.plus(usage(event)));
    if run.row.usage != written {
        note(format!("its row says that it used {:?}, its events say {written:?}", run.row.usage));
    }
}

fn usage(event: &Event) -> Usage {
    match &event.body {
        EventBody::UsageRecorded(e) => Usage::of(e),
        EventBody::ToolCallRequested(e) if !e.cached => Usage::tool_call(),
        _ => Usage::default(),
    }
}
