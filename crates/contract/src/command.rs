//! Commands: how a person changes a run while it runs.
//!
//! A command is answered once. If it is applied, its events carry its request id. If it is refused, nothing is written
//! to the log. The same request id with another command is refused.
//!
//! | limit | what it bounds |
//! | --- | --- |
//! | [`GUIDANCE_BYTES`](crate::limits::GUIDANCE_BYTES) | the text of one piece of guidance |
//! | [`GUIDANCE`](crate::limits::GUIDANCE) | pieces of guidance that a call is told, the latest ones |
//! | [`COMMANDS`](crate::limits::COMMANDS) | commands that one run applies over its life |

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::budget::{Budgets, SubtreeBudget};
use crate::error::{Checks, FieldError, Invalid};
use crate::ids::NodeId;
use crate::limits;
use crate::role::{CallKind, PlanDraft, check_plan};
use crate::status::named_enum;
use crate::text::prefix;

/// Bytes of what a person said that the words of an action show.
const WORDS: usize = 120;

/// What a person tells a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Makes it idempotent within the run. Empty for none; then it is not recognised if it arrives again.
    #[serde(default)]
    pub request_id: String,
    /// Who gives it.
    #[serde(default)]
    pub author: String,
    /// The seq that its author has looked at. It is refused if the nodes concerned, or their plans, have changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_seq: Option<u64>,
    /// What to do.
    #[serde(flatten)]
    pub action: Action,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Action {
    /// Ends the run now.
    Cancel {
        /// Why, shown in the run's last event.
        reason: String,
    },
    /// No role call begins for the node and below it.
    Pause {
        /// The node; the root for the whole run.
        node_id: Option<NodeId>,
        /// Stops calls in flight, too. They are made again later.
        #[serde(default)]
        now: bool,
    },
    /// Ends a pause of the same node.
    Resume {
        /// The node; the root for the whole run.
        node_id: Option<NodeId>,
    },
    /// Tells the next calls of the node something.
    Guide {
        /// The node.
        node_id: NodeId,
        /// What a person says.
        text: String,
        /// Tells it to every node below, too.
        #[serde(default)]
        subtree: bool,
        /// Stops the call in flight and makes it again with the guidance.
        #[serde(default)]
        restart: bool,
    },
    /// Nothing new begins for the node and below it, and calls in flight are stopped.
    Stop {
        /// The node.
        node_id: NodeId,
        /// Discards the existing results instead of combining them.
        #[serde(default)]
        discard: bool,
    },
    /// Does an ended node again, from its first call.
    Retry {
        /// The node.
        node_id: NodeId,
        /// What a person says about it; empty for nothing.
        #[serde(default)]
        guidance: String,
        /// The model of the node and of everything below it from now on; empty for the one that it had.
        #[serde(default)]
        model: String,
        /// What the node and everything below it may use from now on; none for the budget that it had.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<SubtreeBudget>,
    },
    /// Replaces the plan of a node that waits for its children.
    EditPlan {
        /// The node.
        node_id: NodeId,
        /// The whole plan as it is to be, with the steps that have begun.
        plan: PlanDraft,
    },
    /// Changes budgets of the run, or of a node and everything below it.
    SetBudget {
        /// The node; none for the whole run. A subtree has tokens, cost, tool calls and wall clock only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
        /// The budgets that change.
        change: BudgetChange,
    },
    /// Gives all calls another model. Only a fork can do that.
    SetModel {
        /// The model.
        model: String,
    },
}

impl Action {
    /// What it does, in words that a list of runs can show.
    pub fn words(&self) -> String {
        match self {
            Self::Cancel { .. } => "cancels the run".to_owned(),
            Self::Pause { node_id: None, .. } => "pauses the run".to_owned(),
            Self::Pause { node_id: Some(node), .. } => format!("pauses node {node}"),
            Self::Resume { node_id: None } => "resumes the run".to_owned(),
            Self::Resume { node_id: Some(node) } => format!("resumes node {node}"),
            Self::Guide { node_id, text, .. } => format!("guides node {node_id}: {}", prefix(text, WORDS)),
            Self::Stop { node_id, .. } => format!("stops node {node_id}"),
            Self::Retry { node_id, guidance, model, .. } => {
                let mut words = format!("retries node {node_id}");
                if !model.is_empty() {
                    words.push_str(&format!(" with the model {model}"));
                }
                if !guidance.is_empty() {
                    words.push_str(&format!(": {}", prefix(guidance, WORDS)));
                }
                words
            }
            Self::EditPlan { node_id, .. } => format!("edits the plan of node {node_id}"),
            Self::SetBudget { node_id: None, .. } => "sets budgets".to_owned(),
            Self::SetBudget { node_id: Some(node), .. } => format!("sets budgets of node {node}"),
            Self::SetModel { model } => format!("uses the model {model}"),
        }
    }

