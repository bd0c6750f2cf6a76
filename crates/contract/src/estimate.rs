//! The most that a run can use, computed from its budgets alone: an upper bound, shown before anything is spent.

use serde::{Deserialize, Serialize};

use crate::budget::Budgets;

/// The most that one call of a role can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallCost {
    /// Tokens in and out.
    pub tokens: u64,
    /// Millionths of a US dollar; none when the model's price is unknown.
    pub cost_micros: Option<u64>,
}

/// The most that one call of each role can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleCosts {
    /// The planner.
    pub plan: CallCost,
    /// The executor.
    pub execute: CallCost,
    /// The aggregator.
    pub aggregate: CallCost,
}

impl RoleCosts {
    /// Of a model that uses no tokens and costs nothing.
    pub const FREE: Self = {
        let free = CallCost { tokens: 0, cost_micros: Some(0) };
        Self { plan: free, execute: free, aggregate: free }
    };
}

/// Upper bounds of a run. None means that nothing bounds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Nodes.
    pub nodes: u64,
    /// Levels of the tree below the root.
    pub depth: u32,
    /// Calls of the planner that are answered.
    pub plan_calls: u64,
    /// Calls of the executor that are answered or, after a replan, given up.
    pub execute_calls: u64,
    /// Calls of the aggregator that are answered.
    pub aggregate_calls: u64,
    /// Times that each of these calls can be made until it is answered.
    pub attempts: u32,
    /// Tokens in and out, every attempt included.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar, every attempt included.
    pub cost_micros: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
    /// Milliseconds until no new work starts.
    pub wall_clock_ms: u64,
    /// Milliseconds until the run has ended: aggregating what exists may take this long.
    pub ends_within_ms: u64,
    /// Budgets that would bound what nothing bounds now, such as `maxCostMicros`.
    pub unlimited: Vec<String>,
}

