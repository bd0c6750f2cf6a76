//! `rebuild`: makes everything that is derived from a log again.

use clap::Args;
use serde_json::json;
use tree_agent_maintenance::{MaintenanceError, Rebuilt, rebuild};

use super::store::{RunArgs, StoreArgs, failed};
use crate::Context;
use crate::cluster::chain;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::count;

/// Make the nodes, plans, artifacts and run rows of runs again from their logs, beside running services
#[derive(Debug, Args)]
pub(crate) struct Rebuild {
    #[command(flatten)]
    which: RunArgs,
    #[command(flatten)]
    store: StoreArgs,
}

impl Rebuild {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let store = self.store.open().await?;
        let mut exit = Exit::Success;
        for run in self.which.ids(&*store).await? {
            match rebuild(&*store, run).await {
                Ok(rebuilt) => print(context, &rebuilt)?,
                Err(MaintenanceError::Archived(_)) => {
                    context.out.note(format!("run {run}: archived, left alone"))
                }
                Err(MaintenanceError::Store(error)) => return Err(failed(error.into())),
                // One log that cannot be read must not keep the others from being mended.
                Err(error) => {
                    context.out.note(format!("run {run}: not rebuilt: {}", chain(&error)));
                    exit = Exit::Unsound;
                }
            }
        }
        Ok(exit)
    }
}

fn print(context: &Context, rebuilt: &Rebuilt) -> Result<(), CliError> {
    let Rebuilt { run_id, head_seq, differences } = *rebuilt;
    if context.out.is_jsonl() {
        return context.out.json(&json!({"runId": run_id, "seq": head_seq, "differences": differences}));
    }
    let found = if differences == 0 {
        "nothing differed".into()
    } else {
        format!("{} mended", count(differences, "difference"))
    };
    context.out.line(format!("run {run_id}: rebuilt up to event {head_seq}; {found}"))
}
