//! `stop`: ends the work of a node.

use clap::Args;

use super::steer::{NodeArg, SteerArgs, Steered, framed};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Stop a node and combine the existing results
///
/// Calls in flight below it are stopped and nothing new begins there. Nodes that have finished children return a
/// partial result. The rest of the run goes on; stopping the root ends the run with what it has.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    node: NodeArg,
    /// Discard the existing results: the node and everything below it counts as cancelled
    #[arg(long)]
    discard: bool,
    #[command(flatten)]
    steer: SteerArgs,
}

impl Stop {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let steered = Steered::find(context, &self.node.run, Some(&self.node.node)).await?;
        let rest = if self.discard { "discarded" } else { "combined" };
        let done = format!("{} is stopped; the existing results are {rest}", steered.what());
        let message = framed!(StopNodeRequest { discard: self.discard });
        steered.give(&self.steer, "concerns", &done, message).await
    }
}
