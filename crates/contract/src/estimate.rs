//! The most that a run can use, computed from its budgets alone: an upper bound, shown before anything is spent.
//!
//! It counts what plans can hold. A step that is a guided search adds topics up to a limit of its own; these stay
//! within the budgets of the run.

use serde::{Deserialize, Serialize};

use crate::budget::Budgets;
use crate::limits;
use crate::run::{RunSpec, Strategy};
use crate::search::{PickerPolicy, SearchConfig};

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
    /// The executor when it researches a topic: its questions for the document and for the topics below. None if the
    /// service does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub research: Option<CallCost>,
}

impl RoleCosts {
    /// Of a model that uses no tokens and costs nothing.
    pub const FREE: Self = {
        let free = CallCost { tokens: 0, cost_micros: Some(0) };
        Self { plan: free, execute: free, aggregate: free, research: Some(free) }
    };

    /// Why the limit of the cost in `budgets` cannot hold for `model`; none if it can, or if there is no limit.
    pub fn unpriced(&self, budgets: &Budgets, model: &str) -> Option<String> {
        let limit = budgets.max_cost_micros?;
        let is_priced = |call: &CallCost| call.cost_micros.is_some();
        (![self.plan, self.execute, self.aggregate].iter().all(is_priced)).then(|| {
            format!(
                "the price of {model} is not known, so no cost is counted, and the limit of ${} cannot hold; limit its \
                 tokens, or add its price to TREE_AGENT_MODEL_TABLE",
                limit as f64 / 1e6
            )
        })
    }
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
    /// Researches of a guided search: calls of the executor with two questions each.
    #[serde(default)]
    pub research_calls: u64,
    /// Picks of a guided search: calls of the planner.
    #[serde(default)]
    pub pick_calls: u64,
    /// Verifications of the answer: calls of the aggregator.
    #[serde(default)]
    pub verify_calls: u64,
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

/// Role calls of a run, each until it is answered.
#[derive(Default)]
struct Calls {
    plan: u64,
    execute: u64,
    aggregate: u64,
    research: u64,
    pick: u64,
    verify: u64,
}

impl Calls {
    /// What `amount` of each call adds up to; none if that of a call that is made is not known.
    fn sum(&self, costs: &RoleCosts, attempts: u32, amount: impl Fn(CallCost) -> Option<u64>) -> Option<u64> {
        let each = [
            (self.plan, Some(costs.plan)),
            (self.execute, Some(costs.execute)),
            (self.aggregate, Some(costs.aggregate)),
            (self.research, costs.research),
            // A picker is a planner that sees no more than others.
            (self.pick, Some(costs.plan)),
            // A verifier is an aggregator that reads one answer.
            (self.verify, Some(costs.aggregate)),
        ];
        each.into_iter().filter(|(calls, _)| *calls > 0).try_fold(0_u64, |sum, (calls, cost)| {
            let all = calls.saturating_mul(attempts.into()).saturating_mul(amount(cost?)?);
            Some(sum.saturating_add(all))
        })
    }
}

impl Estimate {
    /// The bounds of a run. `costs` are those of its model, if it is known.
    pub fn of(spec: &RunSpec, costs: Option<&RoleCosts>) -> Self {
        let verified = spec.verify;
        match spec.strategy {
            Strategy::Search => Self::of_search(&spec.budgets, &spec.search(), verified, costs),
            Strategy::Tree => Self::of_tree(&spec.budgets, verified, costs),
            Strategy::Homework => Self::of_homework(&spec.budgets, verified, costs),
        }
    }

    /// The bounds that `budgets` set to a tree of plans, whose answer may be `verified`.
    pub fn of_tree(budgets: &Budgets, verified: bool, costs: Option<&RoleCosts>) -> Self {
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
        // It may plan, be it in vain, for each plan that the verification of its answer asks for.
        let is_verified_root = u64::from(verified && may_plan > 0);
        let calls = Calls {
            plan: may_plan.saturating_mul(plans),
            // Every node executes once. One with children may do so after a replan, and when that fails after each
            // further one.
            // A root that did its task itself may do so again for each plan that its verification asks for.
            execute: nodes
                .saturating_add(
                    may_have_children.max(is_verified_root).saturating_mul(plans.saturating_sub(2)),
                )
                .saturating_add(is_verified_root.min(plans - 1)),
            aggregate: may_have_children.saturating_mul(plans),
            // The root's answer to every plan.
            verify: if may_plan > 0 { plans * u64::from(verified) } else { u64::from(verified) },
            ..Calls::default()
        };
        Self::bounded(budgets, nodes, depth, calls, costs)
    }

