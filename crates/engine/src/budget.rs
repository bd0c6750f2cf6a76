//! Budgets that role calls use up: tokens, money and tool calls; and the wall clock.
//!
//! A call is made only while it fits: what is used, what calls in flight may still use, what it may use itself, and
//! what is kept for aggregating must stay within the limit. What a call may use is its *allotment*: at least as much as
//! the largest call of its role in this run needed, and else an even share of what is free, so that calls side by side
//! do not starve each other. While something is left and nothing is in flight, one call is always made. So a budget is
//! exceeded by what calls in flight use beyond their allotments, and by nothing else.
//!
//! | used | what happens |
//! | --- | --- |
//! | 80 % | every role is told to finish, with the budget and what is left of it |
//! | the limit, less what aggregating needs (a fifth at the most) | `tree.budget_exhausted`: no new work; what exists is aggregated |
//! | the limit | also aggregators are not called any more: results are returned as they are |
//!
//! The wall clock stops leaf work at its limit; aggregators get as long as one call may take, a fifth of the limit (10 s
//! at least) at the most. Nodes and depth are never exceeded at all: plans are cut to them.

use std::collections::BTreeMap;

use serde::Serialize;
use tree_agent_contract::event::BudgetExhausted;
use tree_agent_contract::role::{RoleError, RoleErrorKind};
use tree_agent_contract::{Allowance, BudgetLeft, RunStatus, Timestamp};

use crate::call::CallKind;
use crate::decide::Deciding;
use crate::run::Run;

/// Tokens, millionths of a dollar, tool calls.
pub(crate) type Amounts = [u64; 3];

/// Their budgets' keys.
const NAMES: [&str; 3] = ["maxTokens", "maxCostMicros", "maxToolCalls"];
/// Place of tool calls, without which a role can still answer.
pub(crate) const TOOL_CALLS: usize = 2;
/// What a call is taken to need while none of its role has ended, or an eighth of the limit if that is less: a model's
/// answer with some context, at the price of a large model.
const UNSEEN: Amounts = [16_384, 50_000, 8];

/// What the log says about the needs of calls.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Ledger {
    /// Of the calls of each role that have ended, the most that one used.
    largest: BTreeMap<CallKind, Amounts>,
    /// Nodes with a plan that have not ended: each needs an aggregator.
    pub(crate) owed: u32,
}

impl Ledger {
    pub(crate) fn ended(&mut self, kind: CallKind, spent: Amounts) {
        let largest = self.largest.entry(kind).or_default();
        largest.iter_mut().zip(spent).for_each(|(most, spent)| *most = (*most).max(spent));
    }
}

/// What is free while the calls that are due are chosen.
pub(crate) struct Purse {
    /// None when no budget has a limit: then nothing needs to be counted.
    free: Option<Amounts>,
    /// No call is in flight.
    alone: bool,
    /// Calls in flight, and those that are due and have not been looked at.
    calls: u64,
}

