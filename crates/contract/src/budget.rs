//! Budgets of a run, and the limits that stop a tree from growing without end.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::error::{Checks, Invalid};
use crate::run::Strategy;

/// Maximum of children of one node.
const MAX_CHILDREN: u32 = 16_384;
/// Maximum of iterations of homework.
const MAX_ITERATIONS: u64 = 100;
/// Tokens, millionths of a dollar or tool calls of a budget.
const AMOUNT: RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Milliseconds of a budget.
const WALL_CLOCK_MS: RangeInclusive<u64> = 1_000..=2_592_000_000;
/// Iterations of homework if nobody says otherwise.
const DEFAULT_ITERATIONS: u32 = 5;

/// Other strategies than homework do not iterate, so logs of theirs need not say it.
const fn are_default_iterations(iterations: &u32) -> bool {
    *iterations == DEFAULT_ITERATIONS
}

/// Limits of one run. An event reports every limit that is reached. The run then returns what it has.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budgets {
    /// Deepest level of the tree; the root is level 0. A node at this depth is always a leaf. A search that carries out
    /// a step has at most as many levels. Default 4.
    pub max_depth: u32,
    /// Bands of one plan; further ones are cut off. Default 3.
    pub max_bands_per_plan: u32,
    /// Steps of one band; further ones are cut off. Default 4.
    pub max_steps_per_band: u32,
    /// Children of one node over all its plans. Default: as many as all its plans may have steps
    /// ([`Budgets::steps_of_all_plans`]), which is 24 for the other defaults.
    pub max_children_per_node: u32,
    /// Times that one node may plan again. Default 1.
    pub max_replans_per_node: u32,
    /// Iterations of homework. They take the place of replans and of the limit of children. Default 5.
    #[serde(skip_serializing_if = "are_default_iterations")]
    pub max_iterations: u32,
    /// Steps of one band that run in parallel. Default 4.
    pub max_parallel_steps: u32,
    /// Nodes of the run. Default 1,000.
    pub max_nodes: u32,
    /// Milliseconds from the start of the run. Default 1,800,000 (half an hour); of a search 21,600,000 (six hours).
    pub max_wall_clock_ms: u64,
    /// Attempts of one role call before its failure counts. Default 3.
    pub max_attempts: u32,
    /// Milliseconds that one role call may take. Default 300,000.
    pub call_timeout_ms: u64,
    /// Tokens in and out of the run; none means no limit.
    pub max_tokens: Option<u64>,
    /// Cost of the run in millionths of a US dollar; none means no limit.
    pub max_cost_micros: Option<u64>,
    /// Tool calls of the run; none means no limit.
    pub max_tool_calls: Option<u64>,
}

/// What a node and everything below it may use. What is absent has no limit of its own; of what is 0, nothing is free.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubtreeBudget {
    /// Tokens in and out.
    pub max_tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub max_cost_micros: Option<u64>,
    /// Tool calls.
    pub max_tool_calls: Option<u64>,
    /// Milliseconds from the moment when the node is created or reopened, pauses aside.
    pub max_wall_clock_ms: Option<u64>,
}

/// What one role call may use of the rest of the run's budgets. None means no limit.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allowance {
    /// Tokens in and out.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub cost_micros: Option<u64>,
    /// Tool calls; 0 means that no tool may be offered.
    pub tool_calls: Option<u64>,
}

/// A budget that is almost used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetLeft {
    /// Its key, such as `maxTokens`.
    pub budget: String,
    /// Its limit.
    pub limit: u64,
    /// What is left of it.
    pub left: u64,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            max_depth: 4,
            max_bands_per_plan: 3,
            max_steps_per_band: 4,
            max_children_per_node: 24,
            max_replans_per_node: 1,
            max_iterations: DEFAULT_ITERATIONS,
            max_parallel_steps: 4,
            max_nodes: 1_000,
            max_wall_clock_ms: 1_800_000,
            max_attempts: 3,
            call_timeout_ms: 300_000,
            max_tokens: None,
            max_cost_micros: None,
            max_tool_calls: None,
        }
    }
}

impl SubtreeBudget {
    /// True if it limits nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks every limit against its documented range. `field` is where the budget stands.
    pub fn check(&self, field: impl Display, c: &mut Checks) {
        c.require(!self.is_empty(), &field, || "must name at least one budget, or be left out".into());
        for (name, limit) in [
            ("maxTokens", self.max_tokens),
            ("maxCostMicros", self.max_cost_micros),
            ("maxToolCalls", self.max_tool_calls),
        ] {
            if let Some(limit) = limit {
                c.range(format_args!("{field}.{name}"), limit, 0..=*AMOUNT.end());
            }
        }
        if let Some(limit) = self.max_wall_clock_ms {
            c.range(format_args!("{field}.maxWallClockMs"), limit, WALL_CLOCK_MS);
        }
    }
}

impl Budgets {
    /// The defaults of a run with this strategy.
    pub fn of(strategy: Strategy) -> Self {
        match strategy {
            // A library of a thousand topics grows for hours.
            Strategy::Search => Self { max_wall_clock_ms: 21_600_000, ..Self::default() },
            Strategy::Tree | Strategy::Homework => Self::default(),
        }
    }

    /// The steps that all plans of one node may have together: bands × steps × (1 + replans). A smaller limit of
    /// children would leave nothing for another plan after a full one.
    pub fn steps_of_all_plans(&self) -> u32 {
        let plans = self.max_replans_per_node.saturating_add(1);
        let steps = self.max_bands_per_plan.saturating_mul(self.max_steps_per_band).saturating_mul(plans);
        steps.clamp(1, MAX_CHILDREN)
    }

    /// Milliseconds after the wall clock has run out for which aggregators are still waited for: as long as one call
    /// may take, but no longer than a fifth of the limit (10 s at least).
    pub fn grace_ms(&self) -> u64 {
        self.call_timeout_ms.min((self.max_wall_clock_ms / 5).max(10_000))
    }

    /// Checks every limit against its documented range.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut c = Checks::default();
        c.range("budgets.max_depth", self.max_depth.into(), 0..=64);
        c.range("budgets.max_bands_per_plan", self.max_bands_per_plan.into(), 1..=64);
        c.range("budgets.max_steps_per_band", self.max_steps_per_band.into(), 1..=256);
        c.range("budgets.max_children_per_node", self.max_children_per_node.into(), 1..=MAX_CHILDREN.into());
        c.range("budgets.max_replans_per_node", self.max_replans_per_node.into(), 0..=16);
        c.range("budgets.max_iterations", self.max_iterations.into(), 1..=MAX_ITERATIONS);
        c.range("budgets.max_parallel_steps", self.max_parallel_steps.into(), 1..=256);
        c.range("budgets.max_nodes", self.max_nodes.into(), 1..=1_000_000);
        c.range("budgets.max_wall_clock_ms", self.max_wall_clock_ms, WALL_CLOCK_MS);
        c.range("budgets.max_attempts", self.max_attempts.into(), 1..=20);
        c.range("budgets.call_timeout_ms", self.call_timeout_ms, 100..=86_400_000);
        for (field, value) in [
            ("budgets.max_tokens", self.max_tokens),
            ("budgets.max_cost_micros", self.max_cost_micros),
            ("budgets.max_tool_calls", self.max_tool_calls),
        ] {
            if let Some(value) = value {
                c.range(field, value, AMOUNT);
            }
        }
        c.finish()
    }
}
