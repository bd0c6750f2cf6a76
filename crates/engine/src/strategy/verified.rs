//! The verification of the answer, which is the same for all strategies: the root has returned its answer and is about
//! to complete.

use tree_agent_contract::event::{AnswerVerified, ReplanRequested};
use tree_agent_contract::role::{CallContext, CallKind, VerifierOutput, VerifyInput};
use tree_agent_contract::{NodeStatus, Verification};

use super::rules::Rules;
use crate::briefing;
use crate::call::CallInput;
use crate::decide::Decider;
use crate::state::{Ending, State};

/// The node at `at` has returned its answer. It completes, after the answer was verified if that is wanted and
/// something new may begin.
pub(super) fn then_complete(rules: &dyn Rules, d: &mut Decider<'_>, at: usize) {
    if at != 0 || !d.state.spec().verify {
        return rules.complete(d, at);
    }
    match d.state.ending(at) {
        Some(_) => wind_down(rules, d, at),
        None => d.need(at, CallKind::Verify, None),
    }
}

/// The input of the verifier.
pub(super) fn brief(state: &State, at: usize, call: CallContext, may_replan: bool) -> CallInput {
    let answer = briefing::outcomes(state, std::iter::once(at)).remove(0);
    CallInput::Verify(Box::new(VerifyInput { call, answer, may_replan }))
}

/// The verifier has answered. If it asks for another plan and there may be one, the node plans again.
pub(super) fn answered(rules: &dyn Rules, d: &mut Decider<'_>, at: usize, out: VerifierOutput) {
    d.append_scratchpad(at, &out.scratchpad.append_markdown);
    let wanted = out.next.should_replan.then(|| out.next.replan_reason.unwrap_or_default());
    d.emit(at, AnswerVerified { verification: out.verification, replan_reason: wanted.clone() });
    match wanted {
        Some(reason) if rules.may_replan(d.state, at) && d.state.ending(at).is_none() => {
            let based_on_child_ids =
                d.state.latest_children(at).map(|child| d.state.node(child).id).collect();
            d.emit(at, ReplanRequested { reason, based_on_child_ids });
            d.need(at, CallKind::Plan, None);
        }
        _ => rules.complete(d, at),
    }
}

/// Nothing new may begin for the node at `at`, whose answer is not verified.
pub(super) fn wind_down(rules: &dyn Rules, d: &mut Decider<'_>, at: usize) {
    let why = match d.state.ending(at) {
        Some(Ending::Budget(budget)) => format!("budget {budget}"),
        Some(Ending::Stopped) => "stopped".to_owned(),
        None => "nothing new may begin".to_owned(),
    };
    give_up(rules, d, at, &why);
}

/// The answer cannot be verified. It is returned as it is; the log and the node say why, and nothing of it is doubted.
pub(super) fn give_up(rules: &dyn Rules, d: &mut Decider<'_>, at: usize, why: &str) {
    let verification = Verification::failed(why);
    d.status_because(at, NodeStatus::Aggregating, verification.summary.clone());
    d.emit(at, AnswerVerified { verification, replan_reason: None });
    rules.complete(d, at);
}
