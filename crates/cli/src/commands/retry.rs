//! `retry`: does an ended node again.

use clap::Args;

use super::set_budget::LimitArgs;
use super::steer::{NodeArg, SteerArgs, Steered, framed};
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Do an ended node again, with everything below it
///
/// The nodes above it put their results together again. To keep the children of a node, retry the leaf that failed. On
/// a run that has ended this makes a fork, which reuses everything else.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    node: NodeArg,
    /// What the node and everything below it is told
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    guidance: String,
    /// The model of the node and everything below it from now on
    #[arg(long, value_name = "MODEL", default_value = "", hide_default_value = true, add = complete::models())]
    model: String,
    #[command(flatten)]
    steer: SteerArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

impl Retry {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let steered = Steered::find(context, &self.node.run, Some(&self.node.node)).await?;
        let done = format!("{} is done again", steered.what());
        let message = framed!(RetryNodeRequest {
            guidance: self.guidance.clone(),
            model: self.model.clone(),
            budget: self.limits.subtree()
        });
        steered.give(&self.steer, "re-runs", &done, message).await
    }
}
