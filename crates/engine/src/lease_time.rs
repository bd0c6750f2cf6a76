//! The time of leases: it counts from when their nodes begin, without the spans for which the clock of the run stood
//! still.

use tree_agent_contract::Timestamp;

use crate::state::State;

/// Milliseconds since the node at `at`, which has a lease, began.
pub(crate) fn elapsed_of(state: &State, at: usize, now: Timestamp) -> u64 {
    let Some(since) = state.lease(at).and_then(|lease| lease.since) else { return 0 };
    now.millis_since(since).saturating_sub(state.steering().stood_still_ms_since(since, now))
}

/// When leaf work below the node at `at` is stopped because the time of its lease is over, and when nothing is waited
/// for any more. None if it has no such limit, has not begun, or the clock stands still.
pub(crate) fn deadlines(state: &State, at: usize) -> Option<(Timestamp, Timestamp)> {
    let lease = state.lease(at)?;
    let (since, limit) = (lease.since?, lease.limits.max_wall_clock_ms?);
    if state.steering().is_still() {
        return None;
    }
    let end = since.plus_millis(limit).plus_millis(state.steering().stood_still_ms_since(since, since));
    let grace = state.budgets().call_timeout_ms.min((limit / 5).max(10_000));
    Some((end, end.plus_millis(grace)))
}

/// The earliest of those of the leases of the node at `at` and of the nodes above.
pub(crate) fn deadlines_of(state: &State, at: usize) -> Option<(Timestamp, Timestamp)> {
    let leases = state.leases_of(at).into_iter();
    leases.filter_map(|at| deadlines(state, at)).min_by_key(|(_, last)| *last)
}

/// True if the time of the node at `at`, which has a lease, has run out.
pub(crate) fn is_late(state: &State, at: usize, now: Timestamp) -> bool {
    let limit = state.lease(at).and_then(|lease| lease.limits.max_wall_clock_ms);
    limit.is_some_and(|limit| elapsed_of(state, at, now) >= limit)
}
