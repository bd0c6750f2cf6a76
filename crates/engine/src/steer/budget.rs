//! Budgets that change while the run runs.

use tree_agent_contract::event::{BudgetSet, StepStatusChanged};
use tree_agent_contract::{BudgetChange, NodeStatus, Refusal, RefusalKind, StepId, StepStatus, Strategy};

use super::nodes::{Issuer, check_current};
use super::reopen;
use crate::decide::{Decider, Next};
use crate::state::{OF_BUDGET, State};

/// Changes budgets of the run. If one that was used up has room again, what it cancelled goes on.
pub(super) fn set(d: &mut Decider<'_>, by: Issuer<'_>, change: BudgetChange) -> Result<(), Refusal> {
    let (budgets, places) = (change.apply(d.state.budgets()), d.state.budgets().max_parallel_steps);
    budgets.validate()?;
    if budgets == *d.state.budgets() {
        return Err(Refusal::of_field(
            RefusalKind::Precondition,
            "budgets",
            "the budgets already have these values",
        ));
    }
    let (seen, changed) = (by.expected_seq, d.state.steering().budget_set());
    if seen.is_some_and(|seen| changed > seen) {
        let message = format!("budgets have changed with event {changed}; look again and repeat");
        return Err(Refusal::of_field(RefusalKind::Changed, "expected_seq", message));
    }
    let was_exhausted = d.state.exhausted().is_some();
    let was_exhausted_before = d.state.raises_exhausted_before(&change);
    d.emit(
        0,
        BudgetSet {
            author: by.author.to_owned(),
            request_id: by.request_id.to_owned(),
            change,
            clamped: false,
        },
    );
    if was_exhausted && d.state.exhausted().is_none() || was_exhausted_before {
        go_on(d, by, 0, was_exhausted_before);
    }
    if budgets.max_parallel_steps > places {
        let waits = |at: &usize| {
            let node = d.state.node(*at);
            let begins_others = node.plan.is_some() || node.strategy == Some(Strategy::Search);
            begins_others && !node.status.is_final() && d.state.control(*at).needs.is_none()
        };
        let waiting: Vec<usize> = (0..d.state.nodes().len()).filter(waits).collect();
        waiting.into_iter().for_each(|at| d.ask(Next::Advance { at }));
    }
    Ok(())
}

/// What the budget of the node at `top` cancelled goes on, below nodes that have not ended. If it was used up before
/// the run was forked, all of it does. What another lease has cancelled stays so.
pub(super) fn go_on(d: &mut Decider<'_>, by: Issuer<'_>, top: usize, all: bool) {
    for at in d.state.subtree(top) {
        let by_own_lease =
            at != top && d.state.node(at).lease.as_ref().is_some_and(|l| l.exhausted.is_some());
        let above = d.state.control(at).parent.unwrap_or(at);
        let may_go_on = d.state.ending(above).is_none() && !by_own_lease;
        if may_go_on && was_cancelled(d.state, at, all) && check_current(d.state, at).is_ok() {
            reopen::reopen(d, by, at, None, None);
        }
        let steps = unopened(d.state, at, all);
        if !steps.is_empty() && d.state.ending(at).is_none() {
            reopen::wait_below(d, by, at);
            for step_id in steps {
                d.emit(at, StepStatusChanged { step_id, status: StepStatus::Pending });
            }
            d.ask(Next::Advance { at });
        }
    }
}

/// True if the node at `at` was cancelled because a budget was used up. If not `all`, the one above it must not have
/// ended.
pub(super) fn was_cancelled(state: &State, at: usize, all: bool) -> bool {
    let node = state.node(at);
    let by_budget = node.message.as_deref().is_some_and(|message| message.starts_with(OF_BUDGET));
    let above = state.control(at).parent;
    let is_open = above.is_some_and(|parent| !state.node(parent).status.is_final());
    node.status == NodeStatus::Cancelled && by_budget && (is_open || all)
}

/// Steps of the node at `at` that were cancelled with their band, before they had a node.
pub(super) fn unopened(state: &State, at: usize, all: bool) -> Vec<StepId> {
    let node = state.node(at);
    // A node that has ended lost its steps to the budget if it combined the existing results early, and nobody stopped
    // it.
    let lost =
        || state.control(at).has_ended_early() && !state.line(at).any(|above| state.node(above).stopped);
    if node.status.is_final() && !(all && lost() && check_current(state, at).is_ok()) {
        return Vec::new();
    }
    let cancelled =
        node.steps().filter(|step| step.status == StepStatus::Cancelled && step.node_id.is_none());
    cancelled.map(|step| step.step_id.clone()).collect()
}
