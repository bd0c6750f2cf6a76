//! The role contracts: the inputs of planner, executor and aggregator, and their valid answers. A guided search calls
//! the planner to pick and the executor to research.
//!
//! An answer that breaks a rule is a typed failure of the call, never a half-used result.

mod aggregator;
mod executor;
mod pick;
mod planner;
mod research;
mod update;
mod verify;

pub use aggregator::{AggregateInput, AggregatorNext, AggregatorOutput, ChildOutcome, Synthesis};
pub use executor::{
    Action, ActionKind, ArtifactDraft, DraftType, ExecuteInput, ExecutorOutput, ParentHintDraft, ResultDraft,
};
pub use pick::{OfferedLeaf, PickInput, PickOutput};
pub(crate) use planner::check_plan;
pub use planner::{
    BandDraft, Complexity, LeafDecision, PlanDraft, PlanInput, PlannerMode, PlannerOutput, PriorStep,
    StepDraft,
};
pub use research::{ResearchForm, ResearchInput, ResearchOutput};
pub use update::{KeptDocument, RoleUpdate, ScratchpadDelta, ToolCallKept};
pub use verify::{VerifierOutput, VerifyInput};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use crate::answers::{AnswerUse, SiblingFindings};
use crate::budget::{Allowance, BudgetLeft, Budgets};
use crate::context::RunContext;
use crate::error::Checks;
use crate::ids::{DocumentId, NodeId, RunId};
use crate::limits;
use crate::model::Profile;
use crate::result::ResultKind;
use crate::status::named_enum;
use crate::text::suffix;
use crate::time::Timestamp;

named_enum! {
    /// Which role is called.
    CallKind {
        /// The planner.
        Plan = "plan",
        /// The executor.
        Execute = "execute",
        /// The aggregator.
        Aggregate = "aggregate",
        /// The executor, which researches a topic of a guided search.
        Research = "research",
        /// The planner, which picks the next topic of a guided search.
        Pick = "pick",
        /// The aggregator, which verifies the answer of the run.
        Verify = "verify",
    }
}

impl CallKind {
    /// True if the call puts together what is there. Every other call is new work, which stops when a budget is used
    /// up, while something is kept for those that finish.
    pub const fn finishes(self) -> bool {
        match self {
            Self::Aggregate => true,
            Self::Plan | Self::Execute | Self::Research | Self::Pick | Self::Verify => false,
        }
    }

    /// True if nodes may follow from the answer.
    pub const fn creates_nodes(self) -> bool {
        match self {
            Self::Plan | Self::Research => true,
            Self::Execute | Self::Aggregate | Self::Pick | Self::Verify => false,
        }
    }
}

/// What every role call contains about its node and run.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallContext {
    /// The run.
    pub run_id: RunId,
    /// The node.
    pub node_id: NodeId,
    /// 1 for the first attempt at this call.
    pub attempt: u32,
    /// The user's objective.
    pub objective: String,
    /// The node's title: its task.
    pub title: String,
    /// Why its parent wants it.
    pub reason: String,
    /// How it will be judged.
    pub success_criteria: Vec<String>,
    /// 0 for the root.
    pub depth: u32,
    /// The budgets of the run.
    pub budgets: Budgets,
    /// What the run may look at.
    pub context: RunContext,
    /// The model of the run; empty for the service's default.
    pub model: String,
    /// The language of the run, by its code in ISO 639-1; empty if nobody knows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub language: String,
    /// The end of the node's scratchpad.
    pub scratchpad_tail: String,
    /// Place of the node among its siblings, over all bands; 0 for the root.
    pub sibling_index: u32,
    /// What this call may use of what is left of the run's budgets. A role that reaches it answers with what it has.
    #[serde(default)]
    pub allowance: Allowance,
    /// Set when a budget of the run is nearly used up: finish with as little further work as possible.
    pub finish: Option<BudgetLeft>,
    /// No tool that writes may be offered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Usage is sent with its prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_prompts: bool,
    /// Of a fork, the run that began its log. Documents that tools write are named after it.
    pub origin_run_id: Option<RunId>,
    /// What people have told the node, the latest last. It is the word of a user, not data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<Guidance>,
    /// What the node should return, in the words of the plan above it.
    pub deliverable: Option<ResultKind>,
    /// The ability that the plan above the node asks of its model. It counts in runs that name no model.
    pub profile: Option<Profile>,
    /// When the call was made. Prompts take today's date from it, so that the same call has the same prompt.
    pub started_at: Option<Timestamp>,
    /// Milliseconds that were left of the time of the run, or of the part of it that the node belongs to.
    pub time_left_ms: Option<u64>,
    /// What the call does about answers of tools; none if nobody keeps them.
    pub answers: Option<AnswerUse>,
    /// What siblings have found so far, as far as their results are not told in full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub siblings: Vec<SiblingFindings>,
    /// The tool calls of earlier attempts at this call, the latest last. Those that wrote are not made again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_calls: Vec<EarlierCall>,
}

