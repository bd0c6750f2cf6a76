//! What users want of a run, as actions of the contract. Commands and forks have this in common.

use tonic::{Code, Status};
use tree_agent_contract::command::Action;
use tree_agent_contract::error::{Checks, Invalid};
use tree_agent_contract::{
    BudgetChange, Command, FieldError, ModelChoice, NodeId, Refusal, RefusalKind, RunId, StepId,
    SubtreeBudget,
};
use tree_agent_proto::{Wire, plan_from_wire, v1 as pb};
use tree_agent_runtime::errors::{field, invalid_field, status};

use crate::fields::{from_wire, taken};
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

/// Another plan. Steps without an id get one that follows from the run, the request's id and their place, so that the
/// same request means the same plan.
pub(crate) fn plan(
    edit: pb::NodePlanEdit,
    run: RunId,
    request_id: &str,
    maxima: &Maxima,
    checks: &mut Checks,
) -> Option<Action> {
    let node_id = node_id(&edit.node_id, checks);
    checks.require(edit.plan.is_some(), "plan", || "is missing; give the whole plan as it is to be".into());
    let mut wrong = Checks::default();
    let added = |band, step| Some(StepId::added(run, request_id, band, step));
    let plan = plan_from_wire(edit.plan?, added, &mut wrong);
    note_all(wrong.finish(), checks, |field| format!("plan.{field}"));
    maxima.check_steps(&plan, checks);
    Some(Action::EditPlan { node_id: node_id?, plan })
}

/// Notes what is wrong with an action, apart from what depends on the run.
pub(crate) fn check(action: &Action, checks: &mut Checks) {
    note_all(Command::new(action.clone()).validate(), checks, |field| field_name(action, field));
}

/// Notes errors under other names.
pub(crate) fn note_all(found: Result<(), Invalid>, checks: &mut Checks, name: impl Fn(&str) -> String) {
    let errors = found.err().into_iter().flat_map(|Invalid(errors)| errors);
    errors.for_each(|error| checks.push(FieldError { field: name(&error.field), ..error }));
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
        Some(_) => maxima.check_change(&change.without_zeros(), checks),
    }
    Some(Action::SetBudget { node_id, change })
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
