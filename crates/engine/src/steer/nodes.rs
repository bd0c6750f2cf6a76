//! The nodes that a command is about, and what they must be.

use tree_agent_contract::search::DEPTH_GUARD;
use tree_agent_contract::{NodeId, Refusal, RefusalKind, Strategy};

use crate::state::State;
use crate::topics::child_id;

/// Who gives a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issuer<'a> {
    pub(super) author: &'a str,
    pub(super) request_id: &'a str,
    /// The seq that the author has looked at.
    pub(super) expected_seq: Option<u64>,
    /// It is what a fork does differently: nodes that have ended may be reopened.
    pub(super) is_edit: bool,
}

impl Issuer<'_> {
    /// The author, as it stands in a sentence.
    pub(super) fn name(&self) -> &str {
        if self.author.is_empty() { "a user" } else { self.author }
    }
}

/// The node called `id`.
pub(super) fn find(state: &State, id: NodeId) -> Result<usize, Refusal> {
    let missing = || Refusal::of_field(RefusalKind::NotFound, "node_id", format!("the run has no node {id}"));
    state.position(id).ok_or_else(missing)
}

/// The node called `id`, which has not ended; the root if there is no id.
pub(super) fn find_open(state: &State, id: Option<NodeId>) -> Result<usize, Refusal> {
    let at = id.map_or(Ok(0), |id| find(state, id))?;
    let node = state.node(at);
    if node.status.is_final() {
        let message = format!("node {} has ended ({}); retry it to do it again", node.id, node.status);
        return Err(Refusal::of_field(RefusalKind::Precondition, "node_id", message));
    }
    Ok(at)
}

/// The command makes no sense for the node.
pub(super) fn precondition(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Precondition, message)
}

/// Refuses a command whose author has not seen what has happened to the nodes `concerned` since: what they do or plan
/// has changed, or somebody gave a command about them or the nodes above.
pub(super) fn check_seen(state: &State, by: Issuer<'_>, concerned: &[usize]) -> Result<(), Refusal> {
    let Some(seen) = by.expected_seq else { return Ok(()) };
    let changed = concerned.iter().find_map(|&at| {
        let changed = state.control(at).changed();
        let commanded = state.line(at).map(|above| state.control(above).commanded()).max();
        let latest = changed.max(commanded.unwrap_or_default());
        (latest > seen).then_some((at, latest))
    });
    let Some((at, latest)) = changed else { return Ok(()) };
    let id = state.node(at).id;
    let message =
        format!("node {id} has changed with event {latest}, after event {seen}; look again and repeat");
    Err(Refusal::of_field(RefusalKind::Changed, "expected_seq", message))
}

/// Refuses a command about a node that is not of the latest plan of the node above, or of what that found last. So must
/// be all nodes above.
pub(super) fn check_current(state: &State, at: usize) -> Result<(), Refusal> {
    for below in state.line(at) {
        let (Some(parent), node) = (state.control(below).parent, state.node(below)) else { break };
        let is_current = match state.planned_step(below) {
            Some(_) => state.node(parent).steps().any(|step| step.node_id == Some(node.id)),
            None => {
                let slug = node.step_id.as_ref().map_or("", |step| step.as_str());
                node.id == child_id(state, parent, slug)
            }
        };
        if !is_current {
            let message = format!("node {} belongs to a plan that another one has replaced", node.id);
            return Err(precondition(message));
        }
        if state.control(below).strategy == Strategy::Search && node.message.as_deref() == Some(DEPTH_GUARD) {
            return Err(precondition(format!("node {} is beyond the depth limit of its search", node.id)));
        }
    }
    Ok(())
}

/// Refuses to reopen a node that could not do anything then.
pub(super) fn check_reopens(state: &State, at: usize) -> Result<(), Refusal> {
    check_current(state, at)?;
    if let Some(budget) = state.exhausted_of(state.control(at).parent.unwrap_or(at)) {
        return Err(precondition(format!("the budget {budget} is used up; raise it first")));
    }
    let stopped = |&above: &usize| state.node(above).stopped && !state.node(above).status.is_final();
    match state.line(at).find(stopped) {
        None => Ok(()),
        Some(above) => {
            let id = state.node(above).id;
            Err(precondition(format!("node {id} above it is stopped and has not ended")))
        }
    }
}
