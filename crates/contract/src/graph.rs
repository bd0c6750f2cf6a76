//! The tree of a run at one seq: what the graph projection holds and what viewers are sent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{ArtifactId, DocumentId, NodeId, PlanId, RunId, StepId};
use crate::result::{ArtifactType, TreeAgentResult};
use crate::status::{NodeStatus, Outcome, Role, RunStatus, StepStatus};
use crate::time::Timestamp;

/// The whole tree after event `seq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphSnapshot {
    /// The run.
    pub run_id: RunId,
    /// The last event that is reflected; 0 for an empty log.
    pub seq: u64,
    /// Where the run stands.
    pub status: RunStatus,
    /// True when it ended with less than was asked for.
    pub partial: bool,
    /// In order of creation, the root first.
    pub nodes: Vec<GraphNode>,
}

/// One node of the tree. What only some nodes have is boxed: drivers hold many nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphNode {
    /// The node.
    pub id: NodeId,
    /// Its parent; none for the root.
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
    pub band_index: Option<u32>,
    /// Place in that band.
    pub step_index: Option<u32>,
    /// The step that it carries out.
    pub step_id: Option<StepId>,
    /// The message of the last status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// How well it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its scratchpad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratchpad_doc_id: Option<DocumentId>,
    /// The end of its scratchpad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratchpad_tail: Option<String>,
    /// Its latest tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tool: Option<ToolActivity>,
    /// Its latest plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<GraphPlan>>,
    /// Its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<TreeAgentResult>>,
    /// Its artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<GraphArtifact>,
    /// Sums over its role calls.
    #[serde(default)]
    pub usage: Usage,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it first began to work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
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
    /// Where it stands.
    pub status: StepStatus,
    /// The node that carries it out, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
}

/// An artifact of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphArtifact {
    /// The artifact.
    pub artifact_id: ArtifactId,
    /// What it is.
    pub artifact_type: ArtifactType,
    /// The document, for document artifacts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_id: Option<DocumentId>,
    /// The role's name for it.
    pub label: String,
    /// The document's title.
    pub title: String,
    /// True for the one to read first.
    pub is_primary: bool,
    /// The payload, for JSON artifacts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_payload: Option<Map<String, Value>>,
}

/// Sums over the role calls of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micros: u64,
    /// Tool calls.
    pub tool_calls: u64,
}
