//! The tree of a run at one seq: the content of the graph projection, as users receive it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use crate::budget::SubtreeBudget;
use crate::citation::CitationCounts;
use crate::event::{LeafPicked, NodeSkipped, UsageRecorded};
use crate::ids::{ArtifactId, DocumentId, NodeId, PlanId, RunId, StepId};
use crate::model::Profile;
use crate::result::{ArtifactType, ResultKind, TreeAgentResult};
use crate::review::Review;
use crate::run::Strategy;
use crate::search::StepSearch;
use crate::sparse::Sparse;
use crate::status::{NodeStatus, Outcome, Role, RunStatus, StepStatus};
use crate::time::Timestamp;
use crate::verification::Verification;

/// The whole tree after event `seq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphSnapshot {
    /// The run.
    pub run_id: RunId,
    /// The last event that is reflected; 0 for an empty log.
    pub seq: u64,
    /// The status of the run.
    pub status: RunStatus,
    /// True if it ended as partial: work was lost to a failure, a limit or a budget.
    pub partial: bool,
    /// When a run that waits for the quota of its provider goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goes_on_at: Option<Timestamp>,
    /// In order of creation, the root first.
    pub nodes: Vec<GraphNode>,
}

/// A graph after some event, as far as derived data needs it.
pub trait GraphView {
    /// The status of the run.
    fn status(&self) -> RunStatus;
    /// True if the run ended as partial: work was lost to a failure, a limit or a budget.
    fn partial(&self) -> bool;
    /// Nodes in the graph.
    fn node_count(&self) -> u64;
    /// Nodes that are completed, failed or cancelled.
    fn ended_nodes(&self) -> u64;
    /// Sums over every role call that the run made itself.
    fn usage(&self) -> Usage;
    /// The models that answered in the run, the one that answered last at the end.
    fn models(&self) -> &[String];
    /// When a driver first took the run up.
    fn started_at(&self) -> Option<Timestamp>;
    /// When the run ended.
    fn ended_at(&self) -> Option<Timestamp>;
    /// Why the run failed, or ended as partial.
    fn error(&self) -> Option<&str>;
    /// One node.
    fn node(&self, id: NodeId) -> Option<&GraphNode>;
}

/// One node of the tree. Fields that only some nodes have are boxed, because drivers hold many nodes.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphNode {
    /// The node.
    pub id: NodeId,
    /// Its parent; none for the root.
    #[serialize_always]
    pub parent_id: Option<NodeId>,
    /// Its title.
    pub title: String,
    /// Why its parent wants it.
    pub reason: String,
    /// How it will be judged.
    pub success_criteria: Vec<String>,
    /// What it is doing.
    pub status: NodeStatus,
    /// The role it shows.
    pub role: Role,
    /// 0 for the root.
    pub depth: u32,
    /// Band of the parent's plan.
    #[serialize_always]
    pub band_index: Option<u32>,
    /// Place in that band.
    #[serialize_always]
    pub step_index: Option<u32>,
    /// The step that it carries out.
    #[serialize_always]
    pub step_id: Option<StepId>,
    /// The message of the last status.
    pub message: Option<String>,
    /// What was decided about it and why: the last [`NODE_DECISIONS`](crate::limits::NODE_DECISIONS) decisions, guards
    /// and retries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,
    /// From 0 to 1: of a node that waits for the steps of its plan, the share of those that have ended; else what it
    /// reports.
    pub progress: Option<f64>,
    /// How well it did.
    pub outcome: Option<Outcome>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its scratchpad.
    pub scratchpad_doc_id: Option<DocumentId>,
    /// The end of its scratchpad.
    pub scratchpad_tail: Option<String>,
    /// Its latest tool call.
    pub last_tool: Option<Box<ToolActivity>>,
    /// Its latest plan.
    pub plan: Option<Box<GraphPlan>>,
    /// Its result.
    pub result: Option<Box<TreeAgentResult>>,
    /// What the verifier found in its latest answer; only of the root.
    pub verification: Option<Box<Verification>>,
    /// What a person is asked to look at; only of the root, and only until it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Box<Review>>,
    /// Its artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<GraphArtifact>,
    /// Which models answered for it, by purpose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written_by: Vec<WrittenBy>,
    /// Sums over its own role calls. In a fork they include those of the log that it shares.
    #[serde(default)]
    pub usage: Sparse<Usage>,
    /// Sums over the role calls of the node and of everything below it. The root's are those of the run, and in a fork
    /// also those of the log that it shares.
    #[serde(default)]
    pub subtree_usage: Sparse<Usage>,
    /// How the tree grows below it, if that differs from its parent.
    pub strategy: Option<Strategy>,
    /// What a guided search says about it, if it is a topic of one.
    pub topic: Option<Box<GraphTopic>>,
    /// What homework says about it, if it is a task of homework.
    pub task: Option<Box<GraphTask>>,
    /// A user has paused it, and everything below it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// A user has stopped it, and everything below it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// How often it was reopened; 0 for never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u32,
    /// What it and everything below it may use, if that has a budget of its own.
    pub lease: Option<Box<Lease>>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it first began to work.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl GraphNode {
    /// How many steps of its latest plan have ended, and how many there are; none without steps.
    pub fn ended_steps(&self) -> Option<(u32, u32)> {
        let count = |(ended, all), step: &GraphStep| (ended + u32::from(step.status.is_final()), all + 1);
        Some(self.steps().fold((0, 0), count)).filter(|&(_, all)| all > 0)
    }

    /// The steps of its latest plan, in order.
    pub fn steps(&self) -> impl Iterator<Item = &GraphStep> {
        self.plan.iter().flat_map(|plan| &plan.bands).flat_map(|band| &band.steps)
    }
}

