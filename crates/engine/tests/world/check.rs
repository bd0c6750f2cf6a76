//! Checks the invariants on a finished log.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::event::EventBody;
use tree_agent_contract::*;
use tree_agent_engine::{Audit, CallKind};

use super::World;

/// Counts that are checked against the limits of a run.
#[derive(Default)]
struct Seen {
    parent: Option<NodeId>,
    band: Option<u32>,
    running: BTreeSet<StepId>,
}

impl World {
    pub(crate) fn check(&self) {
        let mut audit = Audit::new();
        self.log.iter().for_each(|event| audit.event(event));
        assert_eq!(audit.finish(), [], "the invariants of a log");
        self.check_limits();
        self.check_labels();
        self.check_usage();
        self.check_estimate();
        self.check_scratchpads();
    }

    /// A scratchpad changes at most four times in any second, and holds every written text once and in one piece.
    fn check_scratchpads(&self) {
        let mut times: BTreeMap<NodeId, Vec<Timestamp>> = BTreeMap::new();
        for event in self.log.iter().filter(|e| matches!(e.body, EventBody::ScratchpadUpdated(_))) {
            let times = times.entry(event.node_id).or_default();
            times.push(event.timestamp);
            if let [.., first, _, _, _, last] = times[..] {
                assert!(
                    last.millis_since(first) >= 1_000,
                    "event {} is the fifth within a second",
                    event.seq
                );
            }
        }
        let given_up = self.cancelled || self.run.exhausted_budget().is_some();
        for (node, wrote) in &self.said {
            let pad = self.pads.get(&DocumentId::scratchpad(*node)).map_or("", String::as_str);
            let found = pad.matches(wrote.as_str()).count();
            assert!(wrote.is_empty() || found == 1 || given_up, "{wrote:?} is {found} times in {pad:?}");
        }
    }

    /// No guard is exceeded, and only a budget or the user cancels a node.
    fn check_limits(&self) {
        let budgets = &self.plan.budgets;
        let mut nodes: BTreeMap<NodeId, Seen> = BTreeMap::new();
        let mut exhausted = false;
        for (i, event) in self.log.iter().enumerate() {
            let at = format!("event {} {}", event.seq, event.body.event_type());
            assert_eq!(event.seq, i as u64 + 1, "seq is contiguous from 1");
            match &event.body {
                EventBody::BudgetExhausted(_) => {
                    assert!(!exhausted, "{at}: a budget trips once");
                    exhausted = true;
                }
                EventBody::NodeCreated(e) => {
                    assert!(!exhausted, "{at}: no node after a budget tripped");
                    assert!(e.depth <= budgets.max_depth, "{at}: depth");
                    if let Some(parent) = e.parent_node_id {
                        let siblings = nodes.values().filter(|n| n.parent == Some(parent)).count() as u32;
                        assert!(siblings < budgets.max_children_per_node, "{at}: children");
                        assert!(e.band_index.is_some(), "{at}: a child has a band");
                    }
                    let seen = Seen { parent: e.parent_node_id, band: e.band_index, ..Seen::default() };
                    nodes.insert(event.node_id, seen);
                    assert!(nodes.len() as u32 <= budgets.max_nodes, "{at}: nodes");
                }
                EventBody::StepCreated(e) => {
                    assert!(e.band_index < budgets.max_bands_per_plan, "{at}: bands");
                    assert!(e.step_index < budgets.max_steps_per_band, "{at}: steps");
                }
                EventBody::StepStatusChanged(e) => {
                    let running = &mut nodes.get_mut(&event.node_id).expect("known").running;
                    if e.status == StepStatus::Running {
                        running.insert(e.step_id.clone());
                    } else {
                        running.remove(&e.step_id);
                    }
                    assert!(running.len() as u32 <= budgets.max_parallel_steps, "{at}: parallel steps");
                }
                EventBody::NodeStatusChanged(e) if e.status == NodeStatus::Cancelled => {
                    assert!(exhausted || self.cancelled, "{at}: only a budget or the user cancels a node");
                }
                _ => {}
            }
        }
        assert!(self.run.graph().status().is_final(), "every run ends");
        let bands: BTreeSet<_> = nodes.values().filter_map(|n| n.band).collect();
        assert!(bands.len() as u32 <= budgets.max_bands_per_plan);
    }

    /// The run stays within its estimate.
    fn check_estimate(&self) {
        let estimate = Estimate::of(&self.plan.budgets, None);
        let made = |kind| self.made.iter().filter(|(_, k, _)| *k == kind).count() as u64;
        let nodes = self.run.graph().nodes();
        assert!(nodes.len() as u64 <= estimate.nodes, "{} nodes of {estimate:?}", nodes.len());
        assert!(nodes.iter().all(|n| n.depth <= estimate.depth), "{estimate:?}");
        for (kind, most) in [
            (CallKind::Plan, estimate.plan_calls),
            (CallKind::Execute, estimate.execute_calls),
            (CallKind::Aggregate, estimate.aggregate_calls),
        ] {
            assert!(made(kind) <= most, "{} calls of {kind:?}, of {estimate:?}", made(kind));
        }
    }

    /// Missing work is reported: a run that lost work to a failure or a budget is labelled as partial.
    fn check_labels(&self) {
        let graph = self.run.graph();
        let root = &graph.nodes()[0];
        let whole = graph.status() == RunStatus::Completed && !graph.partial();
        if whole {
            assert_eq!(root.outcome, Some(Outcome::Success));
            for node in graph.nodes().iter().filter(|node| !given_up(graph, node.id)) {
                let (status, title) = (node.status, &node.title);
                assert_eq!(status, NodeStatus::Completed, "a whole run holds {status} node {title}");
                let mut steps = node.plan.iter().flat_map(|p| &p.bands).flat_map(|b| &b.steps);
                assert!(steps.all(|s| s.node_id.is_some()), "a whole run left steps of {title} undone");
            }
        }
        if root.status == NodeStatus::Completed {
            assert!(root.result.is_some(), "a completed root holds its result");
        }
        // Finished work is returned: no node ends without a result if a step of its plans has one.
        for node in graph.nodes() {
            let lost = matches!(node.status, NodeStatus::Failed | NodeStatus::Cancelled) && !self.cancelled;
            let finished = graph
                .nodes()
                .iter()
                .any(|c| c.parent_id == Some(node.id) && c.status == NodeStatus::Completed);
            assert!(!(lost && finished), "{} ended as {} with finished children", node.title, node.status);
        }
    }
}

/// True if a later plan of its parent dropped the node, or a node above it.
fn given_up(graph: &tree_agent_engine::Graph, mut id: NodeId) -> bool {
    while let Some(node) = graph.node(id) {
        let Some(parent) = node.parent_id.and_then(|p| graph.node(p)) else { return false };
        let planned =
            parent.plan.iter().flat_map(|p| &p.bands).flat_map(|b| &b.steps).any(|s| s.node_id == Some(id));
        if !planned {
            return true;
        }
        id = parent.id;
    }
    false
}
