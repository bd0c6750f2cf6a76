//! Verifying: the aggregator reads the answer of a run once more, with the eyes of somebody who has to rely on it.

use serde::{Deserialize, Serialize};

use super::{AggregatorNext, CallContext, ChildOutcome, ScratchpadDraft};
use crate::error::{Checks, Invalid};
use crate::limits;
use crate::verification::Verification;

/// The input of the verifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyInput {
    /// The root and its run.
    pub call: CallContext,
    /// What the root has returned.
    pub answer: ChildOutcome,
    /// True if another plan is possible.
    #[serde(default)]
    pub may_replan: bool,
}

/// The answer of the verifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifierOutput {
    /// What it found.
    pub verification: Verification,
    /// Whether more work is worth its cost.
    #[serde(default)]
    pub next: AggregatorNext,
    /// What it adds to the scratchpad.
    pub scratchpad: ScratchpadDraft,
}

impl VerifierOutput {
    /// Checks the answer.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut c = Checks::default();
        self.verification.check(&mut c);
        if self.next.should_replan {
            let reason = self.next.replan_reason.as_deref().unwrap_or_default();
            c.text("next.replanReason", reason, limits::TEXT_BYTES);
        }
        self.scratchpad.check(&mut c);
        c.finish()
    }
}