    /// True if a fork can begin with it.
    pub fn is_edit(&self) -> bool {
        match self {
            Self::Guide { restart, .. } => !restart,
            Self::Retry { .. } | Self::EditPlan { .. } | Self::SetBudget { .. } | Self::SetModel { .. } => {
                true
            }
            Self::Cancel { .. } | Self::Pause { .. } | Self::Resume { .. } | Self::Stop { .. } => false,
        }
    }
}

/// Budgets that change. What is absent stays as it is.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetChange {
    /// Tokens in and out of the run; 0 for no limit.
    pub max_tokens: Option<u64>,
    /// Millionths of a US dollar; 0 for no limit.
    pub max_cost_micros: Option<u64>,
    /// Tool calls of the run; 0 for no limit.
    pub max_tool_calls: Option<u64>,
    /// Milliseconds from the start of the run, pauses aside.
    pub max_wall_clock_ms: Option<u64>,
    /// Nodes of the run.
    pub max_nodes: Option<u32>,
    /// Steps of one band that run in parallel.
    pub max_parallel_steps: Option<u32>,
}

impl BudgetChange {
    /// True if nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The change without the limits that it lifts.
    #[must_use]
    pub fn without_zeros(self) -> Self {
        let limit = |limit: Option<u64>| limit.filter(|limit| *limit > 0);
        Self {
            max_tokens: limit(self.max_tokens),
            max_cost_micros: limit(self.max_cost_micros),
            max_tool_calls: limit(self.max_tool_calls),
            ..self
        }
    }

    /// `budgets` with the change.
    pub fn apply(&self, budgets: &Budgets) -> Budgets {
        let limit = |change: Option<u64>, old: Option<u64>| match change {
            None => old,
            Some(0) => None,
            Some(limit) => Some(limit),
        };
        Budgets {
            max_tokens: limit(self.max_tokens, budgets.max_tokens),
            max_cost_micros: limit(self.max_cost_micros, budgets.max_cost_micros),
            max_tool_calls: limit(self.max_tool_calls, budgets.max_tool_calls),
            max_wall_clock_ms: self.max_wall_clock_ms.unwrap_or(budgets.max_wall_clock_ms),
            max_nodes: self.max_nodes.unwrap_or(budgets.max_nodes),
            max_parallel_steps: self.max_parallel_steps.unwrap_or(budgets.max_parallel_steps),
            ..budgets.clone()
        }
    }
}

impl BudgetChange {
    /// The budget of a subtree with the change.
    pub fn apply_to_subtree(&self, budget: SubtreeBudget) -> SubtreeBudget {
        let limit = |change: Option<u64>, old: Option<u64>| change.or(old).filter(|limit| *limit > 0);
        SubtreeBudget {
            max_tokens: limit(self.max_tokens, budget.max_tokens),
            max_cost_micros: limit(self.max_cost_micros, budget.max_cost_micros),
            max_tool_calls: limit(self.max_tool_calls, budget.max_tool_calls),
            max_wall_clock_ms: self.max_wall_clock_ms.or(budget.max_wall_clock_ms),
        }
    }
}

impl Command {
    /// A command that nobody can repeat, and that does not depend on what its author has seen.
    pub fn new(action: Action) -> Self {
        Self { request_id: String::new(), author: String::new(), expected_seq: None, action }
    }

    /// Checks all that does not depend on the run.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut c = Checks::default();
        c.at_most("request_id", &self.request_id, limits::REQUEST_ID_BYTES);
        self.action.check(&mut c);
        c.finish()
    }
}