impl Estimate {
    /// The bounds that `budgets` set. `costs` are those of the run's model, if it is known.
    pub fn of(budgets: &Budgets, costs: Option<&RoleCosts>) -> Self {
        let plans = 1 + u64::from(budgets.max_replans_per_node);
        let of_one_plan = u64::from(budgets.max_bands_per_plan) * u64::from(budgets.max_steps_per_band);
        let children = u64::from(budgets.max_children_per_node).min(of_one_plan * plans);
        let most = u64::from(budgets.max_nodes);
        let (mut nodes, mut level, mut depth, mut may_plan) = (1, 1_u64, 0, 0);
        while depth < budgets.max_depth && nodes < most {
            may_plan = nodes;
            level = level.saturating_mul(children);
            nodes = most.min(nodes.saturating_add(level));
            depth += 1;
        }
        if depth < budgets.max_depth {
            // The limit of nodes is reached before that of levels: any node may plan, and a chain may still be deep.
            may_plan = nodes;
            depth = budgets.max_depth.min(u32::try_from(nodes - 1).unwrap_or(u32::MAX));
        }
        let may_have_children = may_plan.min(nodes - 1);
        let plan_calls = may_plan.saturating_mul(plans);
        let aggregate_calls = may_have_children.saturating_mul(plans);
        // Every node executes once. One with children may do so after a replan, and when that fails after each further
        // one.
        let execute_calls = nodes.saturating_add(may_have_children.saturating_mul(plans.saturating_sub(2)));
        let calls = [plan_calls, execute_calls, aggregate_calls];
        let sum = |each: [Option<u64>; 3]| {
            calls.iter().zip(each).try_fold(0_u64, |sum, (calls, each)| {
                let all = calls.saturating_mul(budgets.max_attempts.into()).saturating_mul(each?);
                Some(sum.saturating_add(all))
            })
        };
        let by_role = costs.map(|c| [c.plan, c.execute, c.aggregate]);
        let tokens = by_role.and_then(|c| sum(c.map(|c| Some(c.tokens))));
        let cost_micros = by_role.and_then(|c| sum(c.map(|c| c.cost_micros)));
        let bound = |limit: Option<u64>, sum: Option<u64>| limit.into_iter().chain(sum).min();
        let mut estimate = Self {
            nodes,
            depth,
            plan_calls,
            execute_calls,
            aggregate_calls,
            attempts: budgets.max_attempts,
            tokens: bound(budgets.max_tokens, tokens),
            cost_micros: bound(budgets.max_cost_micros, cost_micros),
            tool_calls: budgets.max_tool_calls,
            wall_clock_ms: budgets.max_wall_clock_ms,
            ends_within_ms: budgets.max_wall_clock_ms.saturating_add(budgets.grace_ms()),
            unlimited: Vec::new(),
        };
        for (name, bounded) in [
            ("maxTokens", estimate.tokens),
            ("maxCostMicros", estimate.cost_micros),
            ("maxToolCalls", estimate.tool_calls),
        ] {
            if bounded.is_none() {
                estimate.unlimited.push(name.to_owned());
            }
        }
        estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_tree_is_counted_level_by_level() {
        let budgets = Budgets {
            max_depth: 2,
            max_bands_per_plan: 1,
            max_steps_per_band: 3,
            max_children_per_node: 12,
            max_replans_per_node: 1,
            max_attempts: 2,
            ..Budgets::default()
        };
        let estimate = Estimate::of(&budgets, None);
        // Two plans of three steps: 1 + 6 + 36, of which the last cannot plan.
        assert_eq!((estimate.nodes, estimate.depth), (43, 2));
        assert_eq!(estimate.plan_calls, 7 * 2);
        assert_eq!((estimate.execute_calls, estimate.aggregate_calls), (43, 7 * 2));
        assert_eq!((estimate.tokens, estimate.cost_micros, estimate.tool_calls), (None, None, None));
        assert_eq!(estimate.unlimited, ["maxTokens", "maxCostMicros", "maxToolCalls"]);
        let cost = |tokens| CallCost { tokens, cost_micros: Some(tokens * 2) };
        let costs = RoleCosts { plan: cost(10), execute: cost(100), aggregate: cost(1) };
        let estimate = Estimate::of(&budgets, Some(&costs));
        let once = 14 * 10 + 43 * 100 + 14;
        assert_eq!((estimate.tokens, estimate.cost_micros), (Some(once * 2), Some(once * 4)));
        assert_eq!(estimate.unlimited, ["maxToolCalls"]);
    }

    #[test]
    fn the_smaller_of_budget_and_calls_bounds() {
        let budgets = Budgets {
            max_tokens: Some(500),
            max_cost_micros: Some(7),
            max_tool_calls: Some(3),
            ..Budgets::default()
        };
        let estimate = Estimate::of(&budgets, Some(&RoleCosts::FREE));
        assert_eq!((estimate.tokens, estimate.cost_micros, estimate.tool_calls), (Some(0), Some(0), Some(3)));
        let unknown = CallCost { tokens: 1_000, cost_micros: None };
        let costs = RoleCosts { plan: unknown, execute: unknown, aggregate: unknown };
        let estimate = Estimate::of(&budgets, Some(&costs));
        assert_eq!((estimate.tokens, estimate.cost_micros), (Some(500), Some(7)));
        assert_eq!(estimate.unlimited, [""; 0]);
        let dear = Estimate::of(&Budgets { max_cost_micros: None, ..budgets }, Some(&costs));
        assert_eq!((dear.cost_micros, dear.unlimited), (None, vec!["maxCostMicros".to_owned()]));
    }

    #[test]
    fn a_node_may_execute_after_each_replan_when_that_failed_before() {
        let calls = |max_replans_per_node| {
            let budgets = Budgets { max_nodes: 2, max_replans_per_node, ..Budgets::default() };
            Estimate::of(&budgets, None).execute_calls
        };
        // The root and its child once each, and the root again for every replan but the first.
        assert_eq!([0, 1, 2, 3].map(calls), [2, 2, 3, 4]);
    }

    #[test]
    fn the_node_budget_bounds_and_the_ends_of_the_ranges_do_not_overflow() {
        let wide = Budgets {
            max_depth: 64,
            max_bands_per_plan: 64,
            max_steps_per_band: 256,
            max_children_per_node: 16_384,
            max_replans_per_node: 16,
            max_nodes: 1_000_000,
            max_attempts: 20,
            ..Budgets::default()
        };
        let huge = CallCost { tokens: u64::MAX, cost_micros: Some(u64::MAX) };
        let costs = RoleCosts { plan: huge, execute: huge, aggregate: huge };
        let estimate = Estimate::of(&wide, Some(&costs));
        assert_eq!((estimate.nodes, estimate.tokens), (1_000_000, Some(u64::MAX)));
        let one = Estimate::of(&Budgets { max_nodes: 1, ..wide.clone() }, None);
        assert_eq!((one.nodes, one.depth, one.aggregate_calls, one.execute_calls), (1, 0, 0, 1));
        assert_eq!(one.plan_calls, 17, "the root is asked, though its plan would be cut to nothing");
        let flat = Estimate::of(&Budgets { max_depth: 0, ..wide }, None);
        assert_eq!((flat.nodes, flat.plan_calls, flat.execute_calls, flat.aggregate_calls), (1, 0, 1, 0));
    }
}
