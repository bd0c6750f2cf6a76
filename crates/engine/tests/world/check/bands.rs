//! The rules about bands: what holds for strategies that plan.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::event::EventBody;
use tree_agent_contract::*;

use super::super::World;

/// Counts that are checked against the limits of a run.
#[derive(Default)]
struct Seen {
    parent: Option<NodeId>,
    band: Option<u32>,
    running: BTreeSet<StepId>,
}

impl World {
    /// What holds if every node plans in bands.
    pub(super) fn check_bands(&self) {
        self.check_plans();
        self.check_labels();
    }

    /// Plans and the steps at work stay within the limits.
    fn check_plans(&self) {
        let budgets = &self.plan.budgets;
        let mut nodes: BTreeMap<NodeId, Seen> = BTreeMap::new();
        // The nodes of searches that carry out steps.
        let mut searching = BTreeSet::new();
        for event in &self.log {
            let at = format!("event {} {}", event.seq, event.body.event_type());
            match &event.body {
                EventBody::NodeCreated(e) => {
                    let is_topic = e.parent_node_id.is_some_and(|parent| searching.contains(&parent));
                    if is_topic || e.strategy == Some(Strategy::Search) {
                        searching.insert(event.node_id);
                    }
                    if let Some(parent) = e.parent_node_id.filter(|_| !is_topic) {
                        let siblings = nodes.values().filter(|n| n.parent == Some(parent)).count() as u32;
                        assert!(siblings < budgets.max_children_per_node, "{at}: children");
                        assert!(e.band_index.is_some(), "{at}: a child has a band");
                    }
                    let seen = Seen { parent: e.parent_node_id, band: e.band_index, ..Seen::default() };
                    nodes.insert(event.node_id, seen);
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
                _ => {}
            }
        }
        let bands: BTreeSet<_> = nodes.values().filter_map(|n| n.band).collect();
        assert!(bands.len() as u32 <= budgets.max_bands_per_plan);
    }

    /// Missing work is reported: a run that lost work to a failure or a budget is labelled as partial.
    fn check_labels(&self) {
        let graph = self.run.graph();
        let root = &graph.nodes()[0];
        let whole = graph.status() == RunStatus::Completed && !graph.partial();
        if whole {
            assert_eq!(root.outcome, Some(Outcome::Success));
            let planned = graph.nodes().iter().filter(|node| node.topic.is_none());
            for node in planned.filter(|node| !given_up(graph, node.id)) {
                let (status, title) = (node.status, &node.title);
                assert_eq!(status, NodeStatus::Completed, "a whole run holds {status} node {title}");
                let mut steps = node.plan.iter().flat_map(|p| &p.bands).flat_map(|b| &b.steps);
                assert!(steps.all(|s| s.node_id.is_some()), "a whole run left steps of {title} undone");
            }
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
