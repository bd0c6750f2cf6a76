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
    let due: Vec<usize> =
        in_flight.ready().filter(|&at| ready_at(state, in_flight, at).is_none_or(|t| t <= now)).collect();
    let mut free = budgets::free(state, in_flight, due.len());
    let mut calls = Vec::new();
    for at in due {
        if calls.len() == limit {
            return calls;
        }
        let control = state.control(at);
        let Some(kind) = control.needs else { continue };
        let Some(allotted) = free.allot(state, at, kind) else { continue };
        let (node_id, attempt) = (state.node(at).id, control.attempt.max(1));
        let key = CallKey { node_id, kind, round: control.round(), attempt };
        let (before, tool_calls_before) = (control.spent, control.tool_calls);
        in_flight.begin(at, CallInFlight { key, allotted, before, tool_calls_before });
        let left = budgets::deadlines(state).map_or(u64::MAX, |(_, last)| last.millis_since(now));
        let timeout_ms = state.budgets().call_timeout_ms.min(left.max(1));
        calls.push(Begun { at, key, allotted, timeout_ms });
    }
    in_flight.asked(now);
    calls
}

/// When a call may be due, a deadline passes or a waiting update may be handled; none if the run has ended.
pub(crate) fn next_wakeup(state: &State, in_flight: &InFlight) -> Option<Timestamp> {
    if state.is_final() {
        return None;
    }
    let times = in_flight.ready().filter_map(|at| ready_at(state, in_flight, at));
    let retries = times.filter(|t| in_flight.asked_at().is_none_or(|asked| *t > asked)).min();
    let deadline = budgets::deadlines(state).map(|(end, last)| if in_flight.overtime() { last } else { end });
    retries.into_iter().chain(deadline).chain(pacing::next(state, in_flight)).min()
}

/// When the call that the node at `at` needs may be made; none for at once.
fn ready_at(state: &State, in_flight: &InFlight, at: usize) -> Option<Timestamp> {
    state.control(at).retry_at.max(in_flight.unreachable_until(at))
}
