//! Bands, which strategies share: a plan is cut to the limits of its run and written, its bands open one after the
//! other, and the steps of a band run side by side.

use tree_agent_contract::event::*;
use tree_agent_contract::role::PlanDraft;
use tree_agent_contract::{DocumentId, NodeId, NodeStatus, PlanId, StepStatus};

use crate::decide::{Decider, Next};
use crate::documents;

/// What became of a plan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Planned {
    /// Nothing is left of it: this guard cut its last step.
    Empty(&'static str),
    /// Its first band is open.
    Open,
    /// Every step was completed before.
    Done,
}

/// Writes the plan of the node at `at`, cut to the run's limits, and opens its first band.
pub(super) fn plan(
    d: &mut Decider<'_>,
    at: usize,
    mut plan: PlanDraft,
    mode_reason: String,
    why: String,
) -> Planned {
    let guards = clamp(d, at, &mut plan);
    if plan.bands.is_empty() {
        return Planned::Empty(guards.into_iter().next_back().unwrap_or("guard:maxNodes"));
    }
    write(d, at, plan, mode_reason, None);
    for guard in guards {
        d.status(at, NodeStatus::Delegating, Some(guard.into()));
    }
    d.status_because(at, NodeStatus::Delegating, why);
    if begin(d, at) { Planned::Done } else { Planned::Open }
}

/// Opens the first band of a plan that was just written. True if every band has ended.
pub(super) fn begin(d: &mut Decider<'_>, at: usize) -> bool {
    open(d, at, 0);
    advance_from(d, at, 0)
}

/// Writes the plan of the node at `at`. `iteration` is that of homework.
pub(super) fn write(
    d: &mut Decider<'_>,
    at: usize,
    plan: PlanDraft,
    mode_reason: String,
    iteration: Option<u32>,
) {
    let version = d.state.control(at).bands().plan_version + 1;
    let plan_id = PlanId::of(d.state.node(at).id, version);
    let (summary, mode_reason) = (Some(plan.summary), Some(mode_reason));
    d.emit(at, PlanCreated { plan_id, version, summary, mode_reason, iteration });
    for (band_index, band) in (0..).zip(&plan.bands) {
        d.emit(
            at,
            PlanBandCreated {
                plan_id,
                band_index,
                step_ids: band.steps.iter().map(|s| s.id.clone()).collect(),
                goal: band.goal.clone(),
                parallelizable: band.parallelizable,
            },
        );
    }
    for (band_index, band) in (0..).zip(plan.bands) {
        for (step_index, step) in (0..).zip(band.steps) {
            d.emit(
                at,
                StepCreated {
                    step_id: step.id,
                    band_index,
                    step_index,
                    title: step.title,
                    reason: step.reason,
                    success_criteria: step.success_criteria,
                    strategy: step.strategy,
                    search: step.search,
                    branch_id: step.branch_id,
                },
            );
        }
    }
}

