//! `retry`: does an ended node again.

use clap::Args;
use tree_agent_proto::v1 as pb;

use super::set_budget::LimitArgs;
use super::steer::{Frame, NodeArg, SteerArgs, Steered};
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
        let steered = Steered::find(context, &self.node.run, Some(&self.node.node)).await?;
        let done = format!("{} is done again", steered.what());
        let message = |frame: Frame| pb::RetryNodeRequest {
            run_id: frame.run_id,
            node_id: frame.node_id,
            guidance: self.guidance.clone(),
            model: self.model.clone(),
            budget: self.limits.subtree(),
            request_id: frame.request_id,
            expected_seq: frame.expected_seq,
            validate_only: frame.validate_only,
        };
        steered.give(&self.steer, Verb::Reruns, &done, message).await
    }
}
