//! What people change in a run: plans, and what a fork does differently.

use tree_agent_contract::StepId;
use tree_agent_contract::command::Action;
use tree_agent_contract::error::{Checks, FieldError, Invalid};
use tree_agent_contract::role::{BandDraft, PlanDraft, StepDraft};

use crate::v1 as pb;
use crate::wire::{Wire, missing, within};

/// An edit of a fork. Actions that a fork cannot begin with have no wire form.
impl Wire for Action {
    type Pb = pb::ForkEdit;

    fn to_wire(&self) -> pb::ForkEdit {
        use pb::fork_edit::Edit;
        let edit = match self {
            Self::Guide { node_id, text, subtree, .. } => Some(Edit::Guide(pb::GuideEdit {
                node_id: node_id.to_wire(),
                text: text.clone(),
                subtree: *subtree,
            })),
            Self::Retry { node_id, guidance, model, budget } => Some(Edit::Retry(pb::RetryEdit {
                node_id: node_id.to_wire(),
                guidance: guidance.clone(),
                model: model.clone(),
                budget: budget.to_wire(),
            })),
            Self::EditPlan { node_id, plan } => Some(Edit::Plan(pb::NodePlanEdit {
                node_id: node_id.to_wire(),
                plan: Some(plan_to_wire(plan)),
            })),
            Self::SetBudget { node_id, change } => Some(Edit::Budget(pb::BudgetEdit {
                node_id: node_id.map_or_else(String::new, |id| id.to_wire()),
                change: Some(change.to_wire()),
            })),
            Self::SetModel { model } => Some(Edit::Model(model.clone())),
            Self::Cancel { .. } | Self::Pause { .. } | Self::Resume { .. } | Self::Stop { .. } => None,
        };
        pb::ForkEdit { edit }
    }

    fn from_wire(pb: pb::ForkEdit) -> Result<Self, FieldError> {
        use pb::fork_edit::Edit;
        let node = |id: String| Wire::from_wire(id).map_err(|e| within("node_id", e));
        let text = |name: &str, text: String| String::from_wire(text).map_err(|e| within(name, e));
        match pb
            .edit
            .ok_or_else(|| FieldError::new("", "must be one of guide, retry, plan, budget, model"))?
        {
            Edit::Guide(e) => Ok(Self::Guide {
                node_id: node(e.node_id)?,
                text: text("text", e.text)?,
                subtree: e.subtree,
                restart: false,
            }),
            Edit::Retry(e) => Ok(Self::Retry {
                node_id: node(e.node_id)?,
                guidance: text("guidance", e.guidance)?,
                model: text("model", e.model)?,
                budget: Wire::from_wire(e.budget).map_err(|e| within("budget", e))?,
            }),
            Edit::Plan(e) => Ok(Self::EditPlan {
                node_id: node(e.node_id)?,
                plan: e.plan.ok_or_else(missing).and_then(named_plan).map_err(|e| within("plan", e))?,
            }),
            Edit::Budget(e) => Ok(Self::SetBudget {
                node_id: (!e.node_id.is_empty()).then(|| node(e.node_id)).transpose()?,
                change: e
                    .change
                    .ok_or_else(missing)
                    .and_then(Wire::from_wire)
                    .map_err(|e| within("change", e))?,
            }),
            Edit::Model(model) => Ok(Self::SetModel { model: text("model", model)? }),
        }
    }
}

/// A plan as a person wants it. Bands and steps are numbered by their places.
fn plan_to_wire(plan: &PlanDraft) -> pb::PlanEdit {
    let step = |step: &StepDraft| pb::StepEdit {
        step_id: step.id.to_wire(),
        title: step.title.clone(),
        reason: step.reason.clone(),
        success_criteria: step.success_criteria.clone(),
        strategy: step.strategy.to_wire(),
        search: step.search.to_wire(),
        branch_id: step.branch_id.clone(),
        budget: step.budget.to_wire(),
        deliverable: step.deliverable.to_wire(),
        profile: step.profile.to_wire(),
    };
    let bands = plan.bands.iter().map(|band| pb::BandEdit {
        goal: band.goal.clone(),
        parallelizable: band.parallelizable,
        steps: band.steps.iter().map(step).collect(),
    });
    pb::PlanEdit { summary: plan.summary.clone(), bands: bands.collect() }
}