    /// The bounds that `budgets` and its own limits set to a guided search.
    pub fn of_search(
        budgets: &Budgets,
        search: &SearchConfig,
        verified: bool,
        costs: Option<&RoleCosts>,
    ) -> Self {
        // Topics of the last level are listed but not researched. The first level always is, so there may be a second.
        let depth = search.max_depth.max(2);
        let most = u64::from(budgets.max_nodes);
        let (mut nodes, mut level, mut researched) = (1_u64, 1_u64, 1_u64);
        for below in 1..=depth {
            level = level.saturating_mul(limits::SEARCH_CHILDREN as u64);
            nodes = most.min(nodes.saturating_add(level));
            if search.researches(below) {
                researched = nodes;
            }
        }
        let reached = depth.min(u32::try_from(nodes - 1).unwrap_or(u32::MAX));
        let asks_for_picks = search.picker == PickerPolicy::Llm && search.researches(2);
        // At least one topic is of the first level, which is researched whole. A picker is asked once again for a path
        // that cannot be picked, and once for each folded branch above the topic.
        let picked = if asks_for_picks { researched.saturating_sub(2) } else { 0 };
        let calls = Calls {
            research: researched,
            pick: picked.saturating_mul(u64::from(depth)),
            aggregate: u64::from(search.synthesis && nodes > 1),
            verify: u64::from(verified && search.synthesis && nodes > 1),
            ..Calls::default()
        };
        Self::bounded(budgets, nodes, reached, calls, costs)
    }

    /// The bounds that `budgets` set to homework.
    pub fn of_homework(budgets: &Budgets, verified: bool, costs: Option<&RoleCosts>) -> Self {
        let iterations = u64::from(budgets.max_iterations);
        let tasks = iterations.saturating_mul(budgets.max_steps_per_band.into());
        let nodes = u64::from(budgets.max_nodes).min(tasks.saturating_add(1));
        // A verifier that wants more asks for another iteration, after which the answer is written again.
        let answers = if verified { iterations } else { 1 };
        let answers = if nodes > 1 { answers } else { 0 };
        let calls = Calls {
            // The planner is also asked after the last iteration, and before each further answer.
            plan: iterations.saturating_add(answers.max(1)),
            execute: nodes - 1,
            aggregate: answers,
            verify: if verified { answers } else { 0 },
            ..Calls::default()
        };
        Self::bounded(budgets, nodes, u32::from(nodes > 1), calls, costs)
    }

