//! Following a run to its end: what `run` and `watch` have in common.

mod clock;

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{NodeId, NodeStatus, RunId, RunStatus, RunSummary};
use tree_agent_engine::Graph;

use self::clock::ServerClock;
pub(crate) use self::clock::now;
use super::events::log_line;
use super::result::{self, RunResult};
use super::review;
use crate::client::Client;
use crate::client::reconnect::Policy;
use crate::client::watch::{self, End, Update, Wanted};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::screen::{FRAME, Live, window};
use crate::value::duration;
use crate::view::paint::{Palette, count};
use crate::view::printable::one_line;
use crate::view::tree::{Layout, tree};
use crate::view::{Line, lines, stopped};

/// How long to keep trying when the connection is lost.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reconnect {
    /// How long to keep trying when the connection is lost
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    give_up_after: Duration,
}

impl Reconnect {
    pub(crate) fn policy(&self) -> Policy {
        Policy { give_up_after: self.give_up_after, ..Policy::default() }
    }
}

/// How following ended.
pub(crate) enum Followed {
    /// The run has ended.
    Ended(End),
    /// The user left; the run continues.
    Interrupted,
}

/// Where the events of a run belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Events {
    /// They are what was asked for: stdout.
    Answer,
    /// They are progress, the synthesis is what was asked for: stderr.
    Progress,
    /// The same, as lines also where a tree could be drawn.
    Steps,
}

impl Events {
    fn palette(self, out: &Output) -> Palette {
        match self {
            Events::Answer => out.palette(),
            Events::Progress | Events::Steps => out.progress_palette(),
        }
    }

    fn print(self, out: &Output, line: &str) -> Result<(), CliError> {
        match self {
            Events::Answer => out.line(line),
            Events::Progress | Events::Steps => {
                out.note(line);
                Ok(())
            }
        }
    }
}

/// Shows the `wanted` events of `run` until it ends or `interrupt` is cancelled.
pub(crate) async fn follow(
    context: &Context,
    client: &Client,
    run: RunId,
    wanted: Wanted,
    policy: Policy,
    events: Events,
    interrupt: &CancellationToken,
) -> Result<Followed, CliError> {
    let mut screen = Screen::begin(context, client, run, &wanted, events).await?;
    let mut updates = watch::spawn(client.clone(), run, wanted, policy);
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
                Some(Ok(update)) => {
                    let review = review_at(&update).filter(|_| events != Events::Answer && review::can_ask(context));
                    screen.show(context, update)?;
                    if let Some(after_seq) = review {
                        screen.end()?;
                        // The question stands below the tree, and nothing is drawn over it.
                        drop(screen);
                        if !review::ask(context, client, run, interrupt).await? {
                            return Ok(Followed::Interrupted);
                        }
                        let wanted = Wanted { after_seq, ..Wanted::default() };
                        screen = Screen::begin(context, client, run, &wanted, events).await?;
                    }
                }
                Some(Err(error)) => return Err(error),
                None => return Err(CliError::Other("watching the run stopped without a reason".into())),
            },
            _ = frames.tick(), if matches!(screen, Screen::Tree { .. }) => screen.draw()?,
        }
    }
}

/// The event with which the run waits for a person.
fn review_at(update: &Update) -> Option<u64> {
    let Update::Event(event) = update else { return None };
    matches!(event.body, EventBody::ReviewRequested(_)).then_some(event.seq)
}

/// Where a followed run is shown.
enum Screen {
    /// Nowhere.
    None,
    /// On stdout, one JSON object for each event.
    Json,
    /// One line for each event of note.
    Lines { graph: Graph, events: Events },
    /// One line for each event, whatever it is: some events are left out, so that no tree can be made of them.
    Log { events: Events },
    /// On stderr, the tree, drawn in place.
    Tree {
        graph: Graph,
        live: Live,
        clock: ServerClock,
        notice: Option<String>,
        /// Nodes that have just delegated, and until when that is shown.
        delegated: Vec<(NodeId, Instant)>,
    },
}

/// Delegating takes no time. It is shown for this long, so that one can see it.
const DELEGATING: Duration = Duration::from_millis(600);
/// An event that arrives later than this, in milliseconds, is not shown as news.
const RECENT_MS: u64 = 5_000;

impl Screen {
    async fn begin(
        context: &Context,
        client: &Client,
        run: RunId,
        wanted: &Wanted,
        events: Events,
    ) -> Result<Self, CliError> {
        let out = &context.out;
        if out.is_jsonl() {
            return Ok(Screen::Json);
        }
        // With -o json the answer is one object at the end, so that events are progress for `watch` too.
        let events = if out.is_json() && events == Events::Answer { Events::Progress } else { events };
        let lines_are_piped = events == Events::Answer && !out.is_terminal();
        if out.is_quiet() && !lines_are_piped {
            return Ok(Screen::None);
        }
        if wanted.is_filtered() {
            return Ok(Screen::Log { events });
        }
        // What is shown needs the earlier titles and states.
        let graph = match wanted.after_seq {
            0 => Graph::new(run),
            seq => Graph::from_snapshot(client.graph(run, Some(seq)).await?),
        };
        if out.can_draw() && !lines_are_piped && events != Events::Steps {
            let live = Live::begin(out.progress_palette())?;
            let clock = ServerClock::default();
            return Ok(Screen::Tree { graph, live, clock, notice: None, delegated: Vec::new() });
        }
        Ok(Screen::Lines { graph, events })
    }

