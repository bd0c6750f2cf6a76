//! Budgets of tokens, cost and tool calls, which role calls use up, and of the wall clock.
//!
//! A call is made only if it fits: the sum of what is used, what calls in flight may still use, what the call itself
//! may use and what is kept for aggregation must stay within the limit. What a call may use is its *allotment*. It is
//! at least as much as the largest call of its role in this run needed, and otherwise an even share of what is free,
//! so that parallel calls do not starve each other. If something is left and nothing is in flight, one call is always
//! made. So only calls in flight that use more than their allotment can exceed a budget.
//!
//! | used | what happens |
//! | --- | --- |
//! | 80 % | every role is told to finish, with the budget and what is left of it |
//! | the limit minus what aggregation needs (at most a fifth) | `tree.budget_exhausted`: no new work; existing results are aggregated |
//! | the limit | aggregators are not called any more either: results are returned unchanged |
//!
//! The wall clock stops leaf work at its limit. Aggregators then have as long as one call may take, but at most a fifth
//! of the limit (and at least 10 s). Nodes and depth never exceed their limits: plans are cut.

use tree_agent_contract::event::BudgetExhausted;
use tree_agent_contract::role::CallKind;
use tree_agent_contract::{Allowance, BudgetLeft, Timestamp};

use crate::amounts::{Amounts, NAMES, TOOL_CALLS, limits};
use crate::in_flight::InFlight;
use crate::state::State;

/// What is free while due calls are chosen.
pub(crate) struct FreeBudget {
    /// None if no budget has a limit; then nothing needs to be counted.
    free: Option<Amounts>,
    /// No call is in flight.
    alone: bool,
    /// Calls in flight, plus due calls that have not been considered yet.
    calls: u64,
}

/// What is neither used nor allotted to a call in flight, for the `due` calls that could be made now.
pub(crate) fn free(state: &State, in_flight: &InFlight, due: usize) -> FreeBudget {
    let (limits, flying) = (limits(state.budgets()), in_flight.calls());
    let (alone, calls) = (flying.len() == 0, (due + flying.len()) as u64);
    if limits.iter().all(Option::is_none) {
        return FreeBudget { free: None, alone: false, calls };
    }
    let mut taken = used(state);
    for (at, call) in flying {
        let left = call.left(state.control(at).spent);
        (0..3).for_each(|m| taken[m] = taken[m].saturating_add(left[m]));
    }
    let free = std::array::from_fn(|m| limits[m].unwrap_or(u64::MAX).saturating_sub(taken[m]));
    FreeBudget { free: Some(free), alone, calls }
}

impl FreeBudget {
    /// The allotment of a call of `kind` for the node at `at`, or none if it does not fit now.
    pub(crate) fn allot(&mut self, state: &State, at: usize, kind: CallKind) -> Option<Amounts> {
        let Some(free) = self.free else { return Some([u64::MAX; 3]) };
        let calls = self.calls.max(1);
        self.calls = calls - 1;
        let (limits, reserve, keep) = (limits(state.budgets()), reserve(state, kind), keep(state, at, kind));
        let mut allotted = [u64::MAX; 3];
        for m in 0..3 {
            if limits[m].is_none() {
                continue;
            }
            let free = free[m].saturating_sub(keep[m]);
            let may_do_without = m == TOOL_CALLS && kind.finishes();
            if free < reserve[m] && !may_do_without && !(self.alone && free > 0) {
                return None;
            }
            allotted[m] = free.min(reserve[m].max(free / calls));
        }
        self.alone = false;
        self.free = Some(std::array::from_fn(|m| free[m].saturating_sub(allotted[m])));
        Some(allotted)
    }
}

fn used(state: &State) -> Amounts {
    let usage = state.graph().usage();
    [usage.tokens(), usage.cost_micros, usage.tool_calls]
}

/// The expected need of a call of `kind`.
fn reserve(state: &State, kind: CallKind) -> Amounts {
    let (limits, unseen) = (limits(state.budgets()), state.behaviour().unseen);
    state.ledger().largest(kind).unwrap_or_else(|| {
        std::array::from_fn(|m| limits[m].map_or(0, |limit| unseen[m].min(limit / 8).max(1)))
    })
}

/// What is kept for aggregation: the need of one aggregator for every node with a plan, but at most a fifth of the limit.
fn kept(state: &State) -> Amounts {
    let (limits, reserve) = (limits(state.budgets()), reserve(state, CallKind::Aggregate));
    let owed = u64::from(state.ledger().owed());
    std::array::from_fn(|m| limits[m].map_or(0, |limit| owed.saturating_mul(reserve[m]).min(limit / 5)))
}

/// What a call for the node at `at` must leave free. New work must leave what aggregation needs. Once the run is out of
/// budget, the aggregators below the root must leave what the root's aggregator needs.
fn keep(state: &State, at: usize, kind: CallKind) -> Amounts {
    if !kind.finishes() {
        return kept(state);
    }
    if state.exhausted().is_none() || at == 0 {
        return [0; 3];
    }
    let (limits, reserve) = (limits(state.budgets()), reserve(state, kind));
    std::array::from_fn(|m| limits[m].map_or(0, |limit| reserve[m].min(limit / 5)))
}

