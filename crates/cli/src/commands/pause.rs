//! `pause` and `resume`.

use clap::Args;
use tree_agent_proto::{Wire, v1 as pb};

use super::steer::{Frame, PartArg, SteerArgs, SteeredRun};
use crate::Context;
use crate::client::request;
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
        let (steered, node) = SteeredRun::of_part(context, &self.part).await?;
        let done = format!("{} is paused", steered.what(node));
        steered
            .give(&self.steer, Verb::Concerns, &done, |mut runs, frame| {
                let Frame { run_id, request_id, expected_seq, validate_only } = frame;
                let node_id = node.map(|node| node.to_wire()).unwrap_or_default();
                let now = self.now;
                let message =
                    pb::PauseRunRequest { run_id, node_id, now, request_id, expected_seq, validate_only };
                async move { runs.pause_run(request(message)).await }
            })
            .await
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
        let (steered, node) = SteeredRun::of_part(context, &self.part).await?;
        let done = format!("{} goes on", steered.what(node));
        steered
            .give(&self.steer, Verb::Concerns, &done, |mut runs, frame| {
                let Frame { run_id, request_id, expected_seq, validate_only } = frame;
                let node_id = node.map(|node| node.to_wire()).unwrap_or_default();
                let message =
                    pb::ResumeRunRequest { run_id, node_id, request_id, expected_seq, validate_only };
                async move { runs.resume_run(request(message)).await }
            })
            .await
    }
}
