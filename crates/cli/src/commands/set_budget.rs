//! `budget`: changes what a live run may use.

use std::time::Duration;

use clap::Args;
use tree_agent_proto::{Wire, v1 as pb};

use super::budget::micros;
use super::steer::{Frame, Helm, PartArg, SteerArgs};
use crate::Context;
use crate::client::request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::duration;
use crate::view::preview::Verb;

/// Change what a live run, or a part of it, may use
///
/// What is not named stays as it is. A limit that was used up and is raised lets the run go on; a limit below what is
/// used takes effect at once.
#[derive(Debug, Args)]
pub(crate) struct SetBudget {
    #[command(flatten)]
    part: PartArg,
    #[command(flatten)]
    limits: LimitArgs,
    /// Nodes of the run
    #[arg(long, value_name = "N", help_heading = "Budgets")]
    max_nodes: Option<u32>,
    /// Steps of one band that run at the same time
    #[arg(long, value_name = "N", help_heading = "Budgets")]
    max_parallel_steps: Option<u32>,
    #[command(flatten)]
    steer: SteerArgs,
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
}

impl SetBudget {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let change = pb::BudgetChange {
            max_tokens: self.limits.max_tokens,
            max_cost_micros: self.limits.max_cost,
            max_tool_calls: self.limits.max_tool_calls,
            max_wall_clock_ms: self.limits.max_wall_clock_ms(),
            max_nodes: self.max_nodes,
            max_parallel_steps: self.max_parallel_steps,
        };
        if change == pb::BudgetChange::default() {
            return Err(CliError::Usage(
                "there is nothing to change: name a limit, such as --max-tokens, --max-cost or --max-time"
                    .into(),
            ));
        }
        let (helm, node) = Helm::of_part(context, &self.part).await?;
        let done = format!("the budgets of {} are changed", helm.what(node));
        helm.give(&self.steer, Verb::Concerns, &done, |mut runs, frame| {
            let Frame { run_id, request_id, expected_seq, validate_only } = frame;
            let message = pb::SetBudgetRequest {
                run_id,
                node_id: node.map(|node| node.to_wire()).unwrap_or_default(),
                change: Some(change),
                request_id,
                expected_seq,
                validate_only,
            };
            async move { runs.set_budget(request(message)).await }
        })
        .await
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
}
