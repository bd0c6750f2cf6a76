//! `budget`: changes what a live run may use.

use std::time::Duration;

use clap::{Args, Parser};
use tree_agent_proto::v1 as pb;

use super::budget::micros;
use super::steer::{PartArg, SteerArgs, Steered, framed};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::duration;

/// Change what a live run, or a part of it, may use
///
/// What is not named stays as it is. A limit that was used up and is raised lets the run go on; a limit below what is
/// used takes effect at once.
#[derive(Debug, Args)]
pub(crate) struct SetBudget {
    #[command(flatten)]
    part: PartArg,
    #[command(flatten)]
    steer: SteerArgs,
    #[command(flatten)]
    limits: RunLimitArgs,
}

/// Limits that a run has.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Budgets")]
pub(super) struct RunLimitArgs {
    #[command(flatten)]
    limits: LimitArgs,
    /// Nodes of the run
    #[arg(long, value_name = "N")]
    max_nodes: Option<u32>,
    /// Steps of one band that run at the same time
    #[arg(long, value_name = "N")]
    max_parallel_steps: Option<u32>,
}

/// Limits that a run has, and that a part of it can have.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Budgets")]
pub(super) struct LimitArgs {
    /// Time, such as 10m or 1h30m: of a run from its start, of a node from when it begins; pauses do not count
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_time: Option<Duration>,
    /// US dollars, such as 0.50; none for no limit
    #[arg(long, value_name = "DOLLARS", value_parser = cost)]
    max_cost: Option<u64>,
    /// Tokens, in and out; none for no limit
    #[arg(long, value_name = "N", value_parser = number)]
    max_tokens: Option<u64>,
    /// Tool calls; none for no limit
    #[arg(long, value_name = "N", value_parser = number)]
    max_tool_calls: Option<u64>,
}

/// The word for no limit.
const NONE: &str = "none";

fn number(text: &str) -> Result<u64, String> {
    match text.trim() {
        NONE => Ok(0),
        text => match text.parse() {
            Ok(n @ 1..) => Ok(n),
            _ => Err("is neither a number from 1 on nor none, which means no limit".into()),
        },
    }
}

fn cost(text: &str) -> Result<u64, String> {
    if text.trim() == NONE { Ok(0) } else { micros(text) }
}

impl LimitArgs {
    fn max_wall_clock_ms(&self) -> Option<u64> {
        self.max_time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// The budget of a subtree; none if no limit was given.
    pub(super) fn subtree(&self) -> Option<pb::SubtreeBudget> {
        let budget = pb::SubtreeBudget {
            max_tokens: self.max_tokens,
            max_cost_micros: self.max_cost,
            max_tool_calls: self.max_tool_calls,
            max_wall_clock_ms: self.max_wall_clock_ms(),
        };
        (budget != pb::SubtreeBudget::default()).then_some(budget)
    }

    /// Limits as one value, such as `max-tokens=40000,max-time=10m`, under the names of the flags.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        #[derive(Parser)]
        #[command(no_binary_name = true, disable_help_flag = true)]
        struct Limits {
            #[command(flatten)]
            limits: LimitArgs,
        }
        let flags = text.split(',').map(|limit| format!("--{}", limit.trim()));
        let hint = "give max-tokens, max-cost, max-tool-calls or max-time, such as max-tokens=40000";
        let parsed = Limits::try_parse_from(flags).map_err(|error| {
            let words = error.to_string();
            let why = words.lines().next().unwrap_or_default().trim_start_matches("error: ");
            format!("{why}; {hint}")
        })?;
        if parsed.limits.subtree().is_none() {
            return Err(hint.to_owned());
        }
        Ok(parsed.limits)
    }
}

/// The limits of a subtree as a change of budgets.
pub(super) fn change_of(budget: pb::SubtreeBudget) -> pb::BudgetChange {
    pb::BudgetChange {
        max_tokens: budget.max_tokens,
        max_cost_micros: budget.max_cost_micros,
        max_tool_calls: budget.max_tool_calls,
        max_wall_clock_ms: budget.max_wall_clock_ms,
        ..Default::default()
    }
}

impl RunLimitArgs {
    /// The change of the budgets; none if no limit was given.
    pub(super) fn change(&self) -> Option<pb::BudgetChange> {
        let change = pb::BudgetChange {
            max_nodes: self.max_nodes,
            max_parallel_steps: self.max_parallel_steps,
            ..change_of(self.limits.subtree().unwrap_or_default())
        };
        (change != pb::BudgetChange::default()).then_some(change)
    }
}

impl SetBudget {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let Some(change) = self.limits.change() else {
            return Err(CliError::Usage(
                "there is nothing to change: name a limit, such as --max-tokens, --max-cost or --max-time"
                    .into(),
            ));
        };
        let steered = Steered::find(context, &self.part.run, self.part.node.as_deref()).await?;
        let done = format!("the budgets of {} are changed", steered.what());
        let message = framed!(SetBudgetRequest { change: Some(change) });
        steered.give(&self.steer, "concerns", &done, message).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_a_word() {
        assert_eq!([number("none"), number(" 7 ")], [Ok(0), Ok(7)]);
        assert_eq!([cost("none"), cost("$0.5")], [Ok(0), Ok(500_000)]);
        for wrong in ["0", "-1", "many", ""] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_of_a_node_are_one_value() {
        let limits = |text| LimitArgs::parse(text).map(|limits| limits.subtree());
        let all =
            limits("max-tokens=40000, max-cost=$0.5,max-time=10m,max-tool-calls=none").unwrap().unwrap();
        let expected = pb::SubtreeBudget {
            max_tokens: Some(40_000),
            max_cost_micros: Some(500_000),
            max_tool_calls: Some(0),
            max_wall_clock_ms: Some(600_000),
        };
        assert_eq!(all, expected);
        for (wrong, why) in [
            ("", "give max-tokens"),
            ("max-nodes=3", "unexpected argument '--max-nodes'"),
            ("max-tokens", "a value is required for '--max-tokens"),
            ("max-tokens=x", "is neither a number from 1 on nor none"),
            ("max-cost=x", "is not a number of US dollars"),
            ("max-time=5", "'--max-time"),
            ("max-tokens=1,max-tokens=2", "cannot be used multiple times"),
        ] {
            let error = limits(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
