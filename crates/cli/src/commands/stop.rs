//! `stop`: ends the work of a node.

use clap::Args;
use tree_agent_proto::{Wire, v1 as pb};

use super::steer::{Frame, NodeArg, SteerArgs, SteeredRun};
use crate::Context;
use crate::client::request;
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
        let (steered, node) = SteeredRun::of_node(context, &self.node).await?;
        let rest = if self.discard { "discarded" } else { "combined" };
        let done = format!("node {node} is stopped; the existing results are {rest}");
        steered
            .give(&self.steer, Verb::Concerns, &done, |mut runs, frame| {
                let Frame { run_id, request_id, expected_seq, validate_only } = frame;
                let (node_id, discard) = (node.to_wire(), self.discard);
                let message =
                    pb::StopNodeRequest { run_id, node_id, discard, request_id, expected_seq, validate_only };
                async move { runs.stop_node(request(message)).await }
            })
            .await
    }
}
