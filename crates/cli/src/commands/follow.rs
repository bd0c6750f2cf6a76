//! Following a run to its end: what `run` and `watch` have in common.

use std::path::Path;
use std::time::SystemTime;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::event::Event;
use tree_agent_contract::{RunId, RunStatus, Timestamp};
use tree_agent_engine::Graph;

use super::{doc, graph};
use crate::Context;
use crate::client::Client;
use crate::client::watch::{self, End, Policy, Update};
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::live::{FRAME, Live};
use crate::view::paint::{count, one_line};
use crate::view::tree::{Layout, tree};
use crate::view::{Line, lines};

/// This machine's clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// How following ended.
pub(crate) enum Followed {
    /// The run has ended.
    Ended(End),
    /// The user wants no more of it; the run goes on.
    Interrupted,
}

/// Shows `run` from the event after `after_seq` until it ends or `interrupt` is cancelled.
pub(crate) async fn follow(
    context: &Context,
    client: &Client,
    run: RunId,
    after_seq: u64,
    policy: Policy,
    interrupt: &CancellationToken,
) -> Result<Followed, CliError> {
    let mut screen = Screen::begin(context, client, run, after_seq).await?;
    let mut updates = watch::spawn(client.clone(), run, after_seq, policy);
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = interrupt.cancelled() => return Ok(Followed::Interrupted),
            update = updates.recv() => match update {
                Some(Ok(Update::Ended(end))) => {
                    screen.end()?;
                    return Ok(Followed::Ended(end));
                }
                Some(Ok(update)) => screen.show(context, update)?,
                Some(Err(error)) => return Err(error),
                None => return Err(CliError::Other("watching the run stopped without a reason".into())),
            },
            _ = frames.tick(), if matches!(screen, Screen::Tree { .. }) => screen.draw()?,
        }
    }
}

/// Where a followed run is shown.
enum Screen {
    /// One JSON object for each event.
    Json,
    /// One line for each event of note.
    Lines { graph: Graph },
    /// The tree, drawn in place.
    Tree { graph: Graph, live: Live, clock: Clock, notice: Option<String> },
}

impl Screen {
    async fn begin(context: &Context, client: &Client, run: RunId, after_seq: u64) -> Result<Self, CliError> {
        if context.out.is_jsonl() {
            return Ok(Screen::Json);
        }
        // What is shown needs the titles and states of before.
        let graph = match after_seq {
            0 => Graph::new(run),
            seq => Graph::from_snapshot(graph::fetch(client, run, Some(seq)).await?),
        };
        if context.out.can_draw() {
            let live = Live::begin(context.out.palette())?;
            return Ok(Screen::Tree { graph, live, clock: Clock::default(), notice: None });
        }
        Ok(Screen::Lines { graph })
    }

    fn show(&mut self, context: &Context, update: Update) -> Result<(), CliError> {
        match (self, update) {
            (Screen::Json, Update::Event(event)) => context.out.json(&event),
            (Screen::Lines { graph }, Update::Event(event)) => {
                apply(graph, &event)?;
                match lines::line(&event, graph, context.out.palette()) {
                    Some(line) => context.out.line(line),
                    None => Ok(()),
                }
            }
            (Screen::Tree { graph, clock, .. }, Update::Event(event)) => {
                clock.heard(event.timestamp);
                apply(graph, &event)
            }
            (Screen::Tree { notice, .. }, Update::Reconnecting { reason, .. }) => {
                *notice = Some(format!("connection lost ({}); trying again", one_line(&reason)));
                Ok(())
            }
            (Screen::Tree { notice, .. }, Update::Reconnected) => {
                *notice = None;
                Ok(())
            }
            (_, Update::Reconnecting { reason, pause }) => {
                let ms = pause.as_millis();
                context.out.note(format!("connection lost ({}); trying again in {ms} ms", one_line(&reason)));
                Ok(())
            }
            (_, Update::Reconnected) => {
                context.out.note("connected again");
                Ok(())
            }
            (_, Update::Ended(_)) => Ok(()),
        }
    }

    /// Draws the tree as it is, folded to fit the window.
    fn draw(&mut self) -> Result<(), CliError> {
        let Screen::Tree { graph, live, clock, notice } = self else { return Ok(()) };
        let (_, rows) = Live::window();
        let layout = Layout { height: Some(rows - 2), fold: true, now: clock.now() };
        let mut lines = tree(graph, &layout);
        lines.push(Line::note(notice.as_deref().unwrap_or("Ctrl-C leaves; the run is kept")));
        live.draw(&lines)
    }