/// What a node and everything below it may use, as it was granted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The limits.
    pub limits: SubtreeBudget,
    /// Since when its time counts; none while the node has not begun.
    pub since: Option<Timestamp>,
    /// When its time is over, pauses aside.
    pub deadline: Option<Timestamp>,
    /// What the subtree had used before. It does not count.
    #[serde(default)]
    pub before: SubtreeUse,
    /// The budget that is used up, such as `maxTokens`.
    pub exhausted: Option<String>,
}

/// What a subtree has used of what its budget can limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubtreeUse {
    /// Tokens in and out.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micros: u64,
    /// Tool calls.
    pub tool_calls: u64,
}

impl From<Usage> for SubtreeUse {
    fn from(usage: Usage) -> Self {
        Self { tokens: usage.tokens(), cost_micros: usage.cost_micros, tool_calls: usage.tool_calls }
    }
}

/// What homework says about one of its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphTask {
    /// The iteration, 1 for the first.
    pub iteration: u32,
    /// The branch, whose scratchpad is that of the node.
    pub branch_id: String,
}

/// What a guided search says about one of its topics.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphTopic {
    /// How much it promises, from 0 to 1, in the judgement of the research that found it.
    pub score: Option<f64>,
    /// Why it was chosen. Topics of the first level are not chosen: all of them are researched.
    pub picked: Option<LeafPicked>,
    /// Why it needed no research.
    pub skipped: Option<NodeSkipped>,
    /// Its conversation.
    pub session_id: Option<String>,
}

/// A tool call, running or done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolActivity {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool_name: String,
    /// Absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
}

/// A plan with the state of its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphPlan {
    /// The plan.
    pub plan_id: PlanId,
    /// 1, 2, …
    pub version: u32,
    /// In a sentence or two.
    pub summary: String,
    /// The iteration of homework that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// Its bands in order.
    pub bands: Vec<GraphBand>,
}

/// A band of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphBand {
    /// 0 for the first.
    pub index: u32,
    /// What it is for.
    pub goal: String,
    /// False: its steps run one after the other.
    pub parallelizable: bool,
    /// Its steps in order.
    pub steps: Vec<GraphStep>,
}

