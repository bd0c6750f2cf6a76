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

/// What all requests for commands have.
pub(crate) struct Asked {
    run_id: String,
    request_id: String,
    expected_seq: Option<u64>,
    validate_only: bool,
    action: RequestedAction,
}

/// What a request asks for.
enum RequestedAction {
    Pause { node_id: String, now: bool },
    Resume { node_id: String },
    Guide { edit: pb::GuideEdit, restart: bool },
    Stop { node_id: String, discard: bool },
    Retry(pb::RetryEdit),
    EditPlan(pb::NodePlanEdit),
    SetBudget(pb::BudgetEdit),
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
        let action = self.action.action(of_run, &request_id, maxima, &mut checks);
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

impl RequestedAction {
    /// None if a field is wrong that the action needs.
    fn action(self, run: RunId, request_id: &str, maxima: &Maxima, checks: &mut Checks) -> Option<Action> {
        let whole_run = |id: &str, checks: &mut Checks| match id {
            "" => Some(None),
            id => node_id(id, checks).map(Some),
        };
        match self {
            RequestedAction::Pause { node_id, now } => {
                let node_id: Option<NodeId> = whole_run(&node_id, checks)?;
                Some(Action::Pause { node_id, now })
            }
            RequestedAction::Resume { node_id } => {
                Some(Action::Resume { node_id: whole_run(&node_id, checks)? })
            }
            RequestedAction::Guide { edit, restart } => edits::guide(edit, restart, checks),
            RequestedAction::Stop { node_id: id, discard } => {
                Some(Action::Stop { node_id: node_id(&id, checks)?, discard })
            }
            RequestedAction::Retry(edit) => edits::retry(edit, checks),
            RequestedAction::EditPlan(edit) => edits::plan(edit, run, request_id, maxima, checks),
            RequestedAction::SetBudget(edit) => edits::budget(edit, maxima, checks),
        }
    }
}

/// Writes the conversion of a request: the fields that all requests have, and what is left as an action.
macro_rules! asked {
    ($($request:ident { $($field:ident),* } => $action:expr;)*) => {$(
        impl From<pb::$request> for Asked {
            fn from(request: pb::$request) -> Self {
                let pb::$request { run_id, request_id, expected_seq, validate_only, $($field),* } = request;
                Self { run_id, request_id, expected_seq, validate_only, action: $action }
            }
        }
    )*};
}

asked! {
    PauseRunRequest { node_id, now } => RequestedAction::Pause { node_id, now };
    ResumeRunRequest { node_id } => RequestedAction::Resume { node_id };
    GuideNodeRequest { node_id, text, subtree, restart } => {
        RequestedAction::Guide { edit: pb::GuideEdit { node_id, text, subtree }, restart }
    };
    StopNodeRequest { node_id, discard } => RequestedAction::Stop { node_id, discard };
    RetryNodeRequest { node_id, guidance, model, budget } => {
        RequestedAction::Retry(pb::RetryEdit { node_id, guidance, model, budget })
    };
    EditPlanRequest { node_id, plan } => RequestedAction::EditPlan(pb::NodePlanEdit { node_id, plan });
    SetBudgetRequest { node_id, change } => RequestedAction::SetBudget(pb::BudgetEdit { node_id, change });
}
