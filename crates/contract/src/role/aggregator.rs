//! The aggregator: reads what children returned and writes the synthesis.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use super::executor::{ArtifactDraft, ResultDraft, check_returned};
use super::{ArtifactRef, CallContext, ScratchpadDraft};
use crate::error::{Checks, Invalid};
use crate::homework::HomeworkBrief;
use crate::ids::{DocumentId, NodeId, StepId};
use crate::limits;
use crate::result::TreeAgentResult;
use crate::status::NodeStatus;

/// The outcome of a child, as its parent and later siblings see it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildOutcome {
    /// The child.
    pub node_id: NodeId,
    /// The step that it carried out.
    pub step_id: StepId,
    /// Its title.
    pub title: String,
    /// `completed`, `failed` or `cancelled`.
    pub status: NodeStatus,
    /// True if its result is partial.
    pub partial: bool,
    /// Its envelope, when it completed.
    pub result: Option<TreeAgentResult>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its artifacts.
    #[serde(default)]
    pub artifacts: Vec<ArtifactRef>,
    /// Its scratchpad, if it failed: what it had done until then.
    pub scratchpad_doc_id: Option<DocumentId>,
    /// How that ends.
    pub scratchpad_tail: Option<String>,
}

/// What the results of the children amount to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Synthesis {
    /// In a few sentences.
    pub summary: String,
    /// What was found.
    #[serde(default)]
    pub key_findings: Vec<String>,
    /// What is missing.
    #[serde(default)]
    pub gaps: Vec<String>,
}

/// Whether the node should plan again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregatorNext {
    /// True: another plan, if the budget allows it.
    pub should_replan: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replan_reason: Option<String>,
}

/// The answer of an aggregator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregatorOutput {
    /// What the results of the children amount to.
    pub synthesis: Synthesis,
    /// What it made.
    #[serde(default)]
    pub artifacts: Vec<ArtifactDraft>,
    /// What it returns.
    pub result: ResultDraft,
    /// Whether to plan again.
    #[serde(default)]
    pub next: AggregatorNext,
    /// What goes to the scratchpad.
    pub scratchpad: ScratchpadDraft,
}

/// The input of an aggregator.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AggregateInput {
    /// The node and its run.
    pub call: CallContext,
    /// The node's latest plan, in words.
    pub plan_summary: String,
    /// Every child, in the order of the plans: completed, failed and cancelled ones.
    pub children: Vec<ChildOutcome>,
    /// The exhausted budget, if the result will be partial because of it.
    pub exhausted_budget: Option<String>,
    /// How the homework went, if the node does homework. Then `children` are the tasks of all iterations.
    pub homework: Option<Box<HomeworkBrief>>,
}

impl AggregatorOutput {
    /// Checks every rule of the aggregator contract.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut c = Checks::default();
        self.scratchpad.check(&mut c);
        c.text("synthesis.summary", &self.synthesis.summary, limits::TEXT_BYTES);
        for (field, items) in [("keyFindings", &self.synthesis.key_findings), ("gaps", &self.synthesis.gaps)]
        {
            c.range(format_args!("synthesis.{field}"), items.len() as u64, 0..=limits::FINDINGS as u64);
            items
                .iter()
                .for_each(|item| c.text(format_args!("synthesis.{field}"), item, limits::CLAIM_BYTES));
        }
        check_returned(&self.artifacts, &self.result, &mut c);
        if self.next.should_replan {
            c.text(
                "next.replanReason",
                self.next.replan_reason.as_deref().unwrap_or_default(),
                limits::TEXT_BYTES,
            );
        }
        c.finish()
    }
}
