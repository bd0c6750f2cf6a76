//! `stop`: ends the work of a node.

use clap::Args;
use tree_agent_proto::v1 as pb;

use super::steer::{Frame, NodeArg, SteerArgs, Steered};
use crate::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::preview::Verb;

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
        let message = |frame: Frame| pb::StopNodeRequest {
            run_id: frame.run_id,
            node_id: frame.node_id,
            discard: self.discard,
            request_id: frame.request_id,
            expected_seq: frame.expected_seq,
            validate_only: frame.validate_only,
        };
        steered.give(&self.steer, Verb::Concerns, &done, message).await
    }
}
