//! `fork`: a run that goes on from any event of another one.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tree_agent_proto::{Wire, v1 as pb};
use uuid::Uuid;

use super::plan;
use super::set_budget::{LimitArgs, RunLimitArgs, change_of};
use super::steer::{RunArg, Steered};
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::count;
use crate::view::preview::Preview;
use crate::view::printable::one_line;

/// Changed documents that a dry run names.
const CHANGED: usize = 20;

/// Go on from any event of a run, in a run of its own
///
/// The fork shares the log of the run up to there and does what is asked for differently. What it shares is not done
/// again and costs nothing. Without --at it begins at the end of the log.
#[derive(Debug, Args)]
pub(crate) struct Fork {
    #[command(flatten)]
    run: RunArg,
    /// The fork shares at least the events up to this one; with the seq of a dry run the fork is the one that was shown
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// Tell a node and everything below it something; can be repeated
    #[arg(long, num_args = 2, value_names = ["NODE", "TEXT"], add = complete::nodes())]
    guide: Vec<String>,
    /// Do an ended node again, with everything below it; can be repeated
    #[arg(long, value_name = "NODE", add = complete::nodes())]
    retry: Vec<String>,
    /// Give a node another plan, from a file in the form that `plan show` prints; can be repeated
    #[arg(long, num_args = 2, value_names = ["NODE", "FILE"], add = complete::nodes())]
    plan: Vec<String>,
    /// The model of all calls from now on
    #[arg(short, long, value_name = "MODEL", add = complete::models())]
    model: Option<String>,
    /// The name of the fork in lists
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,
    /// Say what the fork would do, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Limit what a node and everything below it may use, such as max-tokens=40000,max-time=10m; can be repeated
    ///
    /// The limits are max-tokens, max-cost, max-tool-calls and max-time, in the form of the flags for the whole run.
    /// With --retry of the same node they are those of what it does again.
    #[arg(
        long,
        num_args = 2,
        value_names = ["NODE", "LIMITS"],
        help_heading = "Budgets",
        add = complete::nodes()
    )]
    budget: Vec<String>,
    #[command(flatten)]
    limits: RunLimitArgs,
}

impl Fork {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let steered = Steered::find(context, &self.run, None).await?;
        let message = pb::ForkRunRequest {
            run_id: steered.run.to_wire(),
            at_seq: self.at,
            edits: self.edits(&steered).await?,
            display_name: self.name.clone(),
            labels: Default::default(),
            request_id: Uuid::now_v7().to_string(),
            validate_only: self.dry_run,
        };
        let answer = steered.client.ask(message.clone()).await?;
        let out = &context.out;
        if self.dry_run {
            let found = answer.preview.unwrap_or_default();
            let preview = Preview { run_id: &message.run_id, preview: &found };
            if out.is_json() {
                let mut shown = serde_json::to_value(&preview).unwrap_or_default();
                shown["changedDocumentIds"] = json!(answer.changed_document_ids);
                shown["changedDocumentCount"] = json!(answer.changed_document_count);
                out.json(&shown)?;
                return Ok(Exit::Success);
            }
            preview.lines("re-runs").into_iter().try_for_each(|line| out.line(line))?;
            if answer.changed_document_count > 0 {
                let count = count(answer.changed_document_count as usize, "document");
                let have = if answer.changed_document_count == 1 { "has" } else { "have" };
                out.line(format!(
                    "note: {count} of its projects {have} changed since; the fork reads what is there today"
                ))?;
                answer
                    .changed_document_ids
                    .iter()
                    .take(CHANGED)
                    .try_for_each(|id| out.line(format!("  {}", one_line(id))))?;
                let more =
                    answer.changed_document_count as usize - answer.changed_document_ids.len().min(CHANGED);
                if more > 0 {
                    out.line(format!("  and {more} more"))?;
                }
            }
            if self.at.is_none() {
                out.note(format!("to fork at this event later, add --at {}", found.seq));
            }
            return Ok(Exit::Success);
        }
        let fork = &answer.fork_run_id;
        let json = json!({"runId": message.run_id, "requestId": message.request_id, "forkRunId": fork});
        out.done(&json, || format!("run {} goes on from run {}", one_line(fork), steered.run))?;
        if !out.is_json() {
            out.note(format!("watch it with `tree-agent watch {}`", one_line(fork)));
        }
        Ok(Exit::Success)
    }

    /// What the fork does differently. Budgets come first: where one is used up, nothing is reopened. What reopens
    /// nodes comes before guidance, which only open nodes take.
    async fn edits(&self, steered: &Steered<'_>) -> Result<Vec<pb::ForkEdit>, CliError> {
        use pb::fork_edit::Edit;
        let node_id = async |named: &str| {
            Ok::<_, CliError>(steered.client.find_node(steered.run, named).await?.to_wire())
        };
        let mut edits = Vec::new();
        if let Some(model) = &self.model {
            edits.push(Edit::Model(model.clone()));
        }
        if let Some(change) = self.limits.change() {
            edits.push(Edit::Budget(pb::BudgetEdit { node_id: String::new(), change: Some(change) }));
        }
        let mut again = Vec::new();
        for node in &self.retry {
            again.push(pb::RetryEdit { node_id: node_id(node).await?, ..Default::default() });
        }
        for pair in self.budget.chunks_exact(2) {
            let limits = LimitArgs::parse(&pair[1])
                .map_err(|why| CliError::Usage(format!("--budget {} {}: {why}", pair[0], pair[1])))?;
            let (node_id, budget) = (node_id(&pair[0]).await?, limits.subtree().unwrap_or_default());
            match again.iter_mut().find(|retry| retry.node_id == node_id) {
                Some(retry) => retry.budget = Some(budget),
                None => edits.push(Edit::Budget(pb::BudgetEdit { node_id, change: Some(change_of(budget)) })),
            }
        }
        for pair in self.plan.chunks_exact(2) {
            let plan = plan::from_file(&PathBuf::from(&pair[1]))?;
            edits.push(Edit::Plan(pb::NodePlanEdit { node_id: node_id(&pair[0]).await?, plan: Some(plan) }));
        }
        edits.extend(again.into_iter().map(Edit::Retry));
        for pair in self.guide.chunks_exact(2) {
            let node_id = node_id(&pair[0]).await?;
            edits.push(Edit::Guide(pb::GuideEdit { node_id, text: pair[1].clone(), subtree: true }));
        }
        Ok(edits.into_iter().map(|edit| pb::ForkEdit { edit: Some(edit) }).collect())
    }
}
