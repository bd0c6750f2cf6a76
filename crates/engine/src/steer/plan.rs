//! Edit: a person replaces the plan of a node that waits for its children.

use tree_agent_contract::error::Checks;
use tree_agent_contract::event::{NodeDelegated, PlanEdited, StepStatusChanged};
use tree_agent_contract::graph::{GraphPlan, GraphStep};
use tree_agent_contract::role::{PlanDraft, StepDraft};
use tree_agent_contract::text::count;
use tree_agent_contract::{NodeId, NodeStatus, PlanId, Refusal, RefusalKind, StepId, StepStatus, Strategy};

use super::nodes::{Issuer, check_reopens, check_seen, find, find_open, precondition};
use super::reopen;
use crate::amounts::{NAMES, of_subtree};
use crate::budgets;
use crate::decide::{Decider, Next};
use crate::leases;
use crate::state::State;
use crate::strategy::bands;

/// A step of the old plan, with its band.
type Placed<'a> = (u32, &'a GraphStep);

/// What an edit changes.
struct Changes {
    /// Steps that keep their node and outcome.
    kept: Vec<(StepId, NodeId, StepStatus)>,
    /// Steps whose node exists and has not begun, which is not wanted any more.
    dropped: Vec<(StepId, usize)>,
    /// Steps of the old plan that are not in the new one.
    removed: usize,
    /// Steps that get a new node.
    fresh: usize,
}

/// Replaces the plan of the node. Steps that have begun stay as they are. In a fork, a node that has ended is reopened
/// for its new steps.
pub(super) fn edit(
    d: &mut Decider<'_>,
    by: Issuer<'_>,
    node: NodeId,
    plan: &PlanDraft,
) -> Result<(), Refusal> {
    let at = if by.is_edit { find(d.state, node)? } else { find_open(d.state, Some(node))? };
    let control = d.state.control(at);
    if control.strategy == Strategy::Search {
        return Err(precondition("a search has no plan; guide, stop or retry its topics"));
    }
    // If an edit kept nothing of its plan, the node has no current band until it goes on.
    let current = control.bands().current.or(control.bands().is_edited().then_some(0));
    let (Some(old), None, Some(current)) = (&d.state.node(at).plan, control.needs, current) else {
        let message =
            format!("node {node} does not wait for steps of a plan; pause it, or guide its next plan");
        return Err(precondition(message));
    };
    let had_ended = d.state.node(at).status.is_final();
    if had_ended {
        check_reopens(d.state, at)?;
    } else if d.state.ending(at).is_some() {
        return Err(precondition(format!(
            "nothing new may begin for node {node}: it is stopped or out of budget"
        )));
    }
    check_seen(d.state, by, &[at])?;
    let changes = compare(d.state, at, old, plan, current)?;
    check_limits(d.state, at, plan, &changes)?;
    if !had_ended {
        check_leases(d.state, at, plan, &changes)?;
    }
    if had_ended && changes.fresh == 0 {
        return Err(precondition(format!("the plan has no new step for node {node}, which has ended")));
    }
    let iteration = old.iteration;
    let summary = format!(
        "{} kept, {} removed, {} to begin",
        changes.kept.len(),
        changes.removed,
        count(changes.fresh, "step")
    );
    for (step_id, child) in changes.dropped {
        d.status(child, NodeStatus::Cancelled, Some(format!("removed from the plan by {}", by.name())));
        d.emit(at, StepStatusChanged { step_id, status: StepStatus::Cancelled });
    }
    if had_ended {
        // Without a request id: the edit is carried out with its plan.
        reopen::wait_below(d, Issuer { request_id: "", ..by }, at);
    }
    let mut plan = plan.clone();
    let is_cut = had_ended && leases::cut_plan(d.state, at, &mut plan).is_some();
    let version = d.state.control(at).bands().plan_version + 1;
    let plan_id = PlanId::of(node, version);
    let (author, request_id) = (by.author.to_owned(), by.request_id.to_owned());
    d.emit(at, PlanEdited { plan_id, version, summary, author, request_id });
    bands::write(d, at, plan, format!("edited by {}", by.name()), iteration);
    for (step_id, child_node_id, status) in changes.kept {
        d.emit(at, NodeDelegated { child_node_id, step_id: step_id.clone() });
        if status != StepStatus::Pending {
            d.emit(at, StepStatusChanged { step_id, status });
        }
    }
    if is_cut {
        d.status(at, NodeStatus::Waiting, Some("guard:lease".into()));
    }
    d.ask(Next::Advance { at });
    Ok(())
}

