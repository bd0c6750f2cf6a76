//! What users want of a run, as actions of the contract. Commands and forks have this in common.

use tonic::{Code, Status};
use tree_agent_contract::command::Action;
use tree_agent_contract::error::Checks;
use tree_agent_contract::role::{BandDraft, PlanDraft, StepDraft};
use tree_agent_contract::search::StepSearch;
use tree_agent_contract::{
    BudgetChange, FieldError, ModelChoice, NodeId, Refusal, RefusalKind, StepId, Strategy, SubtreeBudget,
};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::{field, invalid_field, status};
use uuid::Uuid;

use crate::gateway::{from_wire, taken};
use crate::maxima::Maxima;

/// The node called `id`; what is wrong is noted in `checks`.
pub(crate) fn node_id(id: &str, checks: &mut Checks) -> Option<NodeId> {
    taken(checks, NodeId::parse_field("node_id", id))
}

/// Guidance. `restart` makes a call in flight again.
pub(crate) fn guide(edit: pb::GuideEdit, restart: bool, checks: &mut Checks) -> Option<Action> {
    let node_id = node_id(&edit.node_id, checks)?;
    Some(Action::Guide { node_id, text: text(edit.text), subtree: edit.subtree, restart })
}

/// A node that is done again.
pub(crate) fn retry(edit: pb::RetryEdit, checks: &mut Checks) -> Option<Action> {
    let pb::RetryEdit { node_id: id, guidance, model, budget } = edit;
    if let Err(problem) = ModelChoice::parse(&model) {
        checks.push(FieldError::new("model", problem.message));
    }
    let budget: Option<Option<SubtreeBudget>> = taken(checks, from_wire("budget", budget));
    let node_id = node_id(&id, checks)?;
    Some(Action::Retry { node_id, guidance: text(guidance), model, budget: budget.flatten() })
}

/// Another plan. Steps without an id get one that follows from the request's id and their place, so that the same
/// request means the same plan.
pub(crate) fn plan(edit: pb::NodePlanEdit, request_id: &str, checks: &mut Checks) -> Option<Action> {
    let node_id = node_id(&edit.node_id, checks);
    checks.require(edit.plan.is_some(), "plan", || "is missing; give the whole plan as it is to be".into());
    let pb::PlanEdit { summary, bands } = edit.plan?;
    let bands = (0..).zip(bands).map(|(index, band)| BandDraft {
        index,
        goal: text(band.goal),
        parallelizable: band.parallelizable,
        steps: (0..).zip(band.steps).map(|(s, draft)| step(draft, (index, s), request_id, checks)).collect(),
    });
    let plan = PlanDraft { summary: text(summary), bands: bands.collect() };
    Some(Action::EditPlan { node_id: node_id?, plan })
}

fn step(step: pb::StepEdit, (b, s): (u32, u32), request_id: &str, checks: &mut Checks) -> StepDraft {
    let at = format!("plan.bands[{b}].steps[{s}]");
    let id = match step.step_id.as_str() {
        "" => StepId::new(new_step(request_id, b, s)),
        _ => StepId::new(text(step.step_id)),
    };
    let strategy = step.strategy.filter(|strategy| *strategy != pb::Strategy::Unspecified as i32);
    let strategy: Option<Option<Strategy>> = taken(checks, from_wire(&format!("{at}.strategy"), strategy));
    let search: Option<Option<StepSearch>> = taken(checks, from_wire(&format!("{at}.search"), step.search));
    let budget: Option<Option<SubtreeBudget>> =
        taken(checks, from_wire(&format!("{at}.budget"), step.budget));
    StepDraft {
        reason: text(step.reason),
        success_criteria: step.success_criteria.into_iter().map(text).collect(),
        step_index: s,
        strategy: strategy.flatten(),
        search: search.flatten(),
        budget: budget.flatten(),
        branch_id: step.branch_id.filter(|branch| !branch.is_empty()).map(text),
        ..StepDraft::new(id, text(step.title))
    }
}

/// The id of a new step: the same for the same place of the same request, and none that a planner would choose.
fn new_step(request_id: &str, band: u32, step: u32) -> String {
    let name = format!("{request_id}/{band}/{step}");
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).simple().to_string();
    format!("new-{}", &id[..12])
}

/// Budgets of the run or of a subtree that change, within the server's maxima.
pub(crate) fn budget(edit: pb::BudgetEdit, maxima: &Maxima, checks: &mut Checks) -> Option<Action> {
    let node_id = match edit.node_id.as_str() {
        "" => None,
        id => Some(node_id(id, checks)?),
    };
    let change: BudgetChange = taken(checks, from_wire("change", edit.change.unwrap_or_default()))?;
    match node_id {
        None => maxima.check_change(&change, checks),
        // No limit of its own: that of the run holds.
        Some(_) => maxima.check_change(&without_zeros(change), checks),
    }
    Some(Action::SetBudget { node_id, change })
}

/// The limits of a change that are not lifted.
fn without_zeros(change: BudgetChange) -> BudgetChange {
    let limit = |limit: Option<u64>| limit.filter(|limit| *limit > 0);
    BudgetChange {
        max_tokens: limit(change.max_tokens),
        max_cost_micros: limit(change.max_cost_micros),
        max_tool_calls: limit(change.max_tool_calls),
        ..change
    }
}

/// A text as it can be stored.
fn text(text: String) -> String {
    String::from_wire(text).unwrap_or_default()
}

/// What a field of an action is called in its request.
pub(crate) fn field_name(action: &Action, field: &str) -> String {
    let field = match (action, field.strip_prefix("budgets")) {
        (Action::SetBudget { .. }, Some(rest)) => format!("change{rest}"),
        _ => field.to_owned(),
    };
    let field = match field.strip_suffix("].id") {
        Some(step) => format!("{step}].step_id"),
        None => field,
    };
    let mut snake = String::with_capacity(field.len());
    for c in field.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// The refusal of an action, as a status.
pub(crate) fn refused(action: &Action, refusal: Refusal) -> Status {
    let (code, reason) = match refusal.kind {
        RefusalKind::NotFound => (Code::NotFound, "NOT_FOUND"),
        RefusalKind::Precondition => (Code::FailedPrecondition, "COMMAND_PRECONDITION"),
        RefusalKind::Changed => (Code::Aborted, "CHANGED_SINCE"),
        RefusalKind::Invalid => (Code::InvalidArgument, "INVALID_FIELD"),
        RefusalKind::Limit => (Code::ResourceExhausted, "LIMIT"),
        RefusalKind::Reused => (Code::AlreadyExists, "ALREADY_EXISTS"),
    };
    let name = match (refusal.kind, refusal.field.as_str()) {
        (RefusalKind::Reused, "") => "request_id".to_owned(),
        (_, name) => field_name(action, name),
    };
    match (code, name.as_str()) {
        (_, "") => status(code, reason, refusal.message),
        (Code::InvalidArgument, name) => invalid_field(name, refusal.message),
        (_, name) => field(code, reason, &FieldError::new(name, refusal.message)),
    }
}