/// A step of a band.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphStep {
    /// The step.
    pub step_id: StepId,
    /// What it is.
    pub title: String,
    /// Why it is needed.
    #[serde(default)]
    pub reason: String,
    /// How it will be judged.
    #[serde(default)]
    pub success_criteria: Vec<String>,
    /// `search` if a guided search carries it out.
    pub strategy: Option<Strategy>,
    /// The limits of that search; none for the defaults.
    pub search: Option<StepSearch>,
    /// The branch of homework that it is for.
    pub branch_id: Option<String>,
    /// What the step and everything below it may use.
    pub budget: Option<SubtreeBudget>,
    /// What the step should return. None leaves it to the worker.
    pub deliverable: Option<ResultKind>,
    /// The ability that its model needs; none for that of its role.
    pub profile: Option<Profile>,
    /// Its status.
    pub status: StepStatus,
    /// The node that carries it out, once there is one.
    pub node_id: Option<NodeId>,
}

/// An artifact of a node.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphArtifact {
    /// The artifact.
    pub artifact_id: ArtifactId,
    /// What it is.
    pub artifact_type: ArtifactType,
    /// The document, for document artifacts.
    pub document_id: Option<DocumentId>,
    /// The role's name for it.
    pub label: String,
    /// The document's title.
    pub title: String,
    /// True for the one to read first.
    pub is_primary: bool,
    /// The payload, for JSON artifacts.
    pub json_payload: Option<Map<String, Value>>,
    /// How many of its statements are supported, if they are counted. What the verifier found does not count here.
    pub citations: Option<CitationCounts>,
}

/// The model that answered last for one purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenBy {
    /// `plan`, `execute`, `aggregate`, `research`, `pick` or `verify`.
    pub purpose: String,
    /// The model, such as `openai:gpt-5`.
    pub model: String,
}

impl WrittenBy {
    /// The purpose in that of a role call, which may also say what came of it, as in `plan (repair 1)`.
    pub fn purpose_of(call: &UsageRecorded) -> &str {
        call.purpose.split([' ', ',', ':']).next().unwrap_or_default()
    }
}

/// Sums over role calls: of one node, of a subtree, or of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Sent tokens that the provider had cached; they are part of `input_tokens`.
    pub cached_tokens: u64,
    /// Sent tokens that the provider wrote to its cache; they are part of `input_tokens`.
    #[serde(skip_serializing_if = "is_no_token")]
    pub cache_write_tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micros: u64,
    /// Calls of a model.
    pub model_calls: u64,
    /// Milliseconds of those calls together; calls side by side count each.
    pub duration_ms: u64,
    /// Tool calls.
    pub tool_calls: u64,
}

impl Usage {
    /// One tool call.
    pub fn tool_call() -> Self {
        Self { tool_calls: 1, ..Self::default() }
    }

    /// One call of a model.
    pub const fn of(call: &UsageRecorded) -> Self {
        Self {
            input_tokens: call.input_tokens,
            output_tokens: call.output_tokens,
            cached_tokens: call.cached_tokens,
            cache_write_tokens: call.cache_write_tokens,
            cost_micros: call.cost_micros,
            model_calls: 1,
            duration_ms: call.duration_ms,
            tool_calls: 0,
        }
    }

    /// Tokens sent and received, which is what budgets count.
    pub const fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// The sum of both, field by field. The order of summands does not matter, even at the end of the range.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
            model_calls: self.model_calls.saturating_add(other.model_calls),
            duration_ms: self.duration_ms.saturating_add(other.duration_ms),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
        }
    }

    /// What is left of it without `other`, field by field.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(other.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(other.cache_write_tokens),
            cost_micros: self.cost_micros.saturating_sub(other.cost_micros),
            model_calls: self.model_calls.saturating_sub(other.model_calls),
            duration_ms: self.duration_ms.saturating_sub(other.duration_ms),
            tool_calls: self.tool_calls.saturating_sub(other.tool_calls),
        }
    }
}

// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) const fn is_no_token(number: &u64) -> bool {
    *number == 0
}

// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}
