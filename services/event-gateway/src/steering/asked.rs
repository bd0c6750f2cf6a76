//! Requests for commands, checked as far as that can be done without the run.

use tonic::Status;
use tree_agent_contract::command::Action;
use tree_agent_contract::error::Checks;
use tree_agent_contract::{Command, NodeId, RunId};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::errors::invalid;
use uuid::Uuid;

use super::edits::{self, node_id};
use crate::fields::taken;
use crate::maxima::Maxima;

/// A request for a command.
pub(crate) struct Asked {
    run_id: String,
    request_id: String,
    expected_seq: Option<u64>,
    validate_only: bool,
    action: MakeAction,
}

/// Makes the action of a request; none if a field is wrong that the action needs.
type MakeAction = Box<dyn FnOnce(&mut Context<'_>) -> Option<Action> + Send>;

/// What the action of a request depends on, and what is wrong with it.
struct Context<'a> {
    run: RunId,
    request_id: &'a str,
    maxima: &'a Maxima,
    checks: &'a mut Checks,
}

impl Asked {
    /// The run, the command of `author`, and whether nothing may change. A request without an id gets one, so that its
    /// answer can be recognised.
    pub(super) fn check(self, author: String, maxima: &Maxima) -> Result<(RunId, Command, bool), Status> {
        let mut checks = Checks::default();
        let run = taken(&mut checks, RunId::parse_field("run_id", &self.run_id));
        let mut request_id = String::from_wire(self.request_id).unwrap_or_default();
        if request_id.is_empty() {
            request_id = Uuid::now_v7().to_string();
        }
        let of_run = run.unwrap_or(RunId(Uuid::nil()));
        let mut context = Context { run: of_run, request_id: &request_id, maxima, checks: &mut checks };
        let action = (self.action)(&mut context);
        let command =
            action.map(|action| Command { request_id, author, expected_seq: self.expected_seq, action });
        if let Some(command) = &command {
            let name = |field: &str| edits::field_name(&command.action, field);
            edits::note_all(command.validate(), &mut checks, name);
        }
        checks.finish().map_err(|errors| invalid(&errors))?;
        match (run, command) {
            (Some(run), Some(command)) => Ok((run, command, self.validate_only)),
            _ => Err(Status::internal("a wrong field was not named")),
        }
    }
}

/// The node called `id`; none of its own for the whole run. None at all if it is wrong.
fn whole_run(id: &str, checks: &mut Checks) -> Option<Option<NodeId>> {
    if id.is_empty() { Some(None) } else { node_id(id, checks).map(Some) }
}

/// Writes the conversion of a request: the fields that all requests have, and what makes an action of the others. That
/// gives none if a field is wrong that the action needs.
macro_rules! asked {
    ($($request:ident { $($field:ident),* } => |$context:ident| $action:expr;)*) => {$(
        impl From<pb::$request> for Asked {
            fn from(request: pb::$request) -> Self {
                let pb::$request { run_id, request_id, expected_seq, validate_only, $($field),* } = request;
                let action = Box::new(move |$context: &mut Context<'_>| $action);
                Self { run_id, request_id, expected_seq, validate_only, action }
            }
        }
    )*};
}

asked! {
    PauseRunRequest { node_id, now } => |at| {
        Some(Action::Pause { node_id: whole_run(&node_id, at.checks)?, now })
    };
    ResumeRunRequest { node_id } => |at| Some(Action::Resume { node_id: whole_run(&node_id, at.checks)? });
    GuideNodeRequest { node_id, text, subtree, restart } => |at| {
        edits::guide(pb::GuideEdit { node_id, text, subtree }, restart, at.checks)
    };
    StopNodeRequest { node_id, discard } => |at| {
        Some(Action::Stop { node_id: edits::node_id(&node_id, at.checks)?, discard })
    };
    RetryNodeRequest { node_id, guidance, model, budget } => |at| {
        edits::retry(pb::RetryEdit { node_id, guidance, model, budget }, at.checks)
    };
    EditPlanRequest { node_id, plan } => |at| {
        edits::plan(pb::NodePlanEdit { node_id, plan }, at.run, at.request_id, at.maxima, at.checks)
    };
    SetBudgetRequest { node_id, change } => |at| {
        edits::budget(pb::BudgetEdit { node_id, change }, at.maxima, at.checks)
    };
}
