//! `pause` and `resume`.

use clap::Args;

use super::steer::{PartArg, SteerArgs, Steered, framed};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

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
        let message = framed!(PauseRunRequest { now: self.now });
        steered.give(&self.steer, "concerns", &done, message).await
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
        let message = framed!(ResumeRunRequest {});
        steered.give(&self.steer, "concerns", &done, message).await
    }
}
