//! The event contract: the append-only source of truth.
//!
//! An [`Event`] is an envelope (who, where, when) and a typed [`EventBody`]. Its JSON form is
//! `{"runId","seq","nodeId","parentNodeId","timestamp","type","payload"}`, the payload's keys being those of the
//! event contract, `nodeId` among them. Unknown payload keys are ignored, and absent optional ones default. An event of
//! an unknown type is kept as [`Opaque`], so that old programs can read what newer ones write.

use serde::Serialize;

use crate::ids::{NodeId, RunId};
use crate::time::Timestamp;

mod json;
mod make;
mod opaque;
mod payloads;
mod prompt_document;

pub use opaque::Opaque;
pub use payloads::*;
pub use prompt_document::PromptDocument;

/// One event of a run's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The run.
    pub run_id: RunId,
    /// 1, 2, 3 … within the run, without gaps.
    pub seq: u64,
    /// The node that it is about; the root for events about the whole run.
    pub node_id: NodeId,
    /// The parent of that node; none for the root.
    pub parent_node_id: Option<NodeId>,
    /// When the driver decided it.
    pub timestamp: Timestamp,
    /// What happened.
    pub body: EventBody,
}

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What happened.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum EventBody {
            $($(#[$doc])* $variant($variant),)*
            /// An event of a type that this version does not know.
            Opaque(Opaque),
        }

        impl EventBody {
            /// The name of every event type.
            pub const TYPES: &'static [&'static str] = &[$($name,)*];

            /// The event type, such as `tree.node_created`.
            pub fn event_type(&self) -> &str {
                match self {
                    $(EventBody::$variant(_) => $name,)*
                    EventBody::Opaque(event) => &event.event_type,
                }
            }

            /// Reads the payload of an event of type `event_type`.
            pub fn from_json(event_type: &str, payload: &[u8]) -> Result<Self, EventError> {
                match event_type {
                    $($name => serde_json::from_slice(payload).map(EventBody::$variant),)*
                    other => serde_json::from_slice(payload).map(|payload| Opaque::new(other, payload).into()),
                }
                .map_err(|source| EventError::Payload { event_type: event_type.to_owned(), source })
            }
        }

        $(impl From<$variant> for EventBody {
            fn from(body: $variant) -> Self { EventBody::$variant(body) }
        })*
    };
}

events! {
    /// The run began.
    RunCreated = "tree.run_created",
    /// The run's status changed.
    RunStatusChanged = "tree.run_status",
    /// A node came to be.
    NodeCreated = "tree.node_created",
    /// A node's status changed.
    NodeStatusChanged = "tree.node_status",
    /// A node ended with a result.
    NodeCompleted = "tree.node_completed",
    /// A node ended with an error.
    NodeFailed = "tree.node_failed",
    /// A node wrote a version of its plan.
    PlanCreated = "tree.plan_created",
    /// A band of a plan.
    PlanBandCreated = "tree.plan_band_created",
    /// A step of a band.
    StepCreated = "tree.step_created",
    /// A step's status changed.
    StepStatusChanged = "tree.step_status",
    /// A step was given to a child node.
    NodeDelegated = "tree.node_delegated",
    /// A node got its scratchpad.
    ScratchpadLinked = "tree.scratchpad_linked",
    /// A node's scratchpad grew.
    ScratchpadUpdated = "tree.scratchpad_updated",
    /// A node returned an artifact.
    ArtifactCreated = "tree.artifact_created",
    /// A node returned its result.
    NodeResult = "tree.node_result",
    /// A child tells its parent what to read.
    ParentHint = "tree.parent_hint",
    /// A parent has read its children's results.
    NodeAggregated = "tree.node_aggregated",
    /// A parent will plan again.
    ReplanRequested = "tree.replan_requested",
    /// A role call used tokens or money.
    UsageRecorded = "tree.usage_recorded",
    /// A budget of the run is used up.
    BudgetExhausted = "tree.budget_exhausted",
    /// A user gave a node guidance.
    GuidanceAdded = "tree.guidance_added",
    /// A user changed a plan.
    PlanEdited = "tree.plan_edited",
    /// The run was forked from another.
    RunForked = "tree.run_forked",
    /// The search strategy chose a leaf.
    LeafPicked = "tree.leaf_picked",
    /// A conversation was forked from its parent's.
    SessionForked = "tree.session_forked",
    /// The homework strategy rolled branches up.
    RollupUpdated = "tree.rollup_updated",
    /// A role asks for a tool.
    ToolCallRequested = "tree.tool_call_requested",
    /// A tool answered.
    ToolCallResult = "tree.tool_call_result",
    /// A topic of a guided search needs no research.
    NodeSkipped = "tree.node_skipped",
    /// The plan document of homework changed.
    PlanDocumentUpdated = "tree.plan_document_updated",
    /// A task of homework was refused.
    TaskRefused = "tree.task_refused",
    /// A user paused a node and everything below it.
    NodePaused = "tree.node_paused",
    /// A user ended a pause.
    NodeResumed = "tree.node_resumed",
    /// A role call in flight was stopped. It costs no attempt.
    CallStopped = "tree.call_stopped",
    /// A user stopped a node and everything below it.
    NodeStopped = "tree.node_stopped",
    /// A node that had ended, or was about to, goes on.
    NodeReopened = "tree.node_reopened",
    /// A user changed the budgets of the run.
    BudgetSet = "tree.budget_set",
    /// A subtree used more than its lease; an account above takes that over.
    LeaseCovered = "tree.lease_covered",
    /// What supports the claims of an artifact.
    ArtifactCited = "tree.artifact_cited",
    /// The answer of the root was verified.
    AnswerVerified = "tree.answer_verified",
    /// A run has a plan and waits for a person.
    ReviewRequested = "tree.review_requested",
}

/// The version of the event contract that new logs begin with.
pub const SCHEMA_VERSION: u32 = 1;

/// Why a stored text is not an event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The payload does not have the shape of its type.
    #[error("the payload of {event_type} is malformed")]
    Payload {
        /// The type.
        event_type: String,
        /// What the parser said.
        source: serde_json::Error,
    },
}

#[cfg(test)]
mod tests;
