//! The payload of each event type.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::PromptDocument;
use crate::answers::KeptText;
use crate::budget::SubtreeBudget;
use crate::citation::{Citation, CitationCounts};
use crate::disagreement::Disagreement;
use crate::homework::{BranchNote, PlanItem};
use crate::ids::{ArtifactId, DocumentId, NodeId, PlanId, StepId};
use crate::model::Profile;
use crate::result::{ArtifactType, HintType, ResultKind, SuccessAssessment, TreeAgentResult};
use crate::review::Review;
use crate::role::CallKind;
use crate::run::{RunSpec, Strategy};
use crate::search::{PickerPolicy, StepSearch};
use crate::status::{NodeStatus, Outcome, Role, RunStatus, StepStatus};
use crate::time::Timestamp;
use crate::verification::Verification;

macro_rules! payloads {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident : $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[serde_with_macros::skip_serializing_none]
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $($(#[$fdoc])* pub $field: $type,)* }
    )*};
}

mod steering;

pub use steering::*;

payloads! {
    /// Payload of `tree.run_created`. Its node is the root.
    RunCreated {
        /// What was asked for.
        #[serde(flatten)]
        spec: RunSpec,
        /// The root of the tree.
        root_node_id: NodeId,
        /// Version of the event contract that the log was begun with.
        schema_version: u32,
        /// Version of the engine's behaviour that the run keeps for life.
        behaviour_version: u32,
    }
    /// Payload of `tree.run_status`. Its node is the root.
    RunStatusChanged {
        /// The new status.
        status: RunStatus,
        /// Why, for failures, pauses and cancellations.
        reason: Option<String>,
        /// True if the run ended as partial: work was lost to a failure, a limit or a budget.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
        /// When a run that waits for the quota of its provider goes on by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goes_on_at: Option<Timestamp>,
    }
    /// Payload of `tree.node_created`.
    #[derive(Default)]
    NodeCreated {
        /// The node that delegated; none for the root.
        #[serialize_always]
        parent_node_id: Option<NodeId>,
        /// What the node is for.
        title: String,
        /// 0 for the root.
        depth: u32,
        /// Band of the parent's plan; none for the root.
        #[serialize_always]
        band_index: Option<u32>,
        /// Place in that band; none for the root.
        #[serialize_always]
        step_index: Option<u32>,
        /// The step that it carries out; none for the root.
        step_id: Option<StepId>,
        /// Why the parent wants it.
        #[serde(default)]
        reason: String,
        /// How the parent will judge it.
        #[serde(default)]
        success_criteria: Vec<String>,
        /// How the tree grows below it, if that differs from its parent.
        strategy: Option<Strategy>,
        /// How much a topic of a guided search promises, from 0 to 1, as the research that found it judges.
        score: Option<f64>,
        /// The limits of a guided search that begins here as a step of a plan; none for the defaults.
        search: Option<StepSearch>,
        /// The iteration of homework of which it is a task, 1 for the first.
        iteration: Option<u32>,
        /// The branch of homework of which it is a task.
        branch_id: Option<String>,
        /// What its step should return. None leaves it to the worker.
        deliverable: Option<ResultKind>,
        /// The ability that its model needs; none for that of its role.
        profile: Option<Profile>,
    }
    /// Payload of `tree.node_status`.
    NodeStatusChanged {
        /// The new status.
        status: NodeStatus,
        /// The role the node now shows.
        role: Role,
        /// Why: `leaf_decision:direct`, `guard:maxDepth`, `retry:2 …`, or free text.
        message: Option<String>,
        /// From 0 to 1.
        progress: Option<f64>,
        /// The attempt number of the role call that this status is about, if it is not the first.
        attempt: Option<u32>,
        /// The role call that the node needs from here on: a new one, even if it is of the same role as the last.
        call: Option<CallKind>,
        /// Why, in words that stay on the node after it has moved on: a decision, a guard, the reason of a retry.
        why: Option<String>,
    }
    /// Payload of `tree.node_completed`.
    NodeCompleted {
        /// How well it did.
        outcome: Outcome,
        /// What supports that, in a sentence.
        evidence: Option<String>,
        /// Figures about the node, such as `durationMs`, `toolCalls`, `children`.
        metrics: Option<Map<String, Value>>,
    }
    /// Payload of `tree.node_failed`.
    NodeFailed {
        /// What went wrong.
        error: String,
        /// True if a retry could help.
        retryable: bool,
    }
    /// Payload of `tree.plan_created`.
    PlanCreated {
        /// The plan.
        plan_id: PlanId,
        /// 1 for a node's first plan.
        version: u32,
        /// The plan in a sentence or two.
        summary: Option<String>,
        /// Why the planner chose to decompose.
        mode_reason: Option<String>,
        /// The iteration of homework that it is for. Its tasks are one band; an iteration whose tasks were all refused
        /// has none.
        iteration: Option<u32>,
    }
    /// Payload of `tree.plan_band_created`.
    PlanBandCreated {
        /// The plan.
        plan_id: PlanId,
        /// 0 for the first band.
        band_index: u32,
        /// Its steps in order.
        step_ids: Vec<StepId>,
        /// What the band is for.
        #[serde(default)]
        goal: String,
        /// False: its steps run one after the other.
        #[serde(default = "yes")]
        parallelizable: bool,
    }
    /// Payload of `tree.step_created`.
    StepCreated {
        /// The step.
        step_id: StepId,
        /// Its band.
        band_index: u32,
        /// Its place in the band.
        step_index: u32,
        /// What it is.
        title: String,
        /// Why it is needed.
        reason: String,
        /// How it will be judged.
        success_criteria: Vec<String>,
        /// `search` if a guided search carries it out; none for a node that plans or executes.
        strategy: Option<Strategy>,
        /// The limits of that search; none for the defaults.
        search: Option<StepSearch>,
        /// The branch of homework that it is for.
        branch_id: Option<String>,
        /// What the step and everything below it may use; none for its share of what the node has.
        budget: Option<SubtreeBudget>,
        /// What the step should return. None leaves it to the worker.
        deliverable: Option<ResultKind>,
        /// The ability that its model needs; none for that of its role.
        profile: Option<Profile>,
    }
    /// Payload of `tree.step_status`. Its node is the one that planned the step.
    StepStatusChanged {
        /// The step.
        step_id: StepId,
        /// The new status.
        status: StepStatus,
    }
    /// Payload of `tree.node_delegated`. Its node is the one that delegates.
    NodeDelegated {
        /// The new child.
        child_node_id: NodeId,
        /// The step that it carries out.
        step_id: StepId,
    }
    /// Payload of `tree.scratchpad_linked`.
    ScratchpadLinked {
        /// The scratchpad.
        scratchpad_doc_id: DocumentId,
    }
    /// Payload of `tree.scratchpad_updated`.
    ScratchpadUpdated {
        /// The scratchpad.
        scratchpad_doc_id: DocumentId,
        /// The end of it.
        tail_preview: String,
        /// When it grew.
        updated_at: Timestamp,
    }
    /// Payload of `tree.artifact_created`.
    ArtifactCreated {
        /// The artifact.
        artifact_id: ArtifactId,
        /// What it is.
        artifact_type: ArtifactType,
        /// The document, for document artifacts.
        document_id: Option<DocumentId>,
        /// The role's name for it.
        label: Option<String>,
        /// The document's title.
        title: Option<String>,
        /// The payload, for JSON artifacts.
        json_payload: Option<Map<String, Value>>,
        /// True for the artifact to read first.
        #[serde(default)]
        is_primary: bool,
        /// The beginning of the document, at most [`SNIPPET_BYTES`](crate::limits::SNIPPET_BYTES), which the parent
        /// sees.
        snippet: Option<String>,
    }
    /// Payload of `tree.artifact_cited`: what supports the claims of an artifact, as the role service found it.
    ArtifactCited {
        /// The artifact, which the node has returned before.
        artifact_id: ArtifactId,
        /// Its citations, in the order of the text.
        citations: Vec<Citation>,
        /// How many of its statements they support.
        counts: CitationCounts,
        /// Sources of it that disagree.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disagreements: Vec<Disagreement>,
    }
    /// Payload of `tree.node_result`.
    NodeResult {
        /// The envelope.
        result: TreeAgentResult,
    }
    /// Payload of `tree.parent_hint`.
    ParentHint {
        /// Who should read.
        parent_node_id: NodeId,
        /// What kind of reading.
        hint_type: HintType,
        /// The artifacts.
        artifact_ids: Vec<ArtifactId>,
        /// The documents among them.
        document_ids: Vec<DocumentId>,
    }
    /// Payload of `tree.node_aggregated`.
    NodeAggregated {
        /// The children that were read.
        child_ids: Vec<NodeId>,
        /// What they amount to.
        summary: String,
        /// The aggregator's judgement.
        #[serialize_always]
        success_assessment: Option<SuccessAssessment>,
    }
    /// Payload of `tree.answer_verified`: what the verifier found in the answer of the root, before the root completes.
    AnswerVerified {
        /// What it found.
        verification: Verification,
        /// It asks for another plan, and why. Whether there is one is the next event.
        replan_reason: Option<String>,
    }
    /// Payload of `tree.review_requested`. Its node is the root, which is paused until a person resumes it or its time
    /// has come.
    ReviewRequested {
        /// What there is to look at, beside the plan.
        review: Review,
    }
    /// Payload of `tree.replan_requested`.
    ReplanRequested {
        /// Why.
        reason: String,
        /// The children whose results led to it.
        based_on_child_ids: Vec<NodeId>,
    }
    /// Payload of `tree.usage_recorded`.
    #[derive(Default)]
    UsageRecorded {
        /// The model.
        model: String,
        /// Tokens sent.
        input_tokens: u64,
        /// Tokens received.
        output_tokens: u64,
        /// Sent tokens that the provider had cached.
        #[serde(default)]
        cached_tokens: u64,
        /// Sent tokens that the provider wrote to its cache.
        #[serde(default, skip_serializing_if = "crate::graph::is_no_token")]
        cache_write_tokens: u64,
        /// Millionths of a US dollar.
        #[serde(default)]
        cost_micros: u64,
        /// Milliseconds of the call.
        #[serde(default)]
        duration_ms: u64,
        /// What the call was for: `plan`, `execute`, `aggregate`, `pick`.
        #[serde(default)]
        purpose: String,
        /// The documents of which the prompt held text, in its order. Other events of the call do not repeat them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        documents: Vec<PromptDocument>,
        /// What the model was sent, what it thought and what it answered, if the run keeps prompts.
        prompt: Option<KeptText>,
    }
    /// Payload of `tree.leaf_picked`.
    LeafPicked {
        /// The leaf that is expanded next.
        leaf_node_id: NodeId,
        /// Why.
        #[serde(default)]
        reason: String,
        /// Who chose.
        policy: Option<PickerPolicy>,
        /// Why the choice of the model was not used, if it was not. Then this is the first unexpanded leaf in
        /// breadth-first order.
        fallback: Option<String>,
    }
    /// Payload of `tree.session_forked`.
    SessionForked {
        /// The new conversation.
        session_id: String,
        /// The one that it continues.
        parent_session_id: Option<String>,
    }
    /// Payload of `tree.rollup_updated`.
    RollupUpdated {
        /// The document that holds the roll-up.
        document_id: DocumentId,
        /// The iteration, 1 for the first.
        iteration: u32,
        /// The roll-up in a sentence or two.
        summary: String,
        /// What each branch has found so far.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        branches: Vec<BranchNote>,
        /// The summary of the iteration, a document of its own.
        summary_document_id: Option<DocumentId>,
    }
    /// Payload of `tree.tool_call_requested`.
    ToolCallRequested {
        /// Identifies the call within the node, so that its result can be matched.
        call_id: String,
        /// The tool.
        tool_name: String,
        /// Its arguments.
        args: Option<Map<String, Value>>,
        /// What it is for.
        purpose: Option<String>,
        /// The role at work: `plan`, `execute`, `aggregate`.
        phase: Option<String>,
        /// When it was asked for, by the role's clock.
        started_at: Option<Timestamp>,
        /// The tool may change something: it is a built-in that writes, or does not say that it only reads.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        writes: bool,
        /// The tool was not called, and the call counts in no budget: the run knows the answer, or the result says that
        /// no call was left.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cached: bool,
    }
    /// Payload of `tree.tool_call_result`.
    #[derive(Default)]
    ToolCallResult {
        /// The call.
        call_id: String,
        /// The tool.
        tool_name: String,
        /// True if it worked.
        ok: bool,
        /// What it returned, shortened.
        summary: Option<String>,
        /// What went wrong.
        error: Option<String>,
        /// The role at work.
        phase: Option<String>,
        /// When it answered, by the role's clock.
        completed_at: Option<Timestamp>,
        /// The document of the run that it wrote.
        document_id: Option<DocumentId>,
        /// The whole answer, if the run keeps it for further calls.
        answer: Option<KeptText>,
    }
    /// Payload of `tree.node_skipped`.
    NodeSkipped {
        /// Why: it was complete before the run.
        reason: String,
    }
    /// Payload of `tree.plan_document_updated`.
    PlanDocumentUpdated {
        /// The plan document.
        document_id: DocumentId,
        /// The iteration that is to begin, 1 for the first.
        iteration: u32,
        /// Its steps.
        items: Vec<PlanItem>,
        /// What is still to do.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remaining: Vec<String>,
        /// What is still unknown.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        questions: Vec<String>,
    }
    /// Payload of `tree.task_refused`. Its node is the one that planned the task.
    TaskRefused {
        /// The iteration for which it was meant.
        iteration: u32,
        /// The branch for which it was meant.
        branch_id: String,
        /// The task.
        title: String,
        /// Why.
        reason: String,
        /// The node whose task it repeats, if it repeats one.
        repeats: Option<NodeId>,
    }
}

const fn yes() -> bool {
    true
}