/// Compares the plans. Steps that have begun must be in both, unchanged, and nothing new may stand in a band before the
/// current one.
fn compare(
    state: &State,
    at: usize,
    old: &GraphPlan,
    plan: &PlanDraft,
    current: u32,
) -> Result<Changes, Refusal> {
    let is_homework = state.control(at).strategy == Strategy::Homework;
    let mut c = Checks::default();
    let mut changes = Changes { kept: Vec::new(), dropped: Vec::new(), removed: 0, fresh: 0 };
    let placed = |id: &StepId| {
        old.bands.iter().find_map(|b| Some((b.index, b.steps.iter().find(|s| s.step_id == *id)?)))
    };
    // Finished work of an earlier plan is not repeated.
    let needs_node = |id: &StepId| usize::from(state.reusable_child(at, id).is_none());
    for (b, band) in (0..).zip(&plan.bands) {
        for (s, step) in band.steps.iter().enumerate() {
            let field = format!("plan.bands[{b}].steps[{s}]");
            check_step(state, at, step, placed(&step.id), is_homework, &field, &mut c);
            match placed(&step.id) {
                Some((before, now)) if before == b && is_same(step, now) => match now.node_id {
                    Some(node) => changes.kept.push((step.id.clone(), node, now.status)),
                    None => changes.fresh += needs_node(&step.id),
                },
                Some((_, now)) if now.status != StepStatus::Pending => {
                    let message =
                        format!("step {:?} has begun; leave it in its band as it is", step.id.as_str());
                    c.require(false, field, || message);
                }
                _ => {
                    changes.fresh += needs_node(&step.id);
                    c.require(b >= current, field, || {
                        // People count bands from 1.
                        let (ended, open) = (b + 1, current + 1);
                        format!("band {ended} has ended; put new steps into band {open} or a later one")
                    });
                }
            }
        }
    }
    for (index, step) in old.bands.iter().flat_map(|b| b.steps.iter().map(|s| (b.index, s))) {
        let wanted = plan.bands.iter().flat_map(|b| &b.steps).any(|s| s.id == step.step_id);
        let has_begun = step.status != StepStatus::Pending;
        c.require(wanted || !has_begun, "plan.bands", || {
            let (id, band) = (step.step_id.as_str(), index + 1);
            format!("step {id:?} of band {band} has begun and cannot be removed; stop its node instead")
        });
        changes.removed += usize::from(!wanted);
        let is_kept = changes.kept.iter().any(|(id, ..)| *id == step.step_id);
        let child = step.node_id.and_then(|id| state.position(id));
        if let Some(child) = child.filter(|_| !is_kept && !has_begun) {
            changes.dropped.push((step.step_id.clone(), child));
        }
    }
    c.finish()?;
    Ok(changes)
}

/// Checks one step of the new plan.
fn check_step(
    state: &State,
    at: usize,
    step: &StepDraft,
    placed: Option<Placed<'_>>,
    is_homework: bool,
    field: &str,
    c: &mut Checks,
) {
    // A step of an earlier plan keeps its title, because its result may be used.
    let earlier = state.control(at).bands().child_of(&step.id).filter(|_| placed.is_none());
    if let Some(earlier) = earlier.map(|child| state.node(child)) {
        c.require(earlier.title == step.title, format_args!("{field}.title"), || {
            format!("step {:?} was {:?} in an earlier plan; choose a new id", step.id.as_str(), earlier.title)
        });
    }
    c.require(step.branch_id.is_some() == is_homework, format_args!("{field}.branch_id"), || {
        let remedy =
            if is_homework { "a task of homework needs a branch" } else { "only homework has branches" };
        remedy.to_owned()
    });
    if is_homework {
        c.require(step.strategy.is_none(), format_args!("{field}.strategy"), || {
            "a task of homework is not a search; leave it out".into()
        });
    }
}

