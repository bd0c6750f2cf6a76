//! Which role calls are due, and when to look again.

use tree_agent_contract::{RunStatus, Timestamp};

use crate::amounts::Amounts;
use crate::budgets;
use crate::call::CallKey;
use crate::in_flight::{CallInFlight, InFlight};
use crate::lease_time;
use crate::pacing;
use crate::state::State;

/// A call that was begun and has no input yet.
pub(crate) struct CallStart {
    /// Its node.
    pub(crate) at: usize,
    pub(crate) key: CallKey,
    pub(crate) allotted: Amounts,
    pub(crate) timeout_ms: u64,
}

/// Begins the calls that may be made now, at most `limit`. A paused or ended run has none.
pub(crate) fn begin_due(
    state: &State,
    in_flight: &mut InFlight,
    now: Timestamp,
    limit: usize,
) -> Vec<CallStart> {
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
            if !state.has_leases() {
                // Nor does any other call of this kind fit: they leave at least as much free.
                last = Some((kind, usize::MAX));
            }
            continue;
        };
        let control = state.control(at);
        let (node_id, attempt) = (state.node(at).id, control.attempt.max(1));
        let key = CallKey { node_id, kind, round: control.round(), attempt };
        let (before, tool_calls_before) = (control.spent, control.tool_calls);
        in_flight.begin(at, CallInFlight { key, allotted, before, tool_calls_before });
        let deadlines = budgets::deadlines(state).into_iter().chain(lease_time::deadlines_of(state, at));
        let left = deadlines.map(|(_, last)| last.millis_since(now)).min().unwrap_or(u64::MAX);
        let timeout_ms = state.budgets().call_timeout_ms.min(left.max(1));
        calls.push(CallStart { at, key, allotted, timeout_ms });
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
    // A paused run decides nothing about its budgets.
    let deadlines = budgets::deadlines(state).filter(|_| state.graph().status() != RunStatus::Paused);
    let of_run = deadlines.map(|times| (0, times));
    let of_leases = state.leased().filter_map(|at| Some((at, lease_time::deadlines(state, at)?)));
    let of_leases = of_leases.filter(|_| state.graph().status() != RunStatus::Paused);
    let next = |(at, (end, last))| if in_flight.is_overtime(at) { last } else { end };
    retries
        .into_iter()
        .chain(of_run.into_iter().chain(of_leases).map(next))
        .chain(pacing::next(state, in_flight))
        .chain(state.goes_on_at())
        .min()
}
