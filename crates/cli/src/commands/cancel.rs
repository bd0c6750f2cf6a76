//! `cancel`: ends a run.

use clap::Args;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::client::reconnect::Policy;
use crate::client::summary;
use crate::client::watch::{self, Update, Wanted};
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;

/// Cancel a run and wait until it has ended
///
/// Cancelling a run that has ended changes nothing.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs())]
    run: RunRef,
    /// Why; kept in the run's log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// Do not wait until the run has ended
    #[arg(long)]
    no_wait: bool,
}

impl Cancel {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let id = client.find_run(&self.run).await?;
        let message = pb::CancelRunRequest { run_id: id.to_wire(), reason: self.reason.clone() };
        let mut run = summary(client.ask(message).await?.run)?;
        if !run.status.is_final() && !self.no_wait {
            let mut updates =
                watch::spawn(client.clone(), id, Wanted::after(run.head_seq), Policy::default());
            while let Some(update) = updates.recv().await {
                if let Update::Ended(_) = update? {
                    break;
                }
            }
            run = client.run(id).await?;
        }
        context.out.done(&run, || match run.status.is_final() {
            true => format!("run {id} has ended: {}", run.status),
            false => format!("run {id} is being cancelled"),
        })?;
        Ok(Exit::Success)
    }
}
