//! What nodes have used, counted from the log alone.

use std::collections::HashMap;

use tree_agent_contract::NodeId;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::graph::{GraphNode, SubtreeUse, Usage};
use tree_agent_engine::Graph;

/// What the calls of each node have used.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    nodes: HashMap<NodeId, Usage>,
    /// What it was when the run was forked.
    before_fork: HashMap<NodeId, Usage>,
}

impl Sums {
    /// Reads the next event.
    pub(crate) fn event(&mut self, event: &Event) {
        let usage = match &event.body {
            EventBody::UsageRecorded(e) => Usage::of(e),
            EventBody::ToolCallRequested(e) if !e.cached => Usage::TOOL_CALL,
            EventBody::RunForked(_) => {
                self.before_fork = self.nodes.clone();
                return;
            }
            _ => return,
        };
        let sum = self.nodes.entry(event.node_id).or_default();
        *sum = sum.plus(usage);
    }

    /// How the sums of a graph differ: each node's own is what its calls used, and a subtree's is its own plus those of
    /// its children. The sum of a run, and what a lease counts, begins with the fork.
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
            let own = self.nodes.get(&node.id).copied().unwrap_or_default();
            if node.usage.get() != own {
                found.push(format!("node {} counts other calls than it made", node.id));
            }
            if node.subtree_usage.get() != own.plus(below.get(&node.id).copied().unwrap_or_default()) {
                found.push(format!("the subtree of node {} counts other calls than it made", node.id));
            }
        }
        if graph.usage() != total(&self.nodes).minus(total(&self.before_fork)) {
            found.push("the run counts other calls than it made".to_owned());
        }
        found.extend(self.leases(graph));
        found
    }

    /// Open leases that count calls from before the fork.
    fn leases(&self, graph: &Graph) -> Vec<String> {
        let mut before = self.before_fork.clone();
        // Children come after their parents.
        for node in graph.nodes().iter().rev() {
            let used = before.get(&node.id).copied().unwrap_or_default();
            if let Some(parent) = node.parent_id {
                let sum = before.entry(parent).or_default();
                *sum = sum.plus(used);
            }
        }
        let open = graph.nodes().iter().filter(|node| !node.status.is_final());
        let counts_before = |node: &&GraphNode| {
            let Some(lease) = node.lease.as_ref().filter(|lease| !lease.limits.is_empty()) else {
                return false;
            };
            let used = SubtreeUse::from(before.get(&node.id).copied().unwrap_or_default());
            lease.before.tokens < used.tokens
                || lease.before.cost_micros < used.cost_micros
                || lease.before.tool_calls < used.tool_calls
        };
        open.filter(counts_before)
            .map(|node| format!("the lease of node {} counts calls from before the fork", node.id))
            .collect()
    }
}

fn total(sums: &HashMap<NodeId, Usage>) -> Usage {
    sums.values().fold(Usage::default(), |sum, usage| sum.plus(*usage))
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::event::{BudgetSet, NodeCreated, RunForked, ToolCallRequested};
    use tree_agent_contract::{BudgetChange, RunId, RunSpec, Timestamp};

    use super::*;

    const RUN: RunId = RunId(uuid::Uuid::from_u128(1));

    /// The log of a run with one child of the root, which has called a tool.
    struct Log {
        events: Vec<Event>,
        root: NodeId,
        child: NodeId,
    }

    impl Log {
        fn new() -> Self {
            let events = tree_agent_engine::start(RUN, RunSpec::new("o"), Timestamp(1)).events;
            let (root, child) = (events[0].node_id, NodeId::from(uuid::Uuid::from_u128(2)));
            let mut log = Self { events, root, child };
            let created = NodeCreated { parent_node_id: Some(root), ..NodeCreated::new("t") };
            log.of_child(created);
            log.call_tool();
            log
        }

        fn push(&mut self, node_id: NodeId, parent_node_id: Option<NodeId>, body: EventBody) {
            let last = self.events.last().expect("a log").clone();
            self.events.push(Event { seq: last.seq + 1, node_id, parent_node_id, body, ..last });
        }

        fn of_child(&mut self, body: impl Into<EventBody>) {
            self.push(self.child, Some(self.root), body.into());
        }

        fn call_tool(&mut self) {
            self.of_child(ToolCallRequested {
                call_id: "c".into(),
                tool_name: "look".into(),
                args: None,
                purpose: None,
                phase: None,
                started_at: None,
                cached: false,
            });
        }
    }

    #[test]
    fn calls_that_a_graph_does_not_count_are_found() {
        let log = Log::new().events;
        let (mut graph, mut sums) = (Graph::new(RUN), Sums::default());
        log.iter().for_each(|event| graph.apply(event).expect("applies"));
        let lost = sums.differences(&graph);
        assert_eq!(lost.len(), 3, "the child, its subtree and the run: {lost:?}");
        log.iter().for_each(|event| sums.event(event));
        assert_eq!(sums.differences(&graph), Vec::<String>::new());
    }

    #[test]
    fn calls_from_before_a_fork_count_neither_for_the_run_nor_for_a_lease() {
        let mut log = Log::new();
        let change = BudgetChange { max_tool_calls: Some(9), ..BudgetChange::default() };
        let set = BudgetSet { author: "ann".into(), request_id: String::new(), change, clamped: false };
        log.of_child(set);
        let forked = RunForked {
            source_run_id: RUN,
            at_seq: 5,
            origin_run_id: None,
            author: "ann".into(),
            request_id: String::new(),
            display_name: String::new(),
            labels: Default::default(),
            edits: Vec::new(),
            goes_on: false,
        };
        log.push(log.root, None, forked.into());
        log.call_tool();
        let Log { events: log, child, .. } = log;
        let graph_of = |skip: Option<&str>| {
            let (mut graph, mut sums, mut seq) = (Graph::new(RUN), Sums::default(), 0);
            for event in &log {
                sums.event(event);
                if Some(event.body.event_type()) != skip {
                    seq += 1;
                    graph.apply(&Event { seq, ..event.clone() }).expect("applies");
                }
            }
            (graph, sums)
        };
        let (graph, sums) = graph_of(None);
        assert_eq!((graph.usage().tool_calls, sums.differences(&graph)), (1, Vec::new()));
        let (graph, sums) = graph_of(Some("tree.run_forked"));
        let found = sums.differences(&graph);
        let lease = format!("the lease of node {child} counts calls from before the fork");
        assert_eq!(found, ["the run counts other calls than it made".to_owned(), lease]);
    }
}
