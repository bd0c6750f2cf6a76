//! `watch`: a run, live, until it ends.

use std::time::Duration;

use clap::Args;
use tree_agent_contract::RunId;
use tree_agent_runtime::shutdown;

use super::follow::{Followed, Synthesis, conclude, follow};
use crate::Context;
use crate::client::watch::Policy;
use crate::error::CliError;
use crate::exit::Exit;

/// Watch a run until it ends, through restarts of the server; the exit code tells how it ended
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The run
    run: RunId,
    /// Begin after this event
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after_seq: u64,
    #[command(flatten)]
    patience: Patience,
}

/// How long to bear with a server that is away.
#[derive(Clone, Debug, Args)]
pub(crate) struct Patience {
    /// Seconds to go on trying when the connection is lost
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    give_up_after: u64,
}

impl Patience {
    pub(crate) fn policy(&self) -> Policy {
        Policy { give_up_after: Duration::from_secs(self.give_up_after), ..Policy::default() }
    }
}

impl Watch {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let interrupt = shutdown::signal()?;
        let client = context.connect().await?;
        let policy = self.patience.policy();
        match follow(context, &client, self.run, self.after_seq, policy, &interrupt).await? {
            Followed::Ended(end) => conclude(context, &client, self.run, &end, Synthesis::Mention).await,
            Followed::Interrupted => {
                context
                    .out
                    .note(format!("run {} goes on; continue with `tree-agent watch {}`", self.run, self.run));
                Ok(Exit::Interrupted)
            }
        }
    }
}
