//! A person looks at the first plan of a run before it is carried out.
//!
//! The root is paused before the answer of its planner leads to anything, so that nothing below it begins. The request
//! follows when the plan is in the log. A root that executes at once is reviewed before it does, and a search once its
//! first topics are known.

use tree_agent_contract::event::{NodePaused, ReviewRequested, RunStatusChanged};
use tree_agent_contract::role::CallKind;
use tree_agent_contract::{Estimate, Premises, Review, RunStatus};

use crate::call::CallOutput;
use crate::decide::Decider;
use crate::state::State;

/// True if a person is to look at what the node at `at` is about to plan.
pub(super) fn is_due(state: &State, at: usize) -> bool {
    at == 0 && state.spec().review.is_some() && !state.steering().was_reviewed()
}

/// True if the root is past its planning and a person has not been asked.
pub(crate) fn is_overdue(state: &State) -> bool {
    let plans = matches!(state.control(0).needs, Some(CallKind::Plan | CallKind::Research));
    is_due(state, 0) && !plans && !state.node(0).status.is_final()
}

/// Before `output` leads to anything: nothing begins from here on if a person is to look at it. Then returns what it
/// rests on.
pub(super) fn hold_back(d: &mut Decider<'_>, at: usize, output: &CallOutput) -> Option<Premises> {
    let premises = match output {
        _ if !is_due(d.state, at) => return None,
        CallOutput::Plan(out) => out.premises.clone().unwrap_or_default(),
        CallOutput::Research(_) => Premises::default(),
        _ => return None,
    };
    hold(d);
    Some(premises)
}

/// Nothing begins from here on.
pub(super) fn hold(d: &mut Decider<'_>) {
    if !d.state.node(0).paused {
        d.emit(0, NodePaused { author: String::new(), request_id: String::new(), in_flight: Vec::new() });
    }
}

/// Asks a person to look at the plan, unless it has led to the end of the run.
pub(crate) fn ask(d: &mut Decider<'_>, premises: Premises) {
    let has_ended = d.state.node(0).status.is_final();
    let Some(rule) = d.state.spec().review.filter(|_| !has_ended) else { return };
    hold(d);
    let estimate = Estimate::of(d.state.spec(), rule.per_call.as_ref());
    let goes_on_at = rule.goes_on_after_ms.map(|ms| d.now.plus_millis(ms));
    d.emit(0, ReviewRequested { review: Review { premises, estimate, goes_on_at } });
    d.emit(
        0,
        RunStatusChanged {
            status: RunStatus::Paused,
            reason: Some("review".into()),
            partial: false,
            goes_on_at: None,
        },
    );
}
