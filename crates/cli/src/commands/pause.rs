//! `pause` and `resume`.

use clap::Args;
use tree_agent_proto::v1 as pb;

use super::steer::{Frame, PartArg, SteerArgs, Steered};
use crate::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::preview::Verb;

/// Pause a run, or a node with everything below it
///
/// From then on no role call begins there. Calls in flight go on, and what they lead to is recorded; with --now they
/// are stopped, and made again after the pause. The rest of the run goes on.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    part: PartArg,
    /// Stop calls in flight, too
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    steer: SteerArgs,
}

impl Pause {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let steered = Steered::find(context, &self.part.run, self.part.node.as_deref()).await?;
        let done = format!("{} is paused", steered.what());
        let message = |frame: Frame| pb::PauseRunRequest {
            run_id: frame.run_id,
            node_id: frame.node_id,
            now: self.now,
            request_id: frame.request_id,
            expected_seq: frame.expected_seq,
            validate_only: frame.validate_only,
        };
        steered.give(&self.steer, Verb::Concerns, &done, message).await
    }
}

/// Resume a run, or a node, that was paused
///
/// Resuming the run does not resume a node that was paused by itself.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    part: PartArg,
    #[command(flatten)]
    steer: SteerArgs,
}

impl Resume {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let steered = Steered::find(context, &self.part.run, self.part.node.as_deref()).await?;
        let done = format!("{} goes on", steered.what());
        let message = |frame: Frame| pb::ResumeRunRequest {
            run_id: frame.run_id,
            node_id: frame.node_id,
            request_id: frame.request_id,
            expected_seq: frame.expected_seq,
            validate_only: frame.validate_only,
        };
        steered.give(&self.steer, Verb::Concerns, &done, message).await
    }
}