    fn bounded(budgets: &Budgets, nodes: u64, depth: u32, calls: Calls, costs: Option<&RoleCosts>) -> Self {
        let attempts = budgets.max_attempts;
        let tokens = costs.and_then(|costs| calls.sum(costs, attempts, |cost| Some(cost.tokens)));
        let cost_micros = costs.and_then(|costs| calls.sum(costs, attempts, |cost| cost.cost_micros));
        let bound = |limit: Option<u64>, sum: Option<u64>| limit.into_iter().chain(sum).min();
        let mut estimate = Self {
            nodes,
            depth,
            plan_calls: calls.plan,
            execute_calls: calls.execute,
            aggregate_calls: calls.aggregate,
            research_calls: calls.research,
            pick_calls: calls.pick,
            verify_calls: calls.verify,
            attempts,
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
        let estimate = Estimate::of_tree(&budgets, false, None);
        // Two plans of three steps: 1 + 6 + 36, of which the last cannot plan.
        assert_eq!((estimate.nodes, estimate.depth), (43, 2));
        assert_eq!(estimate.plan_calls, 7 * 2);
        assert_eq!((estimate.execute_calls, estimate.aggregate_calls), (43, 7 * 2));
        assert_eq!((estimate.tokens, estimate.cost_micros, estimate.tool_calls), (None, None, None));
        assert_eq!(estimate.unlimited, ["maxTokens", "maxCostMicros", "maxToolCalls"]);
        let cost = |tokens| CallCost { tokens, cost_micros: Some(tokens * 2) };
        let costs = RoleCosts { plan: cost(10), execute: cost(100), aggregate: cost(1), research: None };
        let estimate = Estimate::of_tree(&budgets, false, Some(&costs));
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
        let estimate = Estimate::of_tree(&budgets, false, Some(&RoleCosts::FREE));
        assert_eq!((estimate.tokens, estimate.cost_micros, estimate.tool_calls), (Some(0), Some(0), Some(3)));
        let unknown = CallCost { tokens: 1_000, cost_micros: None };
        let costs = RoleCosts { plan: unknown, execute: unknown, aggregate: unknown, research: None };
        let estimate = Estimate::of_tree(&budgets, false, Some(&costs));
        assert_eq!((estimate.tokens, estimate.cost_micros), (Some(500), Some(7)));
        let warning = costs.unpriced(&budgets, "lab:new").expect("the limit cannot hold");
        assert!(warning.starts_with("the price of lab:new is not known"), "{warning}");
        assert_eq!(costs.unpriced(&Budgets::default(), "lab:new"), None);
        assert_eq!(RoleCosts::FREE.unpriced(&budgets, "offline"), None);
        assert_eq!(estimate.unlimited, [""; 0]);
        let dear = Estimate::of_tree(&Budgets { max_cost_micros: None, ..budgets }, false, Some(&costs));
        assert_eq!((dear.cost_micros, dear.unlimited), (None, vec!["maxCostMicros".to_owned()]));
    }

    #[test]
    fn a_node_may_execute_after_each_replan_when_that_failed_before() {
        let calls = |max_replans_per_node| {
            let budgets = Budgets { max_nodes: 2, max_replans_per_node, ..Budgets::default() };
            Estimate::of_tree(&budgets, false, None).execute_calls
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
        let costs = RoleCosts { plan: huge, execute: huge, aggregate: huge, research: Some(huge) };
        let estimate = Estimate::of_tree(&wide, false, Some(&costs));
        assert_eq!((estimate.nodes, estimate.tokens), (1_000_000, Some(u64::MAX)));
        let one = Estimate::of_tree(&Budgets { max_nodes: 1, ..wide.clone() }, false, None);
        assert_eq!((one.nodes, one.depth, one.aggregate_calls, one.execute_calls), (1, 0, 0, 1));
        assert_eq!(one.plan_calls, 17, "the root is asked, though its plan would be cut to nothing");
        let flat = Estimate::of_tree(&Budgets { max_depth: 0, ..wide }, false, None);
        assert_eq!((flat.nodes, flat.plan_calls, flat.execute_calls, flat.aggregate_calls), (1, 0, 1, 0));
    }

    #[test]
    fn homework_is_bounded_by_its_iterations() {
        let budgets = Budgets { max_iterations: 3, max_steps_per_band: 4, ..Budgets::default() };
        let spec = RunSpec { strategy: Strategy::Homework, budgets, ..RunSpec::new("why?") };
        let calls = |spec: &RunSpec| {
            let estimate = Estimate::of(spec, None);
            (estimate.nodes, estimate.plan_calls, estimate.execute_calls, estimate.aggregate_calls)
        };
        assert_eq!((calls(&spec), Estimate::of(&spec, None).depth), ((13, 4, 12, 1), 1));
        let alone = Budgets { max_nodes: 1, ..spec.budgets.clone() };
        assert_eq!(calls(&RunSpec { budgets: alone, ..spec }), (1, 4, 0, 0));
    }

    #[test]
    fn a_search_is_bounded_by_its_topics() {
        let budgets = Budgets { max_nodes: 100, max_attempts: 2, ..Budgets::default() };
        let of = |search: &SearchConfig, costs| Estimate::of_search(&budgets, search, false, costs);
        let search = SearchConfig { max_depth: 4, synthesis: false, ..SearchConfig::default() };
        let estimate = of(&search, None);
        assert_eq!((estimate.nodes, estimate.depth, estimate.attempts), (100, 4, 2));
        // The root and one topic of the first level are not picked. A pick may be asked for on each of four levels.
        assert_eq!((estimate.research_calls, estimate.pick_calls), (100, 98 * 4));
        assert_eq!((estimate.plan_calls, estimate.execute_calls, estimate.aggregate_calls), (0, 0, 0));
        let cost = |tokens| CallCost { tokens, cost_micros: Some(tokens * 2) };
        let costs =
            RoleCosts { plan: cost(10), execute: cost(7), aggregate: cost(1_000), research: Some(cost(100)) };
        let tokens = |search: &SearchConfig| of(search, Some(&costs)).tokens;
        assert_eq!(tokens(&search), Some(2 * (100 * 100 + 98 * 4 * 10)));
        let breadth_first =
            SearchConfig { picker: PickerPolicy::BreadthFirst, synthesis: true, ..search.clone() };
        assert_eq!(of(&breadth_first, None).pick_calls, 0, "nobody is asked");
        assert_eq!(tokens(&breadth_first), Some(2 * (100 * 100 + 1_000)));
        let older = RoleCosts { research: None, ..costs };
        assert_eq!(of(&search, Some(&older)).unlimited, ["maxTokens", "maxCostMicros", "maxToolCalls"]);
        let spec = RunSpec {
            strategy: Strategy::Search,
            search: Some(Box::new(search.clone())),
            budgets: budgets.clone(),
            ..RunSpec::new("why?")
        };
        assert_eq!(Estimate::of(&spec, None), estimate);
    }

    #[test]
    fn a_search_does_not_research_its_last_level() {
        let budgets = Budgets { max_nodes: 1_000_000, ..Budgets::default() };
        let of = |max_depth, max_nodes| {
            let search = SearchConfig { max_depth, ..SearchConfig::default() };
            let estimate =
                Estimate::of_search(&Budgets { max_nodes, ..budgets.clone() }, &search, false, None);
            (estimate.nodes, estimate.depth, estimate.research_calls, estimate.pick_calls)
        };
        // The first level has a thousand topics at most. The last one is listed.
        assert_eq!(of(1, 1_000_000), (1_000_000, 2, 1_001, 0));
        assert_eq!(of(2, 1_000_000), (1_000_000, 2, 1_001, 0));
        assert_eq!(of(2, 500), (500, 2, 500, 0));
        assert_eq!(of(3, 1_000_000), (1_000_000, 3, 1_000_000, 999_998 * 3));
        assert_eq!(of(64, 1_000_000), (1_000_000, 64, 1_000_000, 999_998 * 64));
        assert_eq!(of(4, 1), (1, 0, 1, 0));
        assert_eq!(of(4, 3), (3, 2, 3, 4));
    }
}
