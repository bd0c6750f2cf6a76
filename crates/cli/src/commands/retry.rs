//! `retry`: does an ended node again.

use clap::Args;
use tree_agent_proto::{Wire, v1 as pb};

use super::set_budget::LimitArgs;
use super::steer::{Frame, NodeArg, SteerArgs, SteeredRun};
use crate::client::request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::preview::Verb;
use crate::{Context, complete};

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
        let (steered, node) = SteeredRun::of_node(context, &self.node).await?;
        let done = format!("node {node} is done again");
        steered
            .give(&self.steer, Verb::Reruns, &done, |mut runs, frame| {
                let Frame { run_id, request_id, expected_seq, validate_only } = frame;
                let message = pb::RetryNodeRequest {
                    run_id,
                    node_id: node.to_wire(),
                    guidance: self.guidance.clone(),
                    model: self.model.clone(),
                    budget: self.limits.subtree(),
                    request_id,
                    expected_seq,
                    validate_only,
                };
                async move { runs.retry_node(request(message)).await }
            })
            .await
    }
}