/// True if the step of the new plan is the one of the old plan.
fn is_same(step: &StepDraft, old: &GraphStep) -> bool {
    step.title == old.title
        && step.reason == old.reason
        && step.success_criteria == old.success_criteria
        && step.strategy == old.strategy
        && step.search == old.search
        && step.branch_id == old.branch_id
        && step.budget == old.budget
        && step.deliverable == old.deliverable
        && step.profile == old.profile
}

/// An edited plan that is too large is refused, not cut.
fn check_limits(state: &State, at: usize, plan: &PlanDraft, changes: &Changes) -> Result<(), Refusal> {
    let budgets = state.budgets();
    let limit = |field: &str, found: usize, most: u32, what: &str| match found > most as usize {
        true => Err(Refusal::of_field(
            RefusalKind::Limit,
            field,
            format!("has {found} {what}; at most {most} are allowed"),
        )),
        false => Ok(()),
    };
    let is_homework = state.control(at).strategy == Strategy::Homework;
    limit("plan.bands", plan.bands.len(), if is_homework { 1 } else { budgets.max_bands_per_plan }, "bands")?;
    for (b, band) in plan.bands.iter().enumerate() {
        limit(&format!("plan.bands[{b}].steps"), band.steps.len(), budgets.max_steps_per_band, "steps")?;
    }
    if is_homework {
        let mut branches: Vec<&str> =
            plan.bands.iter().flat_map(|b| &b.steps).filter_map(|s| s.branch_id.as_deref()).collect();
        let all = branches.len();
        branches.sort_unstable();
        branches.dedup();
        if branches.len() < all {
            let message = "two tasks are of the same branch; an iteration has one for each";
            return Err(Refusal::of_field(RefusalKind::Invalid, "plan.bands[0].steps", message));
        }
    } else {
        let children = state.control(at).bands().children.len() + changes.fresh;
        limit("plan.bands", children, budgets.max_children_per_node, "children over all plans of the node")?;
    }
    let nodes = (state.planned_nodes() - state.unborn(at)) as usize + changes.fresh;
    limit("plan.bands", nodes, budgets.max_nodes, "nodes in the run with its new steps")
}

/// What a plan gives its steps must be free. Steps that it keeps have theirs, and what the old plan promised is free
/// again.
fn check_leases(state: &State, at: usize, plan: &PlanDraft, changes: &Changes) -> Result<(), Refusal> {
    let is_kept = |id: &StepId| changes.kept.iter().any(|(kept, ..)| kept == id);
    let fresh = || plan.bands.iter().flat_map(|b| &b.steps).filter(|step| !is_kept(&step.id));
    if fresh().all(|step| step.budget.is_none()) {
        return Ok(());
    }
    let steps = state.node(at).steps();
    let promised = steps.filter(|step| step.status == StepStatus::Pending && !is_kept(&step.step_id));
    let mut free = budgets::free_for_leases(state, at);
    for limits in promised.filter_map(|step| step.budget).map(|budget| of_subtree(&budget)) {
        (0..3).for_each(|m| free[m] = free[m].saturating_add(limits[m].unwrap_or_default()));
    }
    for (b, band) in plan.bands.iter().enumerate() {
        for (s, step) in band.steps.iter().enumerate().filter(|(_, step)| !is_kept(&step.id)) {
            let limits = step.budget.map_or([None; 3], |budget| of_subtree(&budget));
            for m in 0..3 {
                let wanted = limits[m].unwrap_or_default();
                if wanted > free[m] {
                    let message = format!("asks for {wanted} of {}, and {} are free", NAMES[m], free[m]);
                    let field = format!("plan.bands[{b}].steps[{s}].budget");
                    return Err(Refusal::of_field(RefusalKind::Limit, field, message));
                }
                free[m] -= wanted;
            }
        }
    }
    Ok(())
}
