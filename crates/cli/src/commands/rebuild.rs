//! `rebuild`: makes everything that is derived from a log again.

use clap::Args;
use serde_json::json;
use tree_agent_maintenance::{MaintenanceError, Rebuilt, passages, rebuild};

use super::store::{RunArgs, StoreArgs, failed};
use crate::cluster::chain;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::List;
use crate::view::paint::count;

/// Make everything that is derived from the logs of runs again
///
/// That is nodes, plans, artifacts and the rows of runs, and with --all the passages of documents. Services can run at
/// the same time.
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
        let mut list = context.out.list();
        let mut exit = Exit::Success;
        for run in self.which.ids(&*store).await? {
            match rebuild(&*store, run).await {
                Ok(rebuilt) => print(&mut list, &rebuilt)?,
                Err(MaintenanceError::Archived(_)) => {
                    context.out.note(format!("run {run}: archived, left alone"))
                }
                Err(MaintenanceError::Store(error)) => return Err(failed(error.into())),
                // A log that cannot be read must not keep the others from being repaired.
                Err(error) => {
                    context.out.warn(format!("run {run}: not rebuilt: {}", chain(&error)));
                    exit = Exit::Unsound;
                }
            }
        }
        if self.which.all {
            for id in passages(&*store, true).await.map_err(failed)? {
                list.push(&json!({"documentId": id}), || {
                    format!("document {id}: its passages are made anew")
                })?;
            }
        }
        list.finish()?;
        Ok(exit)
    }
}

fn print(list: &mut List<'_>, rebuilt: &Rebuilt) -> Result<(), CliError> {
    let Rebuilt { run_id, head_seq, differences } = *rebuilt;
    list.push(&json!({"runId": run_id, "seq": head_seq, "differences": differences}), || {
        let found = match differences {
            0 => "nothing differed".to_owned(),
            n => format!("{} repaired", count(n, "difference")),
        };
        format!("run {run_id}: rebuilt up to event {head_seq}; {found}")
    })
}
