//! `copy`: the same run again, perhaps with another context.

use std::path::PathBuf;

use clap::Args;
use tree_agent_contract::RunContext;
use tree_agent_model::Switch;
use tree_agent_proto::{Wire, v1 as pb};
use uuid::Uuid;

use super::follow::{Reconnect, answer, leave};
use super::run::{check_writable, context_of, created};
use crate::complete;
use crate::context::{Context, interrupt};
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;

/// Start a run again, perhaps with another context
///
/// The copy has the objective, the strategy, the model, the budgets and all options of the run, and names the run that
/// it copies. Without --project and --global it has its context, too. The run itself does not change.
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(value_name = "RUN", add = complete::runs())]
    run: RunRef,
    /// A project (name or id) that the copy may read; can be repeated
    #[arg(short, long, value_name = "PROJECT", add = complete::projects())]
    project: Vec<String>,
    /// Let the copy read every project
    #[arg(long, conflicts_with = "project")]
    global: bool,
    /// If the copy has no project: let it write into every project that you may edit
    #[arg(long, conflicts_with = "project")]
    write: bool,
    /// Whether the copy may call tools that write [default: as the run]
    #[arg(long, value_name = "on|off")]
    read_only: Option<Switch>,
    /// Write the answer to this file; a terminal also gets its first screen
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the id of the copy and leave it to the server
    #[arg(long, conflicts_with = "out")]
    detach: bool,
    #[command(flatten)]
    reconnect: Reconnect,
}

impl Copy {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        self.out.as_deref().map(check_writable).transpose()?;
        let client = context.connect().await?;
        let copied = client.find_run(&self.run).await?;
        let of_copy = match (self.global, self.project.is_empty()) {
            (true, _) => Some(RunContext::default()),
            (false, true) => None,
            (false, false) => Some(context_of(&client, &self.project).await?),
        };
        let message = pb::CreateRunRequest {
            copy_of: copied.to_wire(),
            context: of_copy.map(|context| context.to_wire()),
            read_only: self.read_only.map(|switch| switch == Switch::On),
            write: self.write.then_some(true),
            request_id: Uuid::new_v4().to_string(),
            ..Default::default()
        };
        let interrupt = interrupt()?;
        let run = created(context, client.ask(message).await?)?;
        let (policy, how) = (self.reconnect.policy(), (self.detach, self.out.as_deref()));
        let exit = answer(context, &client, &run, policy, how, &interrupt).await?;
        Ok(exit.unwrap_or_else(|| leave(context, run.run_id)))
    }
}
