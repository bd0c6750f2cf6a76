//! Retry: an ended node is done again.

use tree_agent_contract::{NodeId, Refusal, RefusalKind, StepStatus, SubtreeBudget};

use super::nodes::{Issuer, check_reopens, check_seen, find};
use super::pause::tell;
use super::reopen::reopen;
use crate::decide::Decider;
use crate::state::State;

/// The node does its work again, children included, with guidance and another model if these are not empty, and
/// with another budget if there is one.
pub(super) fn retry(
    d: &mut Decider<'_>,
    by: Issuer<'_>,
    node: NodeId,
    guidance: &str,
    model: &str,
    budget: Option<SubtreeBudget>,
) -> Result<(), Refusal> {
    let at = find(d.state, node)?;
    if !d.state.node(at).status.is_final() {
        let message = format!("node {node} has not ended; guide it, or stop it first");
        return Err(Refusal::of_field(RefusalKind::Precondition, "node_id", message));
    }
    check_reopens(d.state, at)?;
    // Those above that only wait go on waiting, whatever siblings do.
    let is_reopened =
        |above: &usize| d.state.node(*above).status.is_final() || d.state.control(*above).needs.is_some();
    let concerned: Vec<usize> = d.state.line(at).filter(is_reopened).collect();
    check_seen(d.state, by, &concerned)?;
    let model = (!model.is_empty()).then(|| model.to_owned());
    reopen(d, by, at, model, budget);
    if !guidance.is_empty() {
        tell(d, by, at, guidance, true);
    }
    Ok(())
}

/// Nodes of later bands that have begun with what the node at `at` returned. They are not repeated.
pub(super) fn readers(state: &State, at: usize) -> Vec<usize> {
    let (Some(parent), band) = (state.control(at).parent, state.node(at).band_index) else {
        return Vec::new();
    };
    let plan = state.node(parent).plan.iter().flat_map(|plan| &plan.bands);
    let later = plan.filter(|later| Some(later.index) > band).flat_map(|later| &later.steps);
    let begun = later.filter(|step| step.status != StepStatus::Pending);
    begun.filter_map(|step| state.position(step.node_id?)).collect()
}
