//! Which role calls are due, and when to look again.

use tree_agent_contract::{RunStatus, Timestamp};

use crate::amounts::Amounts;
use crate::budgets;
use crate::call::CallKey;
use crate::in_flight::{CallInFlight, InFlight};
use crate::pacing;
use crate::state::State;

/// A call that was begun and has no input yet.
pub(crate) struct Begun {
    /// Its node.
    pub(crate) at: usize,
    pub(crate) key: CallKey,
    pub(crate) allotted: Amounts,
    pub(crate) timeout_ms: u64,
}

/// Begins the calls that may be made now, at most `limit`. A paused or ended run has none.
pub(crate) fn begin_due(state: &State, in_flight: &mut InFlight, now: Timestamp, limit: usize) -> Vec<Begun> {
    if state.graph().status() != RunStatus::Running {
        return Vec::new();
    }
    in_flight.ready_mut().move_on(now);
    let mut free = budgets::free(state, in_flight, in_flight.ready().due(now));
    let mut calls = Vec::new();
    let mut last = None;
    while calls.len() < limit
        && let Some((kind, at)) = in_flight.ready().next_due(last)
    {
        last = Some((kind, at));
        let Some(allotted) = free.allot(state, at, kind) else {
            // Nor does any other call of this kind fit: they leave at least as much free.
            last = Some((kind, usize::MAX));
            continue;
        };
        let control = state.control(at);
        let (node_id, attempt) = (state.node(at).id, control.attempt.max(1));
        let key = CallKey { node_id, kind, round: control.round(), attempt };
        let (before, tool_calls_before) = (control.spent, control.tool_calls);
        in_flight.begin(at, CallInFlight { key, allotted, before, tool_calls_before });
        let left = budgets::deadlines(state).map_or(u64::MAX, |(_, last)| last.millis_since(now));
        let timeout_ms = state.budgets().call_timeout_ms.min(left.max(1));
        calls.push(Begun { at, key, allotted, timeout_ms });
    }
    calls
}

/// How many calls are due. A budget may have no room for some of them.
pub(crate) fn due(state: &State, in_flight: &InFlight, now: Timestamp) -> usize {
    match state.graph().status() {
        RunStatus::Running => in_flight.ready().due(now),
        _ => 0,
    }
}

/// When a call may be due, a deadline passes or a waiting update may be handled; none if the run has ended.
pub(crate) fn next_wakeup(state: &State, in_flight: &InFlight) -> Option<Timestamp> {
    if state.is_final() {
        return None;
    }
    let retries = in_flight.ready().next_time();
    let deadline = budgets::deadlines(state).map(|(end, last)| if in_flight.overtime() { last } else { end });
    retries.into_iter().chain(deadline).chain(pacing::next(state, in_flight)).min()
}