    /// Leaves the last state of the tree on the terminal.
    fn end(&mut self) -> Result<(), CliError> {
        let Screen::Tree { graph, live, clock, .. } = self else { return Ok(()) };
        let (_, rows) = Live::window();
        live.draw(&tree(graph, &Layout { height: Some(rows - 1), fold: false, now: clock.now() }))
    }
}

fn apply(graph: &mut Graph, event: &Event) -> Result<(), CliError> {
    graph
        .apply(event)
        .map_err(|e| CliError::Other(format!("the server sent a log that does not add up: {e}")))
}

/// The server's clock as seen from here: the smallest difference between an event's time and its arrival is the
/// one with the least delay in it.
#[derive(Debug, Default)]
struct Clock {
    behind: Option<i64>,
}

impl Clock {
    fn heard(&mut self, at: Timestamp) {
        let behind = now().micros().saturating_sub(at.micros());
        self.behind = Some(self.behind.map_or(behind, |b| b.min(behind)));
    }

    fn now(&self) -> Timestamp {
        Timestamp(now().micros().saturating_sub(self.behind.unwrap_or(0)))
    }
}

/// What to do with the synthesis of a run that has ended.
pub(crate) enum Synthesis<'a> {
    /// Print it.
    Print,
    /// Write it to a file.
    Write(&'a Path),
    /// Say how to read it.
    Mention,
}

/// Says how the run ended, hands over its synthesis and names the exit code.
pub(crate) async fn conclude(
    context: &Context,
    client: &Client,
    run: RunId,
    end: &End,
    synthesis: Synthesis<'_>,
) -> Result<Exit, CliError> {
    let out = &context.out;
    let because = end.reason.as_deref().map(|r| format!(": {}", one_line(r))).unwrap_or_default();
    let exit = Exit::of_run(end.status);
    if end.status != RunStatus::Completed {
        out.note(format!("error: run {run} was not completed, it is {}{because}", end.status));
        if !end.partial && exit == Exit::RunFailed {
            return Ok(exit);
        }
    } else if end.partial {
        out.note(format!("note: the result is partial{because}"));
    }
    if out.is_jsonl() && !matches!(synthesis, Synthesis::Write(_)) {
        return Ok(exit);
    }
    let graph = graph::fetch(client, run, None).await?;
    let Some(root) = graph.nodes.first() else { return Ok(exit) };
    let primary = root.result.as_ref().and_then(|r| r.primary_artifact_id);
    let artifact = root
        .artifacts
        .iter()
        .find(|a| Some(a.artifact_id) == primary)
        .or_else(|| root.artifacts.iter().find(|a| a.is_primary));
    let id = artifact
        .and_then(|a| a.document_id)
        .or_else(|| root.result.as_ref().and_then(|r| r.document_ids.first().copied()));
    let summary = root.result.as_ref().map(|r| r.summary.clone());
    match (synthesis, id) {
        (Synthesis::Mention, Some(id)) => out.line(format!("synthesis: tree-agent doc {id}"))?,
        (Synthesis::Write(file), Some(id)) => {
            let (_, document) = doc::fetch(client, id).await?;
            std::fs::write(file, &document.body)
                .map_err(|source| CliError::Write { what: file.display().to_string(), source })?;
            let said = format!("synthesis written to {}", file.display());
            if out.is_jsonl() { out.note(said) } else { out.line(said)? }
        }
        (Synthesis::Print, Some(id)) => {
            let (_, document) = doc::fetch(client, id).await?;
            out.line("")?;
            doc::print_body(out, &document.body)?;
            out.line("")?;
        }
        (Synthesis::Write(_), None) => {
            out.note("note: the run has no synthesis document; nothing was written")
        }
        (Synthesis::Print | Synthesis::Mention, None) => {
            if let Some(summary) = summary {
                out.line(one_line(&summary))?;
            }
        }
    }
    if !out.is_jsonl() {
        let nodes = count(graph.nodes.len(), "node");
        out.line(format!("run {run} {} · {nodes} · {}", end.status, count(graph.seq as usize, "event")))?;
    }
    Ok(exit)
}
