//! The verification of the answer, which is the same for all strategies: the root has returned its answer and is about
//! to complete.

use tree_agent_contract::event::{AnswerVerified, ReplanRequested};
use tree_agent_contract::role::{CallContext, CallKind, VerifierOutput, VerifyInput};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{NodeStatus, limits};

use crate::briefing;
use crate::call::CallInput;
use crate::decide::Decider;
use crate::state::State;

/// Asks for the verification of the answer that the node at `at` has just returned. False if nobody wants it, or there is
/// no room for it: then the node says why.
pub(super) fn ask(d: &mut Decider<'_>, at: usize) -> bool {
    if at != 0 || !d.state.spec().verify {
        return false;
    }
    if d.state.ending(at).is_some() {
        wind_down(d, at);
        return false;
    }
    d.need(at, CallKind::Verify, None);
    true
}

/// True if the node at `at` has its answer and waits for its verification only.
pub(super) fn is_awaited(state: &State, at: usize) -> bool {
    state.control(at).needs == Some(CallKind::Verify)
}

/// The input of the verifier.
pub(super) fn brief(state: &State, at: usize, call: CallContext, may_replan: bool) -> CallInput {
    let answer = briefing::outcomes(state, std::iter::once(at)).remove(0);
    CallInput::Verify(Box::new(VerifyInput { call, answer, may_replan }))
}

/// The verifier has answered. True if it asks for another plan, and `may_replan` one; then the node plans again.
pub(super) fn answered(d: &mut Decider<'_>, at: usize, out: VerifierOutput, may_replan: bool) -> bool {
    d.append_scratchpad(at, &out.scratchpad.append_markdown);
    let wanted = out.next.should_replan.then(|| out.next.replan_reason.unwrap_or_default());
    d.emit(at, AnswerVerified { verification: out.verification, replan_reason: wanted.clone() });
    match wanted {
        Some(reason) if may_replan && d.state.ending(at).is_none() => {
            let based_on_child_ids =
                d.state.latest_children(at).map(|child| d.state.node(child).id).collect();
            d.emit(at, ReplanRequested { reason, based_on_child_ids });
            d.need(at, CallKind::Plan, None);
            true
        }
        _ => false,
    }
}

/// Nothing new may begin for the node at `at`, whose answer waits for its verification.
pub(super) fn wind_down(d: &mut Decider<'_>, at: usize) {
    let why =
        d.state.ending(at).map_or_else(|| "nothing new may begin".to_owned(), |ending| ending.message());
    given_up(d, at, &why);
}

/// The answer cannot be verified. It is returned as it is, and the node says why.
pub(super) fn given_up(d: &mut Decider<'_>, at: usize, why: &str) {
    let why = format!("the answer was not verified: {why}");
    d.status_because(at, NodeStatus::Aggregating, prefix(&why, limits::TEXT_BYTES).to_owned());
}