/// A tool call that an earlier attempt at a role call has made.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierCall {
    /// The tool.
    pub tool_name: String,
    /// Its arguments, as the log shows them.
    pub args: Option<Map<String, Value>>,
    /// It may have changed something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes: bool,
    /// Whether it worked. None: it has no result, so nobody knows whether it was carried out.
    pub ok: Option<bool>,
    /// What it returned, shortened, or what went wrong.
    pub outcome: String,
}

/// What a person told a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Guidance {
    /// Who said it.
    pub author: String,
    /// What was said.
    pub text: String,
}

/// What a role writes to the node's scratchpad: required in every answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScratchpadDraft {
    /// Markdown to append.
    pub append_markdown: String,
    /// The end of the scratchpad, for previews.
    pub tail_preview: String,
}

impl ScratchpadDraft {
    /// An entry of this text.
    pub fn of(markdown: String) -> Self {
        Self {
            tail_preview: suffix(&markdown, limits::TAIL_PREVIEW_BYTES).to_owned(),
            append_markdown: markdown,
        }
    }

    fn check(&self, checks: &mut Checks) {
        checks.text("scratchpad.appendMarkdown", &self.append_markdown, limits::DOCUMENT_BYTES);
        checks.at_most("scratchpad.tailPreview", &self.tail_preview, limits::TEXT_BYTES);
    }
}

/// An artifact of an earlier node that a role may read.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactRef {
    /// The role's name for it.
    pub label: String,
    /// Its title, for documents.
    pub title: String,
    /// The document, for document artifacts.
    pub document_id: Option<DocumentId>,
    /// True for the one to read first.
    pub is_primary: bool,
    /// The beginning of the document.
    pub snippet: Option<String>,
    /// True when its node told the parent to read it.
    #[serde(default)]
    pub hinted: bool,
    /// The data, for JSON artifacts; none where all data together would be too long for a call.
    pub json_payload: Option<Map<String, Value>>,
}

named_enum! {
    /// Why a role call ended without an output.
    RoleErrorKind {
        /// No instance of the role service could be reached: nothing was attempted. Retried for as long as the run
        /// lasts.
        Unreachable = "unreachable",
        /// The role service works, but the provider of its language model cannot be reached. Retried for as long as
        /// the run lasts once a model has answered in it, and for about a minute before that.
        ProviderUnreachable = "provider_unreachable",
        /// It took longer than its deadline, or its heartbeat stopped.
        Timeout = "timeout",
        /// The answer breaks the contract.
        InvalidOutput = "invalid_output",
        /// The request cannot be served (unknown model, missing key, bad argument). Not retried.
        Rejected = "rejected",
        /// Something broke inside the role.
        Internal = "internal",
        /// The provider is out of capacity; later is better.
        Overloaded = "overloaded",
    }
}

/// The typed failure of a role call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct RoleError {
    /// What kind of failure.
    pub kind: RoleErrorKind,
    /// What happened and what would help.
    pub message: String,
    /// The cause in a few words, such as "rate limit", if the role service knows it.
    pub reason: Option<String>,
    /// When the cause ends, in milliseconds from now, if the provider of the model has said so.
    pub retry_after_ms: Option<u64>,
}

impl RoleError {
    /// A failure of `kind`.
    pub fn new(kind: RoleErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), reason: None, retry_after_ms: None }
    }

    /// True if a retry could help.
    pub const fn retryable(&self) -> bool {
        !matches!(self.kind, RoleErrorKind::Rejected)
    }
}
