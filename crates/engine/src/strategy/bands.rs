//! Bands, which strategies share: a plan is cut to the limits of its run and written, its bands open one after the
//! other, and the steps of a band run side by side.

use tree_agent_contract::event::*;
use tree_agent_contract::graph::{GraphBand, GraphStep};
use tree_agent_contract::role::PlanDraft;
use tree_agent_contract::{DocumentId, NodeId, NodeStatus, PlanId, StepSearch, StepStatus, Strategy};

use crate::decide::{Decider, Next};
use crate::documents;
use crate::leases;

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

/// Why a node failed whose `number` steps all failed. `first` is the error of the first of them.
pub(super) fn none_completed(number: usize, noun: &str, first: &str) -> String {
    match number {
        1 => format!("its only {noun} did not complete: {first}"),
        _ => format!("none of its {number} {noun}s completed; the first error: {first}"),
    }
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
    let cut = leases::cut_plan(d.state, at, &mut plan);
    write(d, at, plan, mode_reason, None);
    for guard in guards {
        d.status(at, NodeStatus::Delegating, Some(guard.into()));
    }
    if let Some(why) = cut {
        d.cut_leases(at, why);
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
pub(crate) fn write(
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
    let max_depth = d.state.budgets().max_depth;
    for (band_index, band) in (0..).zip(plan.bands) {
        for (step_index, step) in (0..).zip(band.steps) {
            let search = within(step.strategy, step.search, max_depth);
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
                    search,
                    branch_id: step.branch_id,
                    budget: step.budget,
                    deliverable: step.deliverable,
                    profile: step.profile,
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

/// The limits of a step's search: those that are asked for, with no more levels than the run may have. None stands for
/// the default ones.
fn within(strategy: Option<Strategy>, asked: Option<StepSearch>, max_depth: u32) -> Option<StepSearch> {
    let (limits, most) = (asked.unwrap_or_default(), max_depth.max(1));
    let is_cut = strategy == Some(Strategy::Search) && limits.max_depth > most;
    if is_cut { Some(StepSearch { max_depth: most, ..limits }) } else { asked }
}

/// Creates all children of a band, so that users see the whole band at once. If nothing new may begin, cancels its
/// steps. False if there is no such band.
fn open(d: &mut Decider<'_>, at: usize, band_index: u32) -> bool {
    let band = d.state.node(at).plan.as_ref().and_then(|p| p.bands.get(band_index as usize));
    let Some(steps) = band.map(|b| b.steps.clone()) else { return false };
    let iteration = d.state.node(at).plan.as_ref().and_then(|p| p.iteration);
    if d.state.ending(at).is_some() {
        for step in steps.into_iter().filter(|step| !step.status.is_final()) {
            d.emit(at, StepStatusChanged { step_id: step.step_id, status: StepStatus::Cancelled });
        }
        return true;
    }
    // Watchers see that it delegates again.
    if d.state.node(at).status == NodeStatus::Waiting && steps.iter().any(|step| is_new(&step)) {
        let bands = d.state.node(at).plan.as_ref().map_or(0, |plan| plan.bands.len());
        d.status(at, NodeStatus::Delegating, Some(format!("band {} of {bands}", band_index + 1)));
    }
    let version = d.state.control(at).bands().plan_version;
    let (parent, depth) = (d.state.node(at).id, d.state.node(at).depth + 1);
    for (step_index, step) in (0..).zip(steps) {
        // An edited plan keeps the nodes of its steps. What was given up with its band stays so.
        if step.node_id.is_some() || step.status.is_final() {
            continue;
        }
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
            deliverable: step.deliverable,
            profile: step.profile,
        };
        d.push(child, Some(parent), created.clone().into());
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
                let new = documents::asked(new, &created.reason, &created.success_criteria);
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
    let bands = d.state.control(at).bands();
    match bands.current {
        Some(band) => advance_from(d, at, band),
        // Nothing is left of what had begun.
        None if bands.is_edited() => advance_from(d, at, 0),
        None => false,
    }
}

fn advance_from(d: &mut Decider<'_>, at: usize, mut current: u32) -> bool {
    loop {
        // A step of an earlier band may have been reopened.
        let bands = d.state.node(at).plan.as_ref().and_then(|p| p.bands.get(..=current as usize));
        let Some(bands) = bands else { return true };
        if bands.iter().flat_map(|band| &band.steps).all(|step| step.status.is_final()) {
            current += 1;
            if !open(d, at, current) {
                return true;
            }
            continue;
        }
        if let Some(band) = unopened(bands).filter(|_| d.state.ending(at).is_none()) {
            open(d, at, band);
            continue;
        }
        if d.state.ending(at).is_none() {
            let next: Vec<usize> = bands.iter().flat_map(|band| startable(d, band)).collect();
            next.into_iter().for_each(|at| d.ask(Next::Begin { at }));
            return false;
        }
        // Nothing starts any more. What has not begun has nothing to keep.
        let waiting: Vec<_> = bands
            .iter()
            .flat_map(|band| waiting(d, band).map(|(step, child)| (step.step_id.clone(), Some(child))))
            // An edit may have added steps to a band that is open.
            .chain(
                bands.iter().flat_map(|band| &band.steps).filter(is_new).map(|s| (s.step_id.clone(), None)),
            )
            .collect();
        if waiting.is_empty() {
            return false;
        }
        for (step_id, child) in waiting {
            if let Some(child) = child {
                d.cancel_unbegun(child);
            }
            d.emit(at, StepStatusChanged { step_id, status: StepStatus::Cancelled });
        }
    }
}

/// The first of the bands that an edit has given steps for which there is no node yet, unless an earlier step is at
/// work.
fn unopened(bands: &[GraphBand]) -> Option<u32> {
    let band = bands.iter().find(|band| band.steps.iter().any(|step| !step.status.is_final()))?;
    band.steps.iter().any(|step| is_new(&step)).then_some(band.index)
}

/// True if nobody has been given the step yet.
fn is_new(step: &&GraphStep) -> bool {
    step.status == StepStatus::Pending && step.node_id.is_none()
}

/// The steps of a band that have a node and wait for a free place.
fn waiting<'b>(d: &Decider<'_>, band: &'b GraphBand) -> impl Iterator<Item = (&'b GraphStep, usize)> {
    let pending = band.steps.iter().filter(|s| s.status == StepStatus::Pending);
    let waiting = pending.filter_map(|s| Some((s, d.state.position(s.node_id?)?)));
    waiting.filter(|&(_, child)| !d.state.node(child).status.is_final())
}

/// The children that may begin now. One that is paused takes no place from its siblings, but the order of steps that
/// run one after the other is kept.
fn startable(d: &Decider<'_>, band: &GraphBand) -> Vec<usize> {
    let budget = d.state.budgets().max_parallel_steps as usize;
    let places = if band.parallelizable { budget } else { 1 };
    let running = band.steps.iter().filter(|s| s.status == StepStatus::Running).count();
    let waiting = waiting(d, band).map(|(_, child)| child);
    let may = |&child: &usize| !d.state.is_paused(child);
    let free = places.saturating_sub(running);
    match band.parallelizable {
        true => waiting.filter(may).take(free).collect(),
        false => waiting.take(free).filter(may).collect(),
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
