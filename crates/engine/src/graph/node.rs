//! What events change about one node.

use tree_agent_contract::event::{NodeCreated, NodeReopened};
use tree_agent_contract::graph::{GraphNode, GraphStep, GraphTask};
use tree_agent_contract::{NodeStatus, StepId, Timestamp, limits};

/// Topics of a guided search have a slug and stand in no band.
pub(super) fn is_topic(created: &NodeCreated) -> bool {
    created.step_id.is_some() && created.band_index.is_none()
}

/// A task of homework has an iteration and a branch.
pub(super) fn task(created: &NodeCreated) -> Option<Box<GraphTask>> {
    let (iteration, branch_id) = (created.iteration?, created.branch_id.clone()?);
    Some(Box::new(GraphTask { iteration, branch_id }))
}

/// Keeps a decision about the node.
pub(super) fn decide(node: &mut GraphNode, why: String) {
    if node.decisions.len() == limits::NODE_DECISIONS {
        node.decisions.remove(0);
    }
    node.decisions.push(why);
}

/// Gives a node a status, and keeps the number of those that have ended.
pub(super) fn turn(node: &mut GraphNode, ended: &mut u64, status: NodeStatus) {
    *ended += u64::from(status.is_final());
    *ended -= u64::from(node.status.is_final());
    node.status = status;
}

/// A pause ends with its node.
pub(super) fn end(node: &mut GraphNode, at: Timestamp) {
    (node.ended_at, node.paused, node.review) = (Some(at), false, None);
}

/// The node goes on. What it returned in an earlier generation is in the log; the graph shows the latest one.
pub(super) fn reopen(node: &mut GraphNode, ended: &mut u64, e: &NodeReopened) {
    node.generation = e.generation;
    node.stopped = false;
    turn(node, ended, NodeStatus::Waiting);
    (node.outcome, node.error, node.message, node.ended_at) = (None, None, None, None);
    if e.again {
        (node.plan, node.result, node.verification, node.progress) = (None, None, None, None);
        node.artifacts.clear();
    }
}

/// A step of the node's plan.
pub(super) fn step_mut<'a>(node: &'a mut GraphNode, id: &StepId) -> Option<&'a mut GraphStep> {
    node.plan.as_mut()?.bands.iter_mut().flat_map(|b| &mut b.steps).find(|s| s.step_id == *id)
}

/// The progress of a node that waits for its steps: the share of those that have ended. What the log says of it is from
/// the last change of its status.
pub(super) fn count_steps(node: &mut GraphNode) {
    if matches!(node.status, NodeStatus::Delegating | NodeStatus::Waiting | NodeStatus::Aggregating) {
        node.progress =
            node.ended_steps().map(|(ended, all)| f64::from(ended) / f64::from(all)).or(node.progress);
    }
}