impl Purse {
    /// The allotment of a call of `kind` for the node at `at`, or none while it does not fit.
    pub(crate) fn allot(&mut self, run: &Run, at: usize, kind: CallKind) -> Option<Amounts> {
        let Some(free) = self.free else { return Some([u64::MAX; 3]) };
        let calls = self.calls.max(1);
        self.calls = calls - 1;
        let (limits, reserve, keep) = (run.limits(), run.reserve(kind), run.keep(at, kind));
        let mut allotted = [u64::MAX; 3];
        for m in 0..3 {
            if limits[m].is_none() {
                continue;
            }
            let free = free[m].saturating_sub(keep[m]);
            let may_do_without = m == TOOL_CALLS && kind == CallKind::Aggregate;
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

impl Run {
    fn limits(&self) -> [Option<u64>; 3] {
        let budgets = &self.spec.budgets;
        [budgets.max_tokens, budgets.max_cost_micros, budgets.max_tool_calls]
    }

    fn used(&self) -> Amounts {
        let usage = self.graph.usage();
        [usage.tokens(), usage.cost_micros, usage.tool_calls]
    }

    /// What a call of `kind` is taken to need.
    fn reserve(&self, kind: CallKind) -> Amounts {
        let limits = self.limits();
        self.ledger.largest.get(&kind).copied().unwrap_or_else(|| {
            std::array::from_fn(|m| limits[m].map_or(0, |limit| UNSEEN[m].min(limit / 8).max(1)))
        })
    }

    /// What is kept for aggregating what exists: for every node with a plan the need of an aggregator, but not more
    /// than a fifth of the limit.
    fn kept(&self) -> Amounts {
        let (limits, reserve) = (self.limits(), self.reserve(CallKind::Aggregate));
        let owed = u64::from(self.ledger.owed);
        std::array::from_fn(|m| limits[m].map_or(0, |limit| owed.saturating_mul(reserve[m]).min(limit / 5)))
    }

    /// What a call for the node at `at` must leave free: new work what aggregating needs, and once the run is out of
    /// budget the aggregators below the root what the root's needs.
    fn keep(&self, at: usize, kind: CallKind) -> Amounts {
        match kind {
            CallKind::Aggregate if self.exhausted.is_some() && at != 0 => {
                let (limits, reserve) = (self.limits(), self.reserve(kind));
                std::array::from_fn(|m| limits[m].map_or(0, |limit| reserve[m].min(limit / 5)))
            }
            CallKind::Aggregate => [0; 3],
            CallKind::Plan | CallKind::Execute => self.kept(),
        }
    }

    /// What is free now, neither used nor allotted to a call in flight, for the `due` calls that could be made.
    pub(crate) fn purse(&self, due: usize) -> Purse {
        let (limits, calls) = (self.limits(), (due + self.in_flight.len()) as u64);
        if limits.iter().all(Option::is_none) {
            return Purse { free: None, alone: false, calls };
        }
        let mut taken = self.used();
        for (&at, flight) in &self.in_flight {
            let left = flight.left(self.control[at].spent);
            (0..3).for_each(|m| taken[m] = taken[m].saturating_add(left[m]));
        }
        let free = std::array::from_fn(|m| limits[m].unwrap_or(u64::MAX).saturating_sub(taken[m]));
        Purse { free: Some(free), alone: self.in_flight.is_empty(), calls }
    }

    /// An allotment as the role is told it.
    pub(crate) fn allowance(&self, allotted: Amounts) -> Allowance {
        let limits = self.limits();
        let told = |m: usize| limits[m].map(|_| allotted[m]);
        Allowance { tokens: told(0), cost_micros: told(1), tool_calls: told(TOOL_CALLS) }
    }

    /// The budget of which least is left, when that is a fifth or less. Nodes are the planner's business only.
    pub(crate) fn finish(&self, kind: CallKind, now: Timestamp) -> Option<BudgetLeft> {
        let budgets = &self.spec.budgets;
        let used = self.used();
        let metered = (0..3).filter_map(|m| Some((NAMES[m], self.limits()[m]?, used[m])));
        metered
            .chain([
                ("maxNodes", budgets.max_nodes.into(), self.planned_nodes.into()),
                ("maxWallClockMs", budgets.max_wall_clock_ms, self.elapsed(now)),
            ])
            .filter(|&(name, _, _)| name != "maxNodes" || kind == CallKind::Plan)
            .filter(|&(_, limit, used)| u128::from(used) * 5 >= u128::from(limit) * 4)
            // The first of equals, so that the answer does not depend on anything but the state.
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

    fn elapsed(&self, now: Timestamp) -> u64 {
        self.started_at.map_or(0, |t| now.millis_since(t))
    }

    /// When leaf work is stopped, and when aggregators are no longer waited for.
    pub(crate) fn deadlines(&self) -> Option<(Timestamp, Timestamp)> {
        let budgets = &self.spec.budgets;
        let end = self.started_at?.plus_millis(budgets.max_wall_clock_ms);
        Some((end, end.plus_millis(budgets.grace_ms())))
    }

    /// True when a call is wanted that is not in flight and would be new work.
    fn wants_work(&self) -> bool {
        let work = |at: &usize| matches!(self.control[*at].needs, Some(CallKind::Plan | CallKind::Execute));
        self.ready.iter().any(work)
    }

    /// A node whose aggregator must not be called any more, with the budget that forbids it. More is never left later,
    /// so waiting for calls in flight would not help.
    fn unaffordable(&self, now: Timestamp) -> Option<(usize, &'static str)> {
        let late = self.deadlines().is_some_and(|(_, last)| now >= last);
        let (limits, used) = (self.limits(), self.used());
        let needs = |at: &usize| self.control[*at].needs == Some(CallKind::Aggregate);
        let spent = |at: usize| {
            let keep = self.keep(at, CallKind::Aggregate);
            (0..TOOL_CALLS).find(|&m| limits[m].is_some_and(|limit| used[m].saturating_add(keep[m]) >= limit))
        };
        if late {
            let at = (0..self.control.len()).rev().find(needs)?;
            return Some((at, "maxWallClockMs"));
        }
        let mut waiting = self.ready.iter().copied().rev().filter(needs);
        waiting.find_map(|at| spent(at).map(|m| (at, NAMES[m])))
    }
}

impl Deciding<'_> {
    /// Trips a budget when one is used up: no new work starts, and what exists is aggregated for as long as there is
    /// something left for that.
    pub(crate) fn check_budgets(&mut self) {
        if self.run.graph.status() != RunStatus::Running {
            return;
        }
        let (limit, elapsed) = (self.run.spec.budgets.max_wall_clock_ms, self.run.elapsed(self.now));
        if self.run.exhausted.is_none() {
            if let Some(body) = self.tripped(limit, elapsed) {
                self.run.overtime = body.budget == "maxWallClockMs";
                self.emit(0, body);
                self.stop_starting(self.run.overtime);
            }
        } else if elapsed >= limit && !self.run.overtime {
            // Another budget left leaf work in flight alone; the wall clock does not.
            self.run.overtime = true;
            self.stop_starting(true);
        } else if self.run.wants_work() {
            // It was in flight when the budget was used up, and then its driver died.
            self.stop_starting(false);
        }
        while self.run.exhausted.is_some() && self.run.graph.status() == RunStatus::Running {
            let Some((at, budget)) = self.run.unaffordable(self.now) else { break };
            let error = RoleError::new(RoleErrorKind::Rejected, format!("the budget {budget} is used up"));
            self.settle_without_aggregator(at, &error);
        }
    }

    fn tripped(&self, wall_clock: u64, elapsed: u64) -> Option<BudgetExhausted> {
        let run = &*self.run;
        if elapsed >= wall_clock {
            let budget = "maxWallClockMs".into();
            return Some(BudgetExhausted { budget, limit: wall_clock, used: elapsed, reserved: 0 });
        }
        let (limits, used, kept) = (run.limits(), run.used(), run.kept());
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
        // What is kept for aggregating matters only when new work wants it.
        over([0; 3]).or_else(|| over(kept).filter(|_| run.wants_work()))
    }
}