    fn show(&mut self, context: &Context, update: Update) -> Result<(), CliError> {
        let out = &context.out;
        match (self, update) {
            (Screen::Json, Update::Event(event)) => out.json(&event),
            (Screen::Lines { graph, events }, Update::Event(event)) => {
                apply(graph, &event)?;
                lines::line(&event, graph, events.palette(out))
                    .map_or(Ok(()), |line| events.print(out, &line))
            }
            (Screen::Log { events }, Update::Event(event)) => {
                events.print(out, &log_line(&event, events.palette(out)))
            }
            (Screen::Tree { graph, clock, delegated, .. }, Update::Event(event)) => {
                clock.heard(event.timestamp);
                let delegates = matches!(&event.body, EventBody::NodeStatusChanged(e) if e.status == NodeStatus::Delegating);
                // What an older log says is over.
                if delegates && now().millis_since(event.timestamp) < RECENT_MS {
                    delegated.push((event.node_id, Instant::now() + DELEGATING));
                }
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
                out.note(format!("connection lost ({}); trying again in {ms} ms", one_line(&reason)));
                Ok(())
            }
            (_, Update::Reconnected) => {
                out.note("connected again");
                Ok(())
            }
            (Screen::None, Update::Event(_)) | (_, Update::Ended(_)) => Ok(()),
        }
    }

    /// Draws the tree as it is, folded to fit the window.
    fn draw(&mut self) -> Result<(), CliError> {
        let Screen::Tree { graph, live, clock, notice, delegated } = self else { return Ok(()) };
        let (_, rows) = window();
        delegated.retain(|&(_, until)| Instant::now() < until);
        let delegating: Vec<NodeId> = delegated.iter().map(|&(node, _)| node).collect();
        let layout = Layout { height: Some(rows - 2), fold: true, now: clock.now(), delegating: &delegating };
        let mut lines = tree(graph, &layout);
        lines.push(Line::note(notice.as_deref().unwrap_or("Ctrl-C leaves; the run is kept")));
        Ok(live.draw(&lines)?)
    }

    /// Leaves the last state of the tree on the terminal.
    fn end(&mut self) -> Result<(), CliError> {
        let Screen::Tree { graph, live, clock, .. } = self else { return Ok(()) };
        let (_, rows) = window();
        let layout = Layout { height: Some(rows - 1), fold: false, now: clock.now(), delegating: &[] };
        Ok(live.draw(&tree(graph, &layout))?)
    }
}

fn apply(graph: &mut Graph, event: &Event) -> Result<(), CliError> {
    graph
        .apply(event)
        .map_err(|e| CliError::Other(format!("the server sent a log that does not add up: {e}")))
}

/// Follows a run that was just made and hands over its answer, on stdout or in the file `out`. With `detach` it is left
/// to the server. None if the user left; the run continues.
pub(crate) async fn answer(
    context: &Context,
    client: &Client,
    run: &RunSummary,
    policy: Policy,
    (detach, out): (bool, Option<&Path>),
    interrupt: &CancellationToken,
) -> Result<Option<Exit>, CliError> {
    let id = run.run_id;
    if detach {
        context.out.done(run, || id.to_string())?;
        return Ok(Some(Exit::Success));
    }
    match follow(context, client, id, Wanted::default(), policy, Events::Progress, interrupt).await? {
        Followed::Interrupted => Ok(None),
        Followed::Ended(end) => {
            let synthesis = out.map_or(Synthesis::Print, Synthesis::Write);
            conclude(context, client, id, &end, synthesis).await.map(Some)
        }
    }
}

/// Says that a run continues which the user has left.
pub(crate) fn leave(context: &Context, run: RunId) -> Exit {
    context.out.note(format!("run {run} continues; watch it again with `tree-agent watch {run}`"));
    Exit::Interrupted
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

/// Says how the run ended, hands over its synthesis and returns the exit code.
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
        out.warn(format!("error: run {run} did not complete: status {}{because}", end.status));
    } else if end.partial {
        let stopped = match end.reason.as_deref() {
            Some(reason) if reason.starts_with(stopped::BUDGET) => {
                stopped::words(&client.graph(run, None).await?, reason)
            }
            _ => None,
        };
        let because = stopped.map_or(because, |stopped| format!(": {stopped}"));
        out.warn(format!("note: the result is partial{because}"));
    }
    if out.is_jsonl() && !matches!(synthesis, Synthesis::Write(_)) {
        return Ok(exit);
    }
    let result = result::fetch(client, run).await?;
    match synthesis {
        _ if out.is_json() && !out.is_jsonl() => {
            if let Synthesis::Write(file) = synthesis {
                write(&result, file)?;
            }
            out.json(&result)?;
        }
        Synthesis::Mention if result.has_answer() => {
            out.note(format!("read the result with `tree-agent result {run}`"))
        }
        Synthesis::Mention => {}
        Synthesis::Write(file) if result.has_answer() => {
            write(&result, file)?;
            if out.is_terminal() && !out.is_quiet() {
                // The notes below it stay on the screen, too.
                result.print(out, window().1.saturating_sub(4))?;
            }
            out.note(format!("the whole answer is in {}", file.display()));
        }
        Synthesis::Write(_) => out.warn("note: the run has no synthesis; nothing was written"),
        Synthesis::Print if result.has_answer() => {
            if out.is_terminal() {
                out.line("")?;
            }
            result.print(out, usize::MAX)?;
            if out.is_terminal() {
                out.line("")?;
            }
        }
        Synthesis::Print => {}
    }
    if !out.is_json() {
        result.doubts().iter().for_each(|doubt| out.warn(doubt));
    }
    let summary = client.run(run).await?;
    let (nodes, events) = (summary.node_count as usize, summary.head_seq as usize);
    out.note(format!("run {run} {} · {} · {}", end.status, count(nodes, "node"), count(events, "event")));
    Ok(exit)
}

fn write(result: &RunResult, file: &Path) -> Result<(), CliError> {
    std::fs::write(file, result.answer())
        .map_err(|source| CliError::Write { what: file.display().to_string(), source })
}
