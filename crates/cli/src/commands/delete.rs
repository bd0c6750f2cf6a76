//! `delete`: hides a run.

use clap::Args;
use serde_json::json;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::confirm::confirmed;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;
use crate::view::paint::count;

/// Delete runs that have ended, with their documents
///
/// They are hidden from every command and from the UI at once. `tree-agent log prune` then removes them from the store.
/// On a terminal it asks; elsewhere --yes is needed.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The runs: their ids, the beginnings or ends of them, @latest, @2 and so on
    #[arg(value_name = "RUN", required = true, add = complete::runs())]
    runs: Vec<RunRef>,
    /// Delete without asking
    #[arg(short, long)]
    yes: bool,
}

impl Delete {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        // Before anything is deleted: with the first run gone, @2 would be another one.
        let mut ids = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            ids.push(client.find_run(run).await?);
        }
        let number = count(ids.len(), "run");
        let question = format!("Delete {number}, with the documents?");
        let without =
            format!("{number} would be deleted; there is no terminal to confirm it on: repeat with --yes");
        if !self.yes && !confirmed(&ids, &question, &without)? {
            context.out.warn("nothing was deleted");
            return Ok(Exit::Usage);
        }
        let mut list = context.out.list();
        for id in ids {
            client.ask(pb::DeleteRunRequest { run_id: id.to_wire() }).await?;
            list.push(&json!({"runId": id, "deleted": true}), || format!("run {id} deleted"))?;
        }
        list.finish()?;
        Ok(Exit::Success)
    }
}
