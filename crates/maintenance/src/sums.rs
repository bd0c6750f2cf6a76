//! What nodes have used, counted from the log alone.

use std::collections::HashMap;

use tree_agent_contract::NodeId;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::graph::Usage;
use tree_agent_engine::Graph;

/// What the calls of each node have used.
#[derive(Debug, Default)]
pub(crate) struct Sums(HashMap<NodeId, Usage>);

impl Sums {
    /// Reads the next event.
    pub(crate) fn event(&mut self, event: &Event) {
        let usage = match &event.body {
            EventBody::UsageRecorded(e) => Usage::of(e),
            EventBody::ToolCallRequested(_) => Usage::TOOL_CALL,
            _ => return,
        };
        let sum = self.0.entry(event.node_id).or_default();
        *sum = sum.plus(usage);
    }

    /// How the sums of a graph differ: each node's own is what its calls used, and a subtree's is its own plus those of
    /// its children.
    pub(crate) fn differences(&self, graph: &Graph) -> Vec<String> {
        let mut below: HashMap<NodeId, Usage> = HashMap::new();
        for node in graph.nodes() {
            if let Some(parent) = node.parent_id {
                let sum = below.entry(parent).or_default();
                *sum = sum.plus(node.subtree_usage.get());
            }
        }
        let mut found = Vec::new();
        for node in graph.nodes() {
            let own = self.0.get(&node.id).copied().unwrap_or_default();
            if node.usage.get() != own {
                found.push(format!("node {} counts other calls than it made", node.id));
            }
            if node.subtree_usage.get() != own.plus(below.get(&node.id).copied().unwrap_or_default()) {
                found.push(format!("the subtree of node {} counts other calls than it made", node.id));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::event::{NodeCreated, ToolCallRequested};
    use tree_agent_contract::{RunId, RunSpec, Timestamp};

    use super::*;

    #[test]
    fn calls_that_a_graph_does_not_count_are_found() {
        let run = RunId(uuid::Uuid::from_u128(1));
        let mut log = tree_agent_engine::start(run, RunSpec::new("o"), Timestamp(1)).events;
        let root = log[0].node_id;
        let child = NodeId::from(uuid::Uuid::from_u128(2));
        let mut then = |node_id, parent_node_id, body: EventBody| {
            let last = log.last().expect("a log").clone();
            log.push(Event { seq: last.seq + 1, node_id, parent_node_id, body, ..last });
        };
        let created = NodeCreated { parent_node_id: Some(root), ..NodeCreated::new("t") };
        then(child, Some(root), created.into());
        let tool = ToolCallRequested {
            call_id: "c".into(),
            tool_name: "look".into(),
            args: None,
            purpose: None,
            phase: None,
            started_at: None,
        };
        then(child, Some(root), tool.into());
        let (mut graph, mut sums) = (Graph::new(run), Sums::default());
        log.iter().for_each(|event| graph.apply(event).expect("applies"));
        let lost = sums.differences(&graph);
        assert_eq!(lost.len(), 2, "the child and its subtree: {lost:?}");
        log.iter().for_each(|event| sums.event(event));
        assert_eq!(sums.differences(&graph), Vec::<String>::new());
    }
}
