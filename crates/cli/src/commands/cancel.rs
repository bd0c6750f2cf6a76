//! `cancel`: ends a run.

use clap::Args;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::client::reconnect::Policy;
use crate::client::watch::{self, Update, Wanted};
use crate::client::{request, summary};
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;
use crate::{Context, complete};

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
        let answer = client
            .call(|| {
                let mut runs = client.runs();
                let message = pb::CancelRunRequest { run_id: id.to_wire(), reason: self.reason.clone() };
                async move { runs.cancel_run(request(message)).await }
            })
            .await?;
        let mut run = summary(answer.run)?;
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
        if context.out.is_json() {
            context.out.json(&run)?;
        } else if run.status.is_final() {
            context.out.line(format!("run {} has ended: {}", run.run_id, run.status))?;
        } else {
            context.out.line(format!("run {} is being cancelled", run.run_id))?;
        }
        Ok(Exit::Success)
    }
}