impl Action {
    /// Checks all that does not depend on the run.
    fn check(&self, c: &mut Checks) {
        match self {
            Action::Cancel { reason } => c.at_most("reason", reason, limits::TEXT_BYTES),
            Action::Pause { .. } | Action::Resume { .. } | Action::Stop { .. } => {}
            Action::Guide { text, .. } => c.text("text", text, limits::GUIDANCE_BYTES),
            Action::Retry { guidance, model, budget, .. } => {
                c.at_most("guidance", guidance, limits::GUIDANCE_BYTES);
                c.at_most("model", model, limits::TITLE_BYTES);
                if let Some(budget) = budget {
                    budget.check("budget", c);
                }
            }
            Action::EditPlan { plan, .. } => check_plan(plan, &[], c),
            Action::SetBudget { node_id, change } => {
                c.require(!change.is_empty(), "budgets", || "must name at least one budget".into());
                if let Err(Invalid(errors)) = change.apply(&Budgets::default()).validate() {
                    errors.into_iter().for_each(|error| c.push(error));
                }
                for (field, set) in [
                    ("budgets.max_nodes", change.max_nodes.is_some()),
                    ("budgets.max_parallel_steps", change.max_parallel_steps.is_some()),
                ] {
                    c.require(node_id.is_none() || !set, field, || {
                        "belongs to the run; a subtree has tokens, cost, tool calls and wall clock".into()
                    });
                }
            }
            Action::SetModel { model } => c.text("model", model, limits::TITLE_BYTES),
        }
    }
}

/// Checks what a fork does differently, as far as that does not depend on the run.
///
/// # Errors
/// Names each field that is wrong.
pub fn check_edits(edits: &[Action]) -> Result<(), Invalid> {
    let mut all = Checks::default();
    all.range("edits", edits.len() as u64, 0..=limits::FORK_EDITS as u64);
    for (i, edit) in edits.iter().enumerate() {
        let mut c = Checks::default();
        c.require(edit.is_edit(), "", || {
            "a fork can begin with guidance, a retry, a plan, a budget or a model".to_owned()
        });
        edit.check(&mut c);
        if let Err(Invalid(errors)) = c.finish() {
            for error in errors {
                let field = match error.field.as_str() {
                    "" => format!("edits[{i}]"),
                    field => format!("edits[{i}].{field}"),
                };
                all.push(FieldError { field, ..error });
            }
        }
    }
    all.finish()
}

named_enum! {
    /// Why a command is refused.
    RefusalKind {
        /// The run has no such node.
        NotFound = "not_found",
        /// The run, or the node, is not in a state in which the command makes sense.
        Precondition = "precondition",
        /// The nodes concerned have changed since the seq that the author looked at.
        Changed = "changed",
        /// A field of the command breaks a rule of the run.
        Invalid = "invalid",
        /// A limit of the run or of the server.
        Limit = "limit",
        /// The request id was used for another command.
        Reused = "reused",
    }
}

/// A command that is not carried out. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// What kind of reason.
    pub kind: RefusalKind,
    /// The field of the command that is wrong; empty if it is not about one field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong, and what would help.
    pub message: String,
}

impl Refusal {
    /// A refusal that is not about one field.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, field: String::new(), message: message.into() }
    }

    /// A field of the command is wrong.
    pub fn of_field(kind: RefusalKind, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, field: field.into(), message: message.into() }
    }
}

impl From<FieldError> for Refusal {
    fn from(FieldError { field, message }: FieldError) -> Self {
        Self { kind: RefusalKind::Invalid, field, message }
    }
}

impl From<Invalid> for Refusal {
    fn from(Invalid(mut errors): Invalid) -> Self {
        match errors.len() {
            1 => errors.remove(0).into(),
            _ => Self::new(RefusalKind::Invalid, Invalid(errors).to_string()),
        }
    }
}

/// How a command was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// It was carried out.
    Applied {
        /// The last event of the log once it was.
        seq: u64,
    },
    /// It was not.
    Refused(Refusal),
}

/// What a command would do, as far as that can be known before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// The seq that it was computed at.
    pub seq: u64,
    /// The nodes that it concerns, at most [`PREVIEW_NODES`](crate::limits::PREVIEW_NODES), in order of creation.
    pub nodes: Vec<NodeId>,
    /// How many nodes it concerns.
    pub node_count: u32,
    /// Calls that would be stopped, if they are in flight.
    pub stops: u32,
    /// Role calls that would be made, for each role, judged by what the nodes concerned have needed so far.
    pub calls: Vec<(CallKind, u32)>,
    /// Ended nodes whose results stay as they are.
    pub reused: u32,
    /// Tokens of those calls, judged by the run so far.
    pub tokens: u64,
    /// Their cost in millionths of a US dollar.
    pub cost_micros: u64,
    /// What else its author should know, in sentences.
    pub notes: Vec<String>,
}
