//! Which model answered for what.

use tree_agent_contract::event::UsageRecorded;
use tree_agent_contract::graph::{GraphNode, WrittenBy};
use tree_agent_contract::role::CallKind;

/// Models that are kept of a run.
const MODELS: usize = 16;

/// The models of `nodes`, in no particular order.
pub(super) fn of(nodes: &[GraphNode]) -> Vec<String> {
    let mut models: Vec<String> = Vec::new();
    for written in nodes.iter().flat_map(|node| &node.written_by) {
        if models.len() < MODELS && !models.contains(&written.model) {
            models.push(written.model.clone());
        }
    }
    models
}

/// Keeps which model answered for `node`.
pub(super) fn wrote(node: &mut GraphNode, call: &UsageRecorded) {
    let purpose = WrittenBy::purpose_of(call);
    match node.written_by.iter().position(|known| known.purpose == purpose) {
        Some(at) => node.written_by[at].model.clone_from(&call.model),
        // A role may say anything of what a call was for.
        None if !call.model.is_empty() && purpose.parse::<CallKind>().is_ok() => {
            node.written_by.push(WrittenBy { purpose: purpose.to_owned(), model: call.model.clone() });
        }
        None => {}
    }
}

/// A model answered, so it is the last of `models`. A verifier wrote nothing of the answer, and stands before the
/// others.
pub(super) fn answered(models: &mut Vec<String>, call: &UsageRecorded) {
    let model = call.model.as_str();
    let verifies = WrittenBy::purpose_of(call) == CallKind::Verify.as_str();
    match models.iter().position(|known| known == model) {
        _ if model.is_empty() => {}
        Some(_) if verifies => {}
        None if verifies && models.len() < MODELS => models.insert(0, model.to_owned()),
        Some(at) => models[at..].rotate_left(1),
        None if models.len() < MODELS => models.push(model.to_owned()),
        None => {}
    }
}