/// An allotment in the form in which the role receives it.
pub(crate) fn allowance(state: &State, allotted: Amounts) -> Allowance {
    let limits = limits(state.budgets());
    let told = |m: usize| limits[m].map(|_| allotted[m]);
    Allowance { tokens: told(0), cost_micros: told(1), tool_calls: told(TOOL_CALLS) }
}

/// The budget with the smallest share left, if that is a fifth or less. The budget of nodes concerns only calls that
/// can create some.
pub(crate) fn finish(state: &State, kind: CallKind, now: Timestamp) -> Option<BudgetLeft> {
    let (budgets, used) = (state.budgets(), used(state));
    let metered = (0..3).filter_map(|m| Some((NAMES[m], limits(budgets)[m]?, used[m])));
    metered
        .chain([
            ("maxNodes", budgets.max_nodes.into(), state.planned_nodes().into()),
            ("maxWallClockMs", budgets.max_wall_clock_ms, elapsed(state, now)),
        ])
        .filter(|&(name, _, _)| name != "maxNodes" || kind.creates_nodes())
        .filter(|&(_, limit, used)| u128::from(used) * 5 >= u128::from(limit) * 4)
        // The first of equals, so that the answer depends only on the state.
        .min_by(|a, b| {
            let part = |&(_, limit, used): &(&str, u64, u64), other: u64| {
                u128::from(limit.saturating_sub(used)) * u128::from(other)
            };
            part(a, b.1).cmp(&part(b, a.1))
        })
        .map(|(budget, limit, used)| BudgetLeft {
            budget: budget.to_owned(),
            limit,
            left: limit.saturating_sub(used),
        })
}

/// Milliseconds since the run was taken up.
fn elapsed(state: &State, now: Timestamp) -> u64 {
    state.started_at().map_or(0, |t| now.millis_since(t))
}

/// True if the wall clock has run out.
pub(crate) fn is_late(state: &State, now: Timestamp) -> bool {
    elapsed(state, now) >= state.budgets().max_wall_clock_ms
}

/// When leaf work is stopped, and when the run stops waiting for aggregators.
pub(crate) fn deadlines(state: &State) -> Option<(Timestamp, Timestamp)> {
    let budgets = state.budgets();
    let end = state.started_at()?.plus_millis(budgets.max_wall_clock_ms);
    Some((end, end.plus_millis(budgets.grace_ms())))
}

/// True if a call is due that would be new work and is not in flight.
pub(crate) fn wants_work(in_flight: &InFlight) -> bool {
    in_flight.ready().nodes().any(|(_, kind)| !kind.finishes())
}

/// A node whose results must be put together without a call, with the budget that forbids it. What is left never grows,
/// so waiting for calls in flight would not help.
pub(crate) fn unaffordable(
    state: &State,
    in_flight: &InFlight,
    now: Timestamp,
) -> Option<(usize, &'static str)> {
    let late = deadlines(state).is_some_and(|(_, last)| now >= last);
    let (limits, used) = (limits(state.budgets()), used(state));
    let finishing = |at: &usize| state.control(*at).needs.filter(|kind| kind.finishes());
    if late {
        let at = (0..state.nodes().len()).rev().find(|at| finishing(at).is_some())?;
        return Some((at, "maxWallClockMs"));
    }
    in_flight.ready().nodes().rev().filter(|(_, kind)| kind.finishes()).find_map(|(at, kind)| {
        let keep = keep(state, at, kind);
        let over = |m: usize| limits[m].is_some_and(|limit| used[m].saturating_add(keep[m]) >= limit);
        (0..TOOL_CALLS).find(|&m| over(m)).map(|m| (at, NAMES[m]))
    })
}

/// The budget that is used up, if the log does not say so yet.
pub(crate) fn tripped(state: &State, in_flight: &InFlight, now: Timestamp) -> Option<BudgetExhausted> {
    if is_late(state, now) {
        return Some(BudgetExhausted {
            budget: "maxWallClockMs".into(),
            limit: state.budgets().max_wall_clock_ms,
            used: elapsed(state, now),
            reserved: 0,
        });
    }
    let (limits, used, kept) = (limits(state.budgets()), used(state), kept(state));
    let over = |reserved: Amounts| {
        (0..3).find_map(|m| {
            let limit = limits[m].filter(|&limit| used[m].saturating_add(reserved[m]) >= limit)?;
            Some(BudgetExhausted {
                budget: NAMES[m].into(),
                limit,
                used: used[m],
                reserved: limit.saturating_sub(used[m]),
            })
        })
    };
    // What is kept for aggregation matters only if new work needs it.
    over([0; 3]).or_else(|| over(kept).filter(|_| wants_work(in_flight)))
}
