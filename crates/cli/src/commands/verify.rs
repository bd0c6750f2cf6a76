//! `verify`: is a log what it must be, and do the tables say what it says?

use clap::Args;
use serde_json::json;
use tree_agent_maintenance::{Report, UnknownType, passages, verify};

use super::store::{RunArgs, StoreArgs, failed};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::List;
use crate::view::paint::count;
use crate::view::printable::one_line;

/// Check the logs of runs, and everything that is derived from them
///
/// Services can run at the same time. The exit code is 6 if something is wrong.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    which: RunArgs,
    #[command(flatten)]
    store: StoreArgs,
}

impl Verify {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let store = self.store.open().await?;
        let mut list = context.out.list();
        let (mut unsound, mut runs) = (0, 0);
        for run in self.which.ids(&*store).await? {
            let report = verify(&*store, run).await.map_err(failed)?;
            print(context, &mut list, &report)?;
            unsound += usize::from(!report.is_sound());
            runs += 1;
        }
        let documents = match self.which.all {
            true => passages(&*store, false).await.map_err(failed)?,
            false => Vec::new(),
        };
        for id in &documents {
            list.push(&json!({"documentId": id, "sound": false}), || {
                format!("document {id}: its passages are not what its text says; `tree-agent rebuild --all` mends them")
            })?;
        }
        list.finish()?;
        if runs != 1 && !context.out.is_json() {
            context.out.line(format!("{} checked, {unsound} unsound", count(runs, "run")))?;
        }
        Ok(if unsound == 0 && documents.is_empty() { Exit::Success } else { Exit::Unsound })
    }
}

fn print(context: &Context, list: &mut List<'_>, report: &Report) -> Result<(), CliError> {
    let Report { run_id, head_seq, archived, unknown, findings, more } = report;
    if context.out.is_json() {
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        return list.item(&json!({
            "runId": run_id, "seq": head_seq, "sound": report.is_sound(), "archived": archived,
            "findings": findings, "more": more, "canBeRebuilt": report.can_be_rebuilt(),
            "unknownType": unknown.as_ref().map(|event| json!({"seq": event.seq, "type": event.event_type})),
        }));
    }
    if *archived {
        return context.out.line(format!("run {run_id}: archived, nothing to check here"));
    }
    if let Some(UnknownType { seq, event_type }) = unknown {
        context.out.note(format!(
            "event {seq} of run {run_id} is of the type {event_type}, which this version does not know: from there on only \
             numbers and writers were checked"
        ));
    }
    if report.is_sound() {
        return context.out.line(format!("run {run_id}: sound, {}", count(*head_seq as usize, "event")));
    }
    context.out.line(format!("run {run_id}: {} wrong", count(findings.len() + more, "thing")))?;
    for finding in findings {
        context.out.line(format!("  {}", one_line(&finding.to_string())))?;
    }
    if *more > 0 {
        context.out.line(format!("  and {more} more"))?;
    }
    if report.can_be_rebuilt() {
        context.out.note(format!("the log itself is sound: `tree-agent rebuild {run_id}` repairs the rest"));
    }
    Ok(())
}
