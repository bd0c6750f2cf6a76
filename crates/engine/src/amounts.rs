//! What role calls use up: tokens, cost, tool calls.

use std::collections::BTreeMap;

use serde::Serialize;
use tree_agent_contract::role::CallKind;
use tree_agent_contract::{Budgets, SubtreeBudget};

/// Tokens, millionths of a dollar, tool calls.
pub(crate) type Amounts = [u64; 3];

/// The names of their budgets.
pub(crate) const NAMES: [&str; 3] = ["maxTokens", "maxCostMicros", "maxToolCalls"];
/// Index of tool calls. A role can still answer without them.
pub(crate) const TOOL_CALLS: usize = 2;

/// The limits of each; none where there is none.
pub(crate) type Limits = [Option<u64>; 3];

/// The limits of a run.
pub(crate) fn limits(budgets: &Budgets) -> Limits {
    [budgets.max_tokens, budgets.max_cost_micros, budgets.max_tool_calls]
}

/// The limits of a subtree.
pub(crate) fn of_subtree(budget: &SubtreeBudget) -> Limits {
    [budget.max_tokens, budget.max_cost_micros, budget.max_tool_calls]
}

/// What the log shows about the needs of calls.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Ledger {
    /// The largest use by one call of each role, over the calls that have ended.
    largest: BTreeMap<CallKind, Amounts>,
    /// Nodes with a plan that have not ended. Each needs an aggregator.
    owed: u32,
}

impl Ledger {
    /// A call has ended.
    pub(crate) fn ended(&mut self, kind: CallKind, spent: Amounts) {
        let largest = self.largest.entry(kind).or_default();
        largest.iter_mut().zip(spent).for_each(|(most, spent)| *most = (*most).max(spent));
    }

    /// One more node needs an aggregator.
    pub(crate) fn owe(&mut self) {
        self.owed += 1;
    }

    /// A node that needed an aggregator has ended.
    pub(crate) fn settle(&mut self) {
        self.owed -= 1;
    }

    /// Nodes that need an aggregator.
    pub(crate) fn owed(&self) -> u32 {
        self.owed
    }

    /// The largest use by one call of `kind`; none before the first has ended.
    pub(crate) fn largest(&self, kind: CallKind) -> Option<Amounts> {
        self.largest.get(&kind).copied()
    }
}