/// A plan in which every step has an id.
fn named_plan(pb: pb::PlanEdit) -> Result<PlanDraft, FieldError> {
    let mut checks = Checks::default();
    let plan = plan_from_wire(pb, |_, _| None, &mut checks);
    match checks.finish() {
        Ok(()) => Ok(plan),
        Err(Invalid(errors)) => Err(errors.into_iter().next().unwrap_or_else(missing)),
    }
}

/// A plan as a person wants it. `new_step` names a step without an id by its band and place; without a name, the id is
/// missing. Every field that cannot be read is noted in `checks`.
pub fn plan_from_wire(
    pb: pb::PlanEdit,
    new_step: impl Fn(u32, u32) -> Option<StepId>,
    checks: &mut Checks,
) -> PlanDraft {
    let mut step = |b: u32, s: u32, pb: pb::StepEdit| {
        let mut field = Fields { at: format!("bands[{b}].steps[{s}]"), checks };
        let id = match pb.step_id.as_str() {
            "" => new_step(b, s).ok_or_else(missing),
            _ => Wire::from_wire(pb.step_id),
        };
        let id = field.take("step_id", id).unwrap_or_else(|| StepId::new(""));
        let title: String = field.read("title", pb.title);
        StepDraft {
            reason: field.read("reason", pb.reason),
            success_criteria: field.read("success_criteria", pb.success_criteria),
            step_index: s,
            strategy: field
                .read("strategy", pb.strategy.filter(|set| *set != pb::Strategy::Unspecified as i32)),
            search: field.read("search", pb.search),
            branch_id: field.read("branch_id", pb.branch_id.filter(|branch| !branch.is_empty())),
            budget: field.read("budget", pb.budget),
            deliverable: field
                .read("deliverable", pb.deliverable.filter(|set| *set != pb::ResultKind::Unspecified as i32)),
            profile: field
                .read("profile", pb.profile.filter(|set| *set != pb::ModelProfile::Unspecified as i32)),
            ..StepDraft::new(id, title)
        }
    };
    let band = |(index, band): (u32, pb::BandEdit)| {
        let steps = (0..).zip(band.steps).map(|(s, pb)| step(index, s, pb)).collect();
        let goal = String::from_wire(band.goal).unwrap_or_default();
        BandDraft { index, goal, parallelizable: band.parallelizable, steps }
    };
    let bands = (0..).zip(pb.bands).map(band).collect();
    PlanDraft { summary: String::from_wire(pb.summary).unwrap_or_default(), bands }
}

/// Reads the fields of one message and notes what is wrong with them.
struct Fields<'a> {
    at: String,
    checks: &'a mut Checks,
}

impl Fields<'_> {
    fn read<T: Wire + Default>(&mut self, name: &str, pb: T::Pb) -> T {
        self.take(name, T::from_wire(pb)).unwrap_or_default()
    }

    fn take<T>(&mut self, name: &str, read: Result<T, FieldError>) -> Option<T> {
        read.map_err(|error| self.checks.push(within(&self.at, within(name, error)))).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_field_of_a_plan_is_named() {
        let step = pb::StepEdit { strategy: Some(77), profile: Some(77), ..pb::StepEdit::default() };
        let named = pb::StepEdit { step_id: "s".into(), ..step.clone() };
        let band = pb::BandEdit { steps: vec![step, named], ..pb::BandEdit::default() };
        let plan = pb::PlanEdit { bands: vec![band], ..pb::PlanEdit::default() };
        let mut checks = Checks::default();
        plan_from_wire(plan.clone(), |_, _| None, &mut checks);
        let Err(Invalid(wrong)) = checks.finish() else { panic!("nothing is wrong") };
        let fields: Vec<_> = wrong.into_iter().map(|error| error.field).collect();
        assert_eq!(
            fields,
            [
                "bands[0].steps[0].step_id",
                "bands[0].steps[0].strategy",
                "bands[0].steps[0].profile",
                "bands[0].steps[1].strategy",
                "bands[0].steps[1].profile",
            ]
        );
        let edit =
            pb::NodePlanEdit { node_id: "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b".into(), plan: Some(plan) };
        let edit = pb::ForkEdit { edit: Some(pb::fork_edit::Edit::Plan(edit)) };
        let error = Action::from_wire(edit).unwrap_err();
        assert_eq!(error.field, "plan.bands[0].steps[0].step_id", "steps in a log have ids");
    }
}
