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

use std::collections::BTreeMap;

use serde::Serialize;
use tree_agent_contract::event::BudgetExhausted;
use tree_agent_contract::role::{RoleError, RoleErrorKind};
use tree_agent_contract::{Allowance, BudgetLeft, RunStatus, Timestamp};

use crate::call::CallKind;
use crate::decide::Decider;
use crate::run::Run;

/// Tokens, millionths of a dollar, tool calls.
pub(crate) type Amounts = [u64; 3];

/// The names of their budgets.
const NAMES: [&str; 3] = ["maxTokens", "maxCostMicros", "maxToolCalls"];
/// Index of tool calls. A role can still answer without them.
pub(crate) const TOOL_CALLS: usize = 2;
/// The expected need of a call before the first call of its role has ended: a model's answer with some context, at the
/// price of a large model. If an eighth of the limit is less, that is used instead.
const UNSEEN: Amounts = [16_384, 50_000, 8];

/// What the log shows about the needs of calls.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Ledger {
    /// The largest use by one call of each role, over the calls that have ended.
    largest: BTreeMap<CallKind, Amounts>,
    /// Nodes with a plan that have not ended. Each needs an aggregator.
    pub(crate) owed: u32,
}

impl Ledger {
    pub(crate) fn ended(&mut self, kind: CallKind, spent: Amounts) {
        let largest = self.largest.entry(kind).or_default();
        largest.iter_mut().zip(spent).for_each(|(most, spent)| *most = (*most).max(spent));
    }
}

/// What is free while due calls are chosen.
pub(crate) struct FreeBudget {
    /// None if no budget has a limit; then nothing needs to be counted.
    free: Option<Amounts>,
    /// No call is in flight.
    alone: bool,
    /// Calls in flight, plus due calls that have not been considered yet.
    calls: u64,
}

impl FreeBudget {
    /// The allotment of a call of `kind` for the node at `at`, or none if it does not fit now.
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

    /// The expected need of a call of `kind`.
    fn reserve(&self, kind: CallKind) -> Amounts {
        let limits = self.limits();
        self.ledger.largest.get(&kind).copied().unwrap_or_else(|| {
            std::array::from_fn(|m| limits[m].map_or(0, |limit| UNSEEN[m].min(limit / 8).max(1)))
        })
    }

    /// What is kept for aggregation: the need of one aggregator for every node with a plan, but at most a fifth of the
    /// limit.
    fn kept(&self) -> Amounts {
        let (limits, reserve) = (self.limits(), self.reserve(CallKind::Aggregate));
        let owed = u64::from(self.ledger.owed);
        std::array::from_fn(|m| limits[m].map_or(0, |limit| owed.saturating_mul(reserve[m]).min(limit / 5)))
    }

    /// What a call for the node at `at` must leave free. New work must leave what aggregation needs. Once the run is
    /// out of budget, the aggregators below the root must leave what the root's aggregator needs.
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

    /// What is neither used nor allotted to a call in flight, for the `due` calls that could be made now.
    pub(crate) fn free_budget(&self, due: usize) -> FreeBudget {
        let (limits, calls) = (self.limits(), (due + self.in_flight.len()) as u64);
        if limits.iter().all(Option::is_none) {
            return FreeBudget { free: None, alone: false, calls };
        }
        let mut taken = self.used();
        for (&at, flight) in &self.in_flight {
            let left = flight.left(self.control[at].spent);
            (0..3).for_each(|m| taken[m] = taken[m].saturating_add(left[m]));
        }
        let free = std::array::from_fn(|m| limits[m].unwrap_or(u64::MAX).saturating_sub(taken[m]));
        FreeBudget { free: Some(free), alone: self.in_flight.is_empty(), calls }
    }

    /// An allotment in the form in which the role receives it.
    pub(crate) fn allowance(&self, allotted: Amounts) -> Allowance {
        let limits = self.limits();
        let told = |m: usize| limits[m].map(|_| allotted[m]);
        Allowance { tokens: told(0), cost_micros: told(1), tool_calls: told(TOOL_CALLS) }
    }

    /// The budget with the smallest share left, if that is a fifth or less. The budget of nodes concerns planners only.
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

    fn elapsed(&self, now: Timestamp) -> u64 {
        self.started_at.map_or(0, |t| now.millis_since(t))
    }

    /// When leaf work is stopped, and when the run stops waiting for aggregators.
    pub(crate) fn deadlines(&self) -> Option<(Timestamp, Timestamp)> {
        let budgets = &self.spec.budgets;
        let end = self.started_at?.plus_millis(budgets.max_wall_clock_ms);
        Some((end, end.plus_millis(budgets.grace_ms())))
    }

    /// True if a call is due that would be new work and is not in flight.
    fn wants_work(&self) -> bool {
        let work = |at: &usize| matches!(self.control[*at].needs, Some(CallKind::Plan | CallKind::Execute));
        self.ready.iter().any(work)
    }

    /// A node whose aggregator must not be called any more, with the budget that forbids it. What is left never grows,
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

impl Decider<'_> {
    /// Checks whether a budget is exhausted. Then no new work starts, and existing results are aggregated while
    /// something is left for that.
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
            // An earlier budget did not stop leaf work in flight; the wall clock does.
            self.run.overtime = true;
            self.stop_starting(true);
        } else if self.run.wants_work() {
            // It was in flight when the budget was exhausted, and then its driver died.
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
        // What is kept for aggregation matters only if new work needs it.
        over([0; 3]).or_else(|| over(kept).filter(|_| run.wants_work()))
    }
}
