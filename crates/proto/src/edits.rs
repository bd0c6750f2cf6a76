//! What people change in a run: plans, and what a fork does differently.

use tree_agent_contract::command::Action;
use tree_agent_contract::error::FieldError;
use tree_agent_contract::role::{BandDraft, PlanDraft, StepDraft};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{StepId, limits};

use crate::v1 as pb;
use crate::wire::{Wire, missing, within};

/// The bytes of a title that the id of a new step shows.
const TITLE_IN_ID: usize = 48;

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
                plan: e.plan.ok_or_else(missing).and_then(plan_from_wire).map_err(|e| within("plan", e))?,
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
    };
    let bands = plan.bands.iter().map(|band| pb::BandEdit {
        goal: band.goal.clone(),
        parallelizable: band.parallelizable,
        steps: band.steps.iter().map(step).collect(),
    });
    pb::PlanEdit { summary: plan.summary.clone(), bands: bands.collect() }
}

/// A plan as a person wants it. A step without an id is a new one, named after its place and title, so that the same
/// request gives the same plan.
///
/// # Errors
/// Names the field that cannot be read.
pub fn plan_from_wire(pb: pb::PlanEdit) -> Result<PlanDraft, FieldError> {
    let step = |b: usize, s: usize, pb: pb::StepEdit| {
        let at = |e| within(&format!("bands[{b}].steps[{s}]"), e);
        let title = String::from_wire(pb.title)?;
        let id = match pb.step_id.as_str() {
            "" => new_step_id(b, s, &title),
            _ => Wire::from_wire(pb.step_id)?,
        };
        Ok(StepDraft {
            reason: Wire::from_wire(pb.reason)?,
            success_criteria: Wire::from_wire(pb.success_criteria)?,
            step_index: u32::try_from(s).unwrap_or(u32::MAX),
            strategy: Wire::from_wire(pb.strategy).map_err(|e| at(within("strategy", e)))?,
            search: Wire::from_wire(pb.search).map_err(|e| at(within("search", e)))?,
            branch_id: Wire::from_wire(pb.branch_id)?,
            budget: Wire::from_wire(pb.budget).map_err(|e| at(within("budget", e)))?,
            ..StepDraft::new(id, title)
        })
    };
    let band = |(b, pb): (usize, pb::BandEdit)| {
        let steps = pb.steps.into_iter().enumerate().map(|(s, pb)| step(b, s, pb));
        Ok(BandDraft {
            index: u32::try_from(b).unwrap_or(u32::MAX),
            goal: Wire::from_wire(pb.goal)?,
            parallelizable: pb.parallelizable,
            steps: steps.collect::<Result<_, FieldError>>()?,
        })
    };
    let bands = pb.bands.into_iter().enumerate().map(band).collect::<Result<_, FieldError>>()?;
    Ok(PlanDraft { summary: Wire::from_wire(pb.summary)?, bands })
}

fn new_step_id(band: usize, step: usize, title: &str) -> StepId {
    let words: Vec<String> = title
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let id = format!("new-{}-{}-{}", band + 1, step + 1, prefix(&words.join("-"), TITLE_IN_ID));
    StepId::new(prefix(&id, limits::STEP_ID_BYTES))
}
