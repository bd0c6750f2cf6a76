//! The verification of an answer.

use tree_agent_contract::role::{AggregatorNext, ScratchpadDraft, VerifierOutput, VerifyInput};
use tree_agent_contract::{CriterionCheck, Verification, limits};

use super::short;

/// Rules cannot judge what an answer means: the offline model repeats what the answer says of itself, and says so.
pub(super) fn verify(input: &VerifyInput) -> VerifierOutput {
    let result = input.answer.result.as_ref();
    let assessment = result.and_then(|result| result.success_assessment.as_ref());
    let met = assessment.is_some_and(|assessment| assessment.met);
    let note = assessment.and_then(|assessment| assessment.notes.as_deref()).unwrap_or_default();
    let criteria = match input.call.success_criteria.as_slice() {
        [] => std::slice::from_ref(&input.call.objective),
        criteria => criteria,
    };
    let check = |criterion: &String| CriterionCheck {
        criterion: short(criterion, limits::CLAIM_BYTES),
        met,
        note: short(note, limits::CLAIM_BYTES),
    };
    VerifierOutput {
        verification: Verification {
            summary: "The offline model cannot judge an answer. This repeats what the answer says of itself."
                .into(),
            criteria: criteria.iter().take(limits::VERIFIED).map(check).collect(),
            doubts: Vec::new(),
            not_checked: None,
        },
        next: AggregatorNext::default(),
        scratchpad: ScratchpadDraft::of("The answer was not judged: rules cannot do that.\n".to_owned()),
    }
}
