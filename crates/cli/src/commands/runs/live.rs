//! `runs --watch`: the list as it changes.

use std::cmp::Reverse;
use std::collections::HashMap;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::{RunId, RunSummary};
use tree_agent_proto::v1 as pb;

use super::row::{EXPENDABLE, HEADERS, Names, cells};
use crate::client::Client;
use crate::client::reconnect::Policy;
use crate::client::watch_runs::{self, Change};
use crate::commands::follow::now;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::screen::{FRAME, Live, window};
use crate::view::paint::{Paint, Palette, fit};
use crate::view::printable::one_line;
use crate::view::table::Table;

/// Shows the runs that match `filter` as a `list` and how they change, until `interrupt` is cancelled.
pub(super) async fn watch(
    context: &Context,
    client: &Client,
    filter: pb::ListRunsRequest,
    mut list: List,
    policy: Policy,
    interrupt: &CancellationToken,
) -> Result<Exit, CliError> {
    let out = &context.out;
    if out.is_json() && !out.is_jsonl() {
        return Err(CliError::Usage("--watch has no end, which -o json would wait for; use -o jsonl".into()));
    }
    let draws = !out.is_json() && out.is_terminal() && out.can_draw();
    let mut screen = if draws { Some(Live::begin(out.progress_palette())?) } else { None };
    let mut changes = watch_runs::spawn(client.clone(), request(filter, list.limit), policy);
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = interrupt.cancelled() => return Ok(Exit::Interrupted),
            change = changes.recv() => match change {
                Some(Ok(change)) => {
                    if let Change::Added { run } | Change::Changed { run } = &change
                        && !out.is_json()
                    {
                        list.names.learn(client, std::slice::from_ref(&**run)).await?;
                    }
                    if screen.is_none() {
                        list.print(context, &change)?;
                    }
                    list.take(change);
                }
                Some(Err(error)) => return Err(error),
                None => return Err(CliError::Other("watching the list stopped without a reason".into())),
            },
            _ = frames.tick(), if screen.is_some() => {
                if let Some(live) = &mut screen {
                    live.draw_text(&list.lines(out.progress_palette()))?;
                }
            }
        }
    }
}

fn request(filter: pb::ListRunsRequest, limit: usize) -> pb::WatchRunsRequest {
    pb::WatchRunsRequest {
        page_size: u32::try_from(limit).unwrap_or(u32::MAX).min(1_000),
        resume_token: String::new(),
        statuses: filter.statuses,
        project_id: filter.project_id,
        objective_contains: filter.objective_contains,
        user_id: filter.user_id,
        created_after: filter.created_after,
        created_before: filter.created_before,
        labels: filter.labels,
        model: filter.model,
        strategies: filter.strategies,
        id_part: filter.id_part,
        copy_of: filter.copy_of,
        parent_run_id: filter.parent_run_id,
        global: filter.global,
    }
}

/// The list as it is now.
pub(super) struct List {
    runs: HashMap<RunId, RunSummary>,
    names: Names,
    limit: usize,
    /// What is said if it is empty.
    nothing: String,
    /// All runs that there were at the beginning are in it.
    is_whole: bool,
    /// The names of the columns have been printed.
    has_headers: bool,
    notice: Option<String>,
}

impl List {
    /// A list of the newest `limit` runs. `nothing` is said while it is empty.
    pub(super) fn new(limit: usize, nothing: String) -> Self {
        let (runs, names, is_whole, has_headers, notice) = Default::default();
        Self { runs, names, limit, nothing, is_whole, has_headers, notice }
    }

    /// Prints one change where nothing can be drawn.
    fn print(&mut self, context: &Context, change: &Change) -> Result<(), CliError> {
        let out = &context.out;
        match change {
            Change::CaughtUp if self.runs.is_empty() && !self.is_whole => out.note(&self.nothing),
            Change::CaughtUp => {}
            Change::Reconnecting(reason) => {
                out.note(format!("connection lost ({}); trying again", one_line(reason)));
            }
            change if out.is_json() => out.json(change)?,
            Change::Removed { run_id } => out.line(format!("{run_id} removed"))?,
            Change::Added { run } | Change::Changed { run } => {
                let mut table = Table::new(HEADERS);
                table.push(cells(run, &self.names, now(), false));
                let headers = usize::from(std::mem::replace(&mut self.has_headers, true));
                let mut lines = table.render(out.palette(), usize::MAX).into_iter().skip(headers);
                lines.try_for_each(|line| out.line(line))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Reconnecting(reason) => {
                self.notice = Some(format!("connection lost ({}); trying again", one_line(&reason)));
                return;
            }
            Change::Added { run } | Change::Changed { run } => {
                self.runs.insert(run.run_id, *run);
            }
            Change::Removed { run_id } => {
                self.runs.remove(&run_id);
            }
            Change::CaughtUp => self.is_whole = true,
        }
        self.notice = None;
    }

    /// The lines that fit the window, newest first.
    fn lines(&self, palette: Palette) -> Vec<String> {
        let (columns, rows) = window();
        let mut runs: Vec<&RunSummary> = self.runs.values().collect();
        runs.sort_by_key(|run| Reverse((run.created_at, run.run_id)));
        let mut table = Table::new(HEADERS);
        for run in runs.into_iter().take(self.limit.min(rows.saturating_sub(3))) {
            table.push(cells(run, &self.names, now(), true));
        }
        let columns = columns.saturating_sub(1);
        let mut lines = table.render_within(palette, columns, EXPENDABLE);
        let last = self.notice.clone().unwrap_or_else(|| match lines.len() {
            0 if self.is_whole => format!("{}; Ctrl-C ends", self.nothing),
            0 => "asking for the list; Ctrl-C ends".to_owned(),
            _ => "Ctrl-C ends".to_owned(),
        });
        lines.push(palette.paint(Paint::Dim, &fit(&last, columns)));
        lines
    }
}
