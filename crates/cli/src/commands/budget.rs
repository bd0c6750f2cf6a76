//! What a run may use, as flags.

use std::time::Duration;

use clap::Args;
use tree_agent_proto::v1 as pb;

use crate::value::duration;

/// US dollars as millionths.
pub(super) fn micros(text: &str) -> Result<u64, String> {
    let dollars: f64 =
        text.trim().trim_start_matches('$').parse().map_err(|_| "is not a number of US dollars")?;
    let micros = (dollars * 1e6).round();
    match (1.0..=1e12).contains(&micros) {
        true => Ok(micros as u64),
        false => Err("must be from 0.000001 to 1000000 US dollars".into()),
    }
}

/// What a run may use, whatever its strategy is. A run that uses up a budget returns what it has.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Budgets")]
pub(super) struct BudgetArgs {
    /// Time from the start of the run, such as 10m or 1h30m [default: 30m, of a search 6h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_time: Option<Duration>,
    /// US dollars, such as 0.50 [default: no limit]
    #[arg(long, value_name = "DOLLARS", value_parser = micros)]
    max_cost: Option<u64>,
    /// Tokens, in and out [default: no limit]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_tokens: Option<u64>,
    /// Tool calls [default: no limit]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_tool_calls: Option<u64>,
    /// Nodes of the tree [default: 1000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_nodes: Option<u32>,
    /// Deepest level of the tree; the root is level 0. A search only lists the topics of this level [default: 4]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_depth: Option<u32>,
    /// Attempts at one role call before it counts as failed [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_attempts: Option<u32>,
    /// Time that one role call may take [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    call_timeout: Option<Duration>,
}

impl BudgetArgs {
    /// The budgets that were given for a run whose tree grows by plans, homework among them. The server fills in the
    /// rest: its defaults, or its maxima where those are lower.
    pub(super) fn of_plans(&self, plans: &PlanArgs) -> pb::Budgets {
        pb::Budgets {
            max_depth: self.max_depth,
            max_bands_per_plan: plans.max_bands_per_plan,
            max_steps_per_band: plans.max_steps_per_band,
            max_children_per_node: plans.max_children_per_node,
            max_replans_per_node: plans.max_replans_per_node,
            max_iterations: plans.max_iterations,
            max_parallel_steps: plans.max_parallel_steps,
            ..self.of_search()
        }
    }

    /// The budgets that were given for a search, whose depth is a limit of its own.
    pub(super) fn of_search(&self) -> pb::Budgets {
        let ms = |time: Option<Duration>| time.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
        pb::Budgets {
            max_nodes: self.max_nodes,
            max_wall_clock_ms: ms(self.max_time),
            max_attempts: self.max_attempts,
            call_timeout_ms: ms(self.call_timeout),
            max_tokens: self.max_tokens,
            max_cost_micros: self.max_cost,
            max_tool_calls: self.max_tool_calls,
            ..Default::default()
        }
    }

    /// The deepest level that was given.
    pub(super) const fn max_depth(&self) -> Option<u32> {
        self.max_depth
    }
}

/// The shape of a tree that grows by plans.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Budgets")]
pub(super) struct PlanArgs {
    /// Bands of one plan: groups of steps that are done one after the other [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_bands_per_plan: Option<u32>,
    /// Steps of one band, which run in parallel [default: 4]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_steps_per_band: Option<u32>,
    /// Children of one node over all its plans [default: bands × steps × (1 + replans)]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_children_per_node: Option<u32>,
    /// Times that one node may replan: plan again when it knows its results [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_replans_per_node: Option<u32>,
    /// Iterations of homework, whose tasks are the steps of one band [default: 5]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_iterations: Option<u32>,
    /// Steps of one band that run at the same time [default: 4]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_parallel_steps: Option<u32>,
}

impl PlanArgs {
    /// The first flag that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let of_tasks = [
            (self.max_steps_per_band, "--max-steps-per-band"),
            (self.max_parallel_steps, "--max-parallel-steps"),
            (self.max_iterations, "--max-iterations"),
        ];
        let given = of_tasks.into_iter().find_map(|(value, flag)| value.map(|_| flag));
        self.given_for_trees().or(given)
    }

    /// The first flag that was given and means nothing to homework.
    pub(super) fn given_for_trees(&self) -> Option<&'static str> {
        let given = [
            (self.max_bands_per_plan, "--max-bands-per-plan"),
            (self.max_children_per_node, "--max-children-per-node"),
            (self.max_replans_per_node, "--max-replans-per-node"),
        ];
        given.into_iter().find_map(|(value, flag)| value.map(|_| flag))
    }

    /// The iterations that were given.
    pub(super) const fn max_iterations(&self) -> Option<u32> {
        self.max_iterations
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tree_agent_contract::Budgets;
    use tree_agent_proto::Wire;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        budgets: BudgetArgs,
        #[command(flatten)]
        plans: PlanArgs,
    }

    fn given(flags: &[&str]) -> pb::Budgets {
        let program = Program::parse_from([&["x"], flags].concat());
        program.budgets.of_plans(&program.plans)
    }

    #[test]
    fn times_are_as_people_write_them() {
        let times = given(&["--max-time", "1h30m", "--call-timeout", "90s", "--max-cost", "$0.5"]);
        assert_eq!((times.max_wall_clock_ms, times.call_timeout_ms), (Some(5_400_000), Some(90_000)));
        assert_eq!(times.max_cost_micros, Some(500_000));
    }

    #[test]
    fn what_is_not_given_is_left_to_the_server() {
        assert_eq!(given(&[]), pb::Budgets::default());
        assert_eq!(given(&["--max-nodes", "3"]), pb::Budgets { max_nodes: Some(3), ..Default::default() });
    }

    #[test]
    fn children_follow_from_the_other_limits_unless_they_are_set() {
        let budgets = |flags: &[&str]| Budgets::from_wire(given(flags)).unwrap();
        let wide = ["--max-bands-per-plan", "2", "--max-steps-per-band", "10", "--max-replans-per-node", "2"];
        assert_eq!(budgets(&wide).max_children_per_node, 60);
        let set = [&wide[..], &["--max-children-per-node", "7"]].concat();
        assert_eq!(budgets(&set).max_children_per_node, 7);
    }
}
