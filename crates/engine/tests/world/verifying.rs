//! The verifier of a world.

use tree_agent_contract::role::*;
use tree_agent_contract::*;

use super::World;

impl World {
    /// Sometimes asks for another plan, also where there cannot be one.
    pub(super) fn verifier_output(&mut self) -> VerifierOutput {
        let should_replan = self.roll() < 100;
        let doubt = Doubt { claim: "a claim".into(), reason: "a reason".into() };
        let replan_reason = should_replan.then(|| "it is doubted".to_owned());
        VerifierOutput {
            verification: Verification {
                summary: "verified".into(),
                criteria: vec![],
                doubts: vec![doubt],
                not_checked: None,
            },
            next: AggregatorNext { should_replan, replan_reason },
            scratchpad: ScratchpadDraft::of("verified\n".to_owned()),
        }
    }
}
