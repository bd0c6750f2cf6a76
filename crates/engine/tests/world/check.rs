//! The named invariants of the design, checked on a finished log.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::event::EventBody;
use tree_agent_contract::*;

use super::World;

/// What is known of a node while the log is read.
#[derive(Default)]
struct Seen {
    parent: Option<NodeId>,
    status: Option<NodeStatus>,
    has_result: bool,
    has_hint: bool,
    band: Option<u32>,
    steps: BTreeMap<StepId, (u32, StepStatus)>,
}

impl World {
    pub(crate) fn check(&self) {
        let budgets = &self.plan.budgets;
        let mut nodes: BTreeMap<NodeId, Seen> = BTreeMap::new();
        let mut exhausted = false;
        let mut run_status = RunStatus::Queued;
        for (i, event) in self.log.iter().enumerate() {
            let at = format!("event {} {}", event.seq, event.body.event_type());
            assert_eq!(event.seq, i as u64 + 1, "seq is contiguous from 1");
            assert!(!run_status.is_final(), "{at}: nothing follows the end of a run");
            if let Some(seen) = nodes.get(&event.node_id) {
                let about_run =
                    matches!(event.body, EventBody::RunStatusChanged(_) | EventBody::StepStatusChanged(_));
                assert!(
                    about_run || !seen.status.is_some_and(NodeStatus::is_final),
                    "{at}: the node has ended"
                );
                assert_eq!(seen.parent, event.parent_node_id, "{at}: the envelope names the parent");
            }
            match &event.body {
                EventBody::RunStatusChanged(e) => {
                    run_status = e.status;
                    if e.status.is_final() {
                        assert!(
                            nodes.values().all(|n| n.status.is_some_and(NodeStatus::is_final)),
                            "{at}: nodes end before the run"
                        );
                    }
                }
                EventBody::BudgetExhausted(_) => {
                    assert!(!exhausted, "{at}: a budget trips once");
                    exhausted = true;
                }
                EventBody::NodeCreated(e) => {
                    assert!(!exhausted, "{at}: no node after a budget tripped");
                    assert!(e.depth <= budgets.max_depth, "{at}: depth");
                    if let Some(parent) = e.parent_node_id {
                        let above = &nodes[&parent];
                        let band = e.band_index.expect("a child has a band");
                        for (step, (b, status)) in &above.steps {
                            assert!(
                                *b >= band || status.is_final(),
                                "{at}: band {band} opens while {step} of band {b} is {status}"
                            );
                        }
                        let siblings = nodes.values().filter(|n| n.parent == Some(parent)).count() as u32;
                        assert!(siblings < budgets.max_children_per_node, "{at}: children");
                    }
                    let seen = Seen { parent: e.parent_node_id, band: e.band_index, ..Seen::default() };
                    assert!(nodes.insert(event.node_id, seen).is_none(), "{at}: a node is created once");
                    assert!(nodes.len() as u32 <= budgets.max_nodes, "{at}: nodes");
                }
                EventBody::PlanCreated(_) => nodes.get_mut(&event.node_id).expect("known").steps.clear(),
                EventBody::StepCreated(e) => {
                    assert!(e.band_index < budgets.max_bands_per_plan, "{at}: bands");
                    assert!(e.step_index < budgets.max_steps_per_band, "{at}: steps");
                    let steps = &mut nodes.get_mut(&event.node_id).expect("known").steps;
                    assert!(
                        steps.insert(e.step_id.clone(), (e.band_index, StepStatus::Pending)).is_none(),
                        "{at}"
                    );
                }
                EventBody::StepStatusChanged(e) => {
                    let steps = &mut nodes.get_mut(&event.node_id).expect("known").steps;
                    let step = steps.get_mut(&e.step_id).expect("a status only of a known step");
                    assert!(!step.1.is_final(), "{at}: a step's outcome is recorded once");
                    step.1 = e.status;
                    let running = steps.values().filter(|(_, s)| *s == StepStatus::Running).count() as u32;
                    assert!(running <= budgets.max_parallel_steps, "{at}: parallel steps");
                }
                EventBody::NodeStatusChanged(e) => {
                    if e.status == NodeStatus::Aggregating {
                        for child in nodes.values().filter(|n| n.parent == Some(event.node_id)) {
                            assert!(
                                child.status.is_some_and(NodeStatus::is_final),
                                "{at}: children end before"
                            );
                            assert!(
                                child.status != Some(NodeStatus::Completed) || child.has_hint,
                                "{at}: hint before"
                            );
                        }
                    }
                    if e.status == NodeStatus::Cancelled {
                        assert!(
                            exhausted || self.cancelled,
                            "{at}: only a budget or the user cancels a node"
                        );
                    }
                    nodes.get_mut(&event.node_id).expect("known").status = Some(e.status);
                }
                EventBody::NodeResult(_) => nodes.get_mut(&event.node_id).expect("known").has_result = true,
                EventBody::ParentHint(e) => {
                    let seen = nodes.get_mut(&event.node_id).expect("known");
                    assert_eq!(seen.parent, Some(e.parent_node_id), "{at}");
                    seen.has_hint = true;
                }
                EventBody::NodeCompleted(_) | EventBody::NodeFailed(_) => {
                    for child in nodes.values().filter(|n| n.parent == Some(event.node_id)) {
                        assert!(
                            child.status.is_some_and(NodeStatus::is_final),
                            "{at}: children end before their parent"
                        );
                    }
                    let seen = nodes.get_mut(&event.node_id).expect("known");
                    let completed = matches!(event.body, EventBody::NodeCompleted(_));
                    assert!(!completed || seen.has_result, "{at}: result before completed");
                    seen.status = Some(if completed { NodeStatus::Completed } else { NodeStatus::Failed });
                }
                _ => {}
            }
        }
        assert!(run_status.is_final(), "every run ends");
        let bands: BTreeSet<_> = nodes.values().filter_map(|n| n.band).collect();
        assert!(bands.len() as u32 <= budgets.max_bands_per_plan);
        self.check_labels(exhausted);
    }

    /// What is missing is said: a run that lost work to a failure or a budget is never called whole.
    fn check_labels(&self, exhausted: bool) {
        let graph = self.run.graph();
        let root = &graph.nodes()[0];
        let whole = graph.status() == RunStatus::Completed && !graph.partial();
        if whole {
            assert_eq!(root.outcome, Some(Outcome::Success));
            for node in graph.nodes() {
                let current = node.parent_id.and_then(|p| graph.node(p)).and_then(|p| p.plan.as_ref());
                let still_planned = current.is_none_or(|plan| {
                    plan.bands.iter().flat_map(|b| &b.steps).any(|s| s.node_id == Some(node.id))
                });
                let given_up = node.parent_id.is_some() && !still_planned;
                assert!(
                    given_up || ancestors_given_up(graph, node.id) || node.status == NodeStatus::Completed,
                    "a whole run holds {} node {}",
                    node.status,
                    node.title
                );
            }
        }
        if exhausted
            && graph.status() == RunStatus::Completed
            && !graph.nodes().iter().all(|n| n.status == NodeStatus::Completed)
        {
            assert!(graph.partial(), "out of budget with work left undone, yet not labelled partial");
        }
        if root.status == NodeStatus::Completed {
            assert!(root.result.is_some(), "a completed root holds its result");
        }
        // What was finished is returned: no node ends without a result while a step of its plans has one.
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

/// True when a node above was given up by a later plan of its parent.
fn ancestors_given_up(graph: &tree_agent_engine::Graph, mut id: NodeId) -> bool {
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
