//! `runs`: the runs of a server.

use clap::Args;
use tree_agent_contract::{RunStatus, RunSummary, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::Context;
use crate::client::request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::{Paint, count, fit, one_line};
use crate::view::tree::run_icon;
use crate::view::usage;

/// Columns of an objective in the list.
const OBJECTIVE: usize = 72;

/// List runs, newest first
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only runs with this status: queued, running, paused, completed, failed or cancelled (may be repeated)
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<RunStatus>,
    /// Only runs whose context names this project (name or id)
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Only runs whose objective contains this text, letter case aside
    #[arg(long, value_name = "TEXT", default_value = "")]
    objective: String,
    /// At most so many; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

impl Runs {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let project_id = match &self.project {
            None => String::new(),
            Some(key) => client.existing_project(key).await?.project_id,
        };
        let mut left = if self.limit == 0 { usize::MAX } else { self.limit };
        let mut page_token = String::new();
        let mut any = false;
        loop {
            let message = pb::ListRunsRequest {
                page_size: left.min(limits::PAGE_MAX) as u32,
                page_token,
                statuses: self.status.to_wire(),
                project_id: project_id.clone(),
                objective_contains: self.objective.clone(),
                ..Default::default()
            };
            let page = client
                .call(|| {
                    let (mut runs, message) = (client.runs(), message.clone());
                    async move { runs.list_runs(request(message)).await }
                })
                .await?;
            for run in page.runs.into_iter().take(left) {
                any = true;
                left -= 1;
                print(context, &RunSummary::from_wire(run)?)?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() || left == 0 {
                break;
            }
        }
        if !context.out.is_jsonl() {
            if !any {
                context.out.note("no runs; begin one with `tree-agent run OBJECTIVE`");
            } else if !page_token.is_empty() {
                context.out.note("there are more; see them all with --limit 0");
            }
        }
        Ok(Exit::Success)
    }
}

fn print(context: &Context, run: &RunSummary) -> Result<(), CliError> {
    if context.out.is_jsonl() {
        return context.out.json(run);
    }
    let palette = context.out.palette();
    let (icon, paint) = run_icon(run.status, run.partial);
    let partial = if run.partial { " (partial)" } else { "" };
    let created = run.created_at.to_string();
    let usage = usage::words(&run.usage).map(|used| format!("  {}", palette.paint(Paint::Dim, &used)));
    context.out.line(format!(
        "{}  {}  {}  {}{}  {}",
        run.run_id,
        palette.paint(Paint::Dim, created.get(..19).unwrap_or(&created)),
        palette.paint(paint, &format!("{icon} {}{partial}", run.status)),
        palette.paint(Paint::Dim, &count(run.node_count as usize, "node")),
        usage.unwrap_or_default(),
        fit(&one_line(&run.spec.objective), OBJECTIVE),
    ))
}
