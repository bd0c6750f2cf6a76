//! Reopening: a node that has ended does its work again, and those above it wait for it.

use tree_agent_contract::event::{NodeReopened, StepStatusChanged};
use tree_agent_contract::{NodeStatus, StepStatus, SubtreeBudget};

use super::nodes::Issuer;
use super::pause::advance_above;
use crate::decide::{Decider, Next};
use crate::leases;

/// The node at `at` does its work again, from its first call. Nodes above it that have ended, or that need another call
/// than to wait for it, are reopened before.
pub(super) fn reopen(
    d: &mut Decider<'_>,
    by: Issuer<'_>,
    at: usize,
    model: Option<String>,
    budget: Option<SubtreeBudget>,
) {
    if let Some(parent) = d.state.control(at).parent {
        wait_below(d, by, parent);
    }
    emit(d, by, at, true, model, budget);
    if let (Some(parent), Some(step_id)) = (d.state.control(at).parent, d.state.planned_step(at)) {
        d.emit(parent, StepStatusChanged { step_id, status: StepStatus::Pending });
    }
    match at {
        0 => d.ask(Next::Begin { at }),
        _ => advance_above(d, at),
    }
}

/// The node at `at` and those above it wait for their children again.
pub(super) fn wait_below(d: &mut Decider<'_>, by: Issuer<'_>, at: usize) {
    let mut line: Vec<usize> = d.state.line(at).collect();
    line.reverse();
    for at in line {
        wait_again(d, by, at);
    }
}

/// The node at `at` waits for its children again. Nothing happens if it does that now.
pub(super) fn wait_again(d: &mut Decider<'_>, by: Issuer<'_>, at: usize) {
    let had_ended = d.state.node(at).status.is_final();
    if !had_ended && d.state.control(at).needs.is_none() {
        return;
    }
    emit(d, by, at, false, None, None);
    let parent = d.state.control(at).parent.filter(|_| had_ended);
    if let (Some(parent), Some(step_id)) = (parent, d.state.planned_step(at)) {
        for status in [StepStatus::Pending, StepStatus::Running] {
            d.emit(parent, StepStatusChanged { step_id: step_id.clone(), status });
        }
    }
}

/// A node that had ended gets its lease anew, as far as what is above it has that much.
fn emit(
    d: &mut Decider<'_>,
    by: Issuer<'_>,
    at: usize,
    again: bool,
    model: Option<String>,
    budget: Option<SubtreeBudget>,
) {
    if d.in_flight.call(at).is_some() {
        d.give_up(at);
    }
    let (node, parent) = (d.state.node(at), d.state.control(at).parent);
    let generation = node.generation + 1;
    let (author, request_id) = (by.author.to_owned(), by.request_id.to_owned());
    let before = node.lease.as_ref().map(|lease| lease.limits).filter(|limits| !limits.is_empty());
    let asked = budget.or(before).filter(|_| node.status.is_final()).zip(parent);
    let granted = asked.map(|(asked, parent)| leases::grant(d.state, parent, asked));
    let budget = granted.map(|(granted, _)| granted);
    d.emit(at, NodeReopened { generation, author, request_id, again, model, budget });
    if granted.is_some_and(|(_, is_cut)| is_cut) {
        d.status(at, NodeStatus::Waiting, Some("guard:lease".into()));
    }
}