/// Cuts the plan to the run's limits and returns the names of the guards that did so.
fn clamp(d: &Decider<'_>, at: usize, plan: &mut PlanDraft) -> Vec<&'static str> {
    let budgets = d.state.budgets();
    let mut guards = Vec::new();
    let mut guard = |tripped: bool, name| {
        if tripped && !guards.contains(&name) {
            guards.push(name);
        }
    };
    guard(plan.bands.len() > budgets.max_bands_per_plan as usize, "guard:maxBandsPerPlan");
    plan.bands.truncate(budgets.max_bands_per_plan as usize);
    let children = d.state.control(at).bands().children.len() as u32;
    let mut children = budgets.max_children_per_node.saturating_sub(children);
    let mut nodes = budgets.max_nodes.saturating_sub(d.state.planned_nodes());
    for band in &mut plan.bands {
        guard(band.steps.len() > budgets.max_steps_per_band as usize, "guard:maxStepsPerBand");
        band.steps.truncate(budgets.max_steps_per_band as usize);
        band.steps.retain(|step| {
            if d.state.reusable_child(at, &step.id).is_some() {
                return true;
            }
            guard(children == 0, "guard:maxChildrenPerNode");
            guard(nodes == 0, "guard:maxNodes");
            let fits = children > 0 && nodes > 0;
            children = children.saturating_sub(1);
            nodes = nodes.saturating_sub(1);
            fits
        });
    }
    plan.bands.retain(|band| !band.steps.is_empty());
    guards
}

/// Creates all children of a band, so that users see the whole band at once. Out of budget, cancels its steps. False if
/// there is no such band.
fn open(d: &mut Decider<'_>, at: usize, band_index: u32) -> bool {
    let band = d.state.node(at).plan.as_ref().and_then(|p| p.bands.get(band_index as usize));
    let Some(steps) = band.map(|b| b.steps.clone()) else { return false };
    let iteration = d.state.node(at).plan.as_ref().and_then(|p| p.iteration);
    if d.state.exhausted().is_some() {
        for step in steps {
            d.emit(at, StepStatusChanged { step_id: step.step_id, status: StepStatus::Cancelled });
        }
        return true;
    }
    let version = d.state.control(at).bands().plan_version;
    let (parent, depth) = (d.state.node(at).id, d.state.node(at).depth + 1);
    for (step_index, step) in (0..).zip(steps) {
        if let Some(child) = d.state.reusable_child(at, &step.step_id) {
            let child_node_id = d.state.node(child).id;
            d.emit(at, NodeDelegated { child_node_id, step_id: step.step_id.clone() });
            d.emit(at, StepStatusChanged { step_id: step.step_id, status: StepStatus::Completed });
            continue;
        }
        let child = NodeId::child(parent, version, &step.step_id);
        let created = NodeCreated {
            parent_node_id: Some(parent),
            title: step.title.clone(),
            depth,
            band_index: Some(band_index),
            step_index: Some(step_index),
            step_id: Some(step.step_id.clone()),
            reason: step.reason,
            success_criteria: step.success_criteria,
            strategy: step.strategy,
            score: None,
            search: step.search,
            iteration,
            branch_id: step.branch_id.clone(),
        };
        d.push(child, Some(parent), created.into());
        d.emit(at, NodeDelegated { child_node_id: child, step_id: step.step_id });
        let (run_id, place) = (d.state.graph().run_id(), d.place_of(at));
        let (scratchpad_doc_id, document) = match (iteration, step.branch_id) {
            // The tasks of a branch share its scratchpad, which its first task begins.
            (Some(iteration), Some(branch)) => {
                let begins = !d.state.has_branch(at, &branch);
                let new = || documents::branch(run_id, parent, &branch, iteration, &step.title, d.now);
                (DocumentId::branch(parent, &branch), begins.then(new))
            }
            _ => {
                let new = documents::scratchpad(run_id, child, Some(parent), depth, &step.title, d.now);
                (new.id, Some(new))
            }
        };
        d.push(child, Some(parent), ScratchpadLinked { scratchpad_doc_id }.into());
        if let Some(document) = document {
            d.create_document(document, place);
        }
    }
    if d.state.node(at).status != NodeStatus::Waiting {
        d.status(at, NodeStatus::Waiting, None);
    }
    true
}

/// Starts as many steps of the current band as there are free places. If all have ended, opens the next band. True if
/// every band has ended.
pub(super) fn advance(d: &mut Decider<'_>, at: usize) -> bool {
    match d.state.control(at).bands().current {
        Some(band) => advance_from(d, at, band),
        None => false,
    }
}

fn advance_from(d: &mut Decider<'_>, at: usize, mut band_index: u32) -> bool {
    loop {
        let Some(band) = d.state.node(at).plan.as_ref().and_then(|p| p.bands.get(band_index as usize)) else {
            return true;
        };
        if band.steps.iter().all(|s| s.status.is_final()) {
            band_index += 1;
            if !open(d, at, band_index) {
                return true;
            }
            continue;
        }
        let running = band.steps.iter().filter(|s| s.status == StepStatus::Running).count();
        let pending = band.steps.iter().filter(|s| s.status == StepStatus::Pending);
        let waiting = pending.filter_map(|s| Some((s.step_id.clone(), d.state.position(s.node_id?)?)));
        let waiting = waiting.filter(|&(_, child)| !d.state.node(child).status.is_final());
        if d.state.exhausted().is_none() {
            let budget = d.state.budgets().max_parallel_steps as usize;
            let places = if band.parallelizable { budget } else { 1 };
            let next: Vec<usize> =
                waiting.map(|(_, child)| child).take(places.saturating_sub(running)).collect();
            next.into_iter().for_each(|at| d.ask(Next::Begin { at }));
            return false;
        }
        // Nothing starts any more. What has not begun has nothing to keep.
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() {
            return false;
        }
        for (step_id, child) in waiting {
            d.cancel_unbegun(child);
            d.emit(at, StepStatusChanged { step_id, status: StepStatus::Cancelled });
        }
    }
}

/// A node that was about to plan again goes back to putting together what its children completed before, as partial, so
/// that it is not lost. False if there is nothing to keep.
pub(super) fn keep_children(d: &mut Decider<'_>, at: usize, guard: &str) -> bool {
    if !d.state.has_completed_children(at) {
        return false;
    }
    d.give_up(at);
    d.in_flight.reached(at);
    d.need(at, tree_agent_contract::role::CallKind::Aggregate, Some(format!("guard:{guard}")));
    true
}
