//! `review`: what a run that waits for a person rests on, and how it goes on.

use std::io::{self, IsTerminal};

use clap::Args;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::graph::GraphSnapshot;
use tree_agent_contract::{Estimate, Review, RunId, limits};
use tree_agent_proto::{Wire, v1 as pb};

use super::steer::{RunArg, SteerArgs, Steered, framed};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::{count, duration};
use crate::view::printable::one_line;
use crate::view::usage::{dollars, grouped};

/// Titles of steps or topics that are shown.
const TITLES: usize = 40;
/// How the guidance begins that strikes an assumption.
const STRIKES: &str = "Do not assume this: ";

/// Look at the plan of a run that was started with --review, and start it
///
/// Without an option it prints the plan, what it assumes and leaves out, and what the run can use at most. A struck
/// assumption becomes guidance for every node. `tree-agent plan edit RUN NODE` edits the plan.
#[derive(Debug, Args)]
pub(crate) struct ReviewCommand {
    #[command(flatten)]
    run: RunArg,
    /// Strike this assumption: nothing may rest on it; can be repeated
    #[arg(long, value_name = "NUMBER")]
    strike: Vec<usize>,
    /// Start the run
    #[arg(long)]
    start: bool,
}

impl ReviewCommand {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let steered = Steered::find(context, &self.run, None).await?;
        let graph = steered.client.graph(steered.run, None).await?;
        let said = Said::about(&steered.client, &graph).await?;
        let review = review_of(&graph).ok_or_else(|| {
            let status = graph.status;
            let started = said.started.as_deref().map(|by| format!("; {by} started it")).unwrap_or_default();
            CliError::Usage(format!(
                "run {} does not wait for a review: it is {status}{started}",
                steered.run
            ))
        })?;
        let struck = self.strike.iter().map(|number| Ok((*number, assumption(review, *number)?)));
        let struck: Result<Vec<_>, String> = struck.collect();
        let struck = struck.map_err(|why| CliError::Usage(format!("--strike {why}")))?;
        if self.strike.is_empty() && !self.start {
            return match context.out.is_json() {
                true => context.out.json(review),
                false => lines(&graph, review, &said).into_iter().try_for_each(|line| context.out.line(line)),
            }
            .map(|()| Exit::Success);
        }
        carry_out(steered, &graph, &struck, self.start).await
    }
}

/// True if somebody can answer.
pub(super) fn can_ask(context: &Context) -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !context.out.is_json()
}

/// Asks on the terminal how the run goes on, until it does. False if the user leaves.
pub(super) async fn ask(
    context: &Context,
    client: &Client,
    run: RunId,
    interrupt: &CancellationToken,
) -> Result<bool, CliError> {
    let graph = client.graph(run, None).await?;
    let Some(review) = review_of(&graph) else { return Ok(true) };
    let said = Said::about(client, &graph).await?;
    lines(&graph, review, &said).into_iter().for_each(|line| context.out.warn(line));
    loop {
        context.out.warn("Enter starts it, numbers strike assumptions, q leaves it paused:");
        let answer = tokio::select! {
            answer = line() => answer,
            () = interrupt.cancelled() => return Ok(false),
        };
        let steered = || Steered { context, client: client.clone(), run, node: None };
        match answer.as_deref().map(str::trim) {
            Some("") => return carry_out(steered(), &graph, &[], true).await.map(|_| true),
            None | Some("q" | "quit") => {
                context.out.warn(format!("`tree-agent review {run} --start` starts it"));
                return Ok(false);
            }
            Some(text) => {
                let numbers = text.split([' ', ',']).filter(|word| !word.is_empty());
                let struck = numbers.map(|word| {
                    let number = word.parse().map_err(|_| format!("{word:?} is no number"))?;
                    Ok((number, assumption(review, number)?))
                });
                match struck.collect::<Result<Vec<_>, String>>() {
                    Ok(struck) => _ = carry_out(steered(), &graph, &struck, false).await?,
                    Err(why) => context.out.warn(why),
                }
            }
        }
    }
}

/// A line of stdin; none at its end. A thread of its own reads it, for which nobody waits when the user interrupts.
async fn line() -> Option<String> {
    let (sender, line) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = io::stdin().read_line(&mut text);
        let _ = sender.send(read.ok().filter(|bytes| *bytes > 0).map(|_| text));
    });
    line.await.ok().flatten()
}

/// Strikes assumptions, each with its number, then perhaps starts the run.
async fn carry_out(
    mut steered: Steered<'_>,
    graph: &GraphSnapshot,
    struck: &[(usize, &str)],
    start: bool,
) -> Result<Exit, CliError> {
    let args = SteerArgs { dry_run: false, expected_seq: None };
    steered.node = graph.nodes.first().map(|root| root.id);
    for (number, assumed) in struck {
        let text = format!("{STRIKES}{assumed}");
        let done = format!("assumption {number} is struck");
        let message = framed!(GuideNodeRequest { text: text, subtree: true, restart: false });
        steered.give(&args, "concerns", &done, message).await?;
    }
    if start {
        let done = format!("run {} goes on", steered.run);
        let given = steered.give(&args, "concerns", &done, framed!(ResumeRunRequest {})).await;
        let by = match given {
            Ok(exit) => return Ok(exit),
            // Somebody else may have started it meanwhile.
            Err(error) => {
                let said = Said::about(&steered.client, graph).await.unwrap_or_default();
                said.started.ok_or(error)?
            }
        };
        steered.context.out.warn(format!("run {} goes on already: {by} started it", steered.run));
    }
    Ok(Exit::Success)
}

/// What people have said about a review so far.
#[derive(Default)]
struct Said {
    /// Who started the run, and with which event.
    started: Option<String>,
    /// Assumptions that are struck.
    struck: Vec<String>,
}

impl Said {
    async fn about(client: &Client, graph: &GraphSnapshot) -> Result<Self, CliError> {
        let mut said = Self::default();
        let Some(root) = graph.nodes.first() else { return Ok(said) };
        let asked = pb::ListEventsRequest {
            run_id: graph.run_id.to_wire(),
            page_size: limits::PAGE_MAX as u32,
            types: ["guidance_added", "node_resumed", "review_requested", "run_forked"]
                .map(|name| format!("tree.{name}"))
                .into(),
            node_id: root.id.to_wire(),
            ..pb::ListEventsRequest::default()
        };
        // A pause may end like a review, and a fork shares the events of its source.
        let mut is_asked = false;
        for event in client.ask(asked).await?.events {
            let event = Event::from_wire(event)?;
            match event.body {
                EventBody::ReviewRequested(_) => is_asked = true,
                EventBody::RunForked(_) => (is_asked, said.started) = (false, None),
                EventBody::NodeResumed(e) if std::mem::take(&mut is_asked) && !e.request_id.is_empty() => {
                    let who = if e.author.is_empty() { "somebody".into() } else { one_line(&e.author) };
                    said.started = Some(format!("{who} (event {})", event.seq));
                }
                EventBody::GuidanceAdded(e) => {
                    said.struck.extend(e.text.strip_prefix(STRIKES).map(str::to_owned))
                }
                _ => {}
            }
        }
        Ok(said)
    }
}

fn review_of(graph: &GraphSnapshot) -> Option<&Review> {
    graph.nodes.first()?.review.as_deref()
}

fn assumption(review: &Review, number: usize) -> Result<&str, String> {
    let assumptions = &review.premises.assumptions;
    let found = number.checked_sub(1).and_then(|at| assumptions.get(at));
    found.map(String::as_str).ok_or_else(|| match assumptions.len() {
        0 => format!("{number}: the plan names no assumption"),
        n => format!("{number}: the assumptions have the numbers 1 to {n}"),
    })
}

/// What there is to look at.
fn lines(graph: &GraphSnapshot, review: &Review, said: &Said) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(root) = graph.nodes.first() else { return lines };
    let steps = root.plan.iter().flat_map(|plan| &plan.bands).flat_map(|band| {
        band.steps.iter().map(|step| format!("b{}  {}", band.index + 1, one_line(&step.title)))
    });
    let below = graph.nodes.iter().filter(|node| node.parent_id == Some(root.id));
    let planned: Vec<String> = match root.plan {
        Some(_) => steps.collect(),
        None => below.map(|node| one_line(&node.title)).collect(),
    };
    let mut list = |title: String, texts: Vec<String>| {
        lines.push(title);
        lines.extend(texts.into_iter().map(|text| format!("  {text}")));
    };
    match planned.len() {
        0 => list("Planned: one node does the task itself".into(), Vec::new()),
        n => {
            let more = n.saturating_sub(TITLES);
            let more = (more > 0).then(|| format!("and {more} more"));
            list(
                format!("Planned: {}", count(n, "step")),
                planned.into_iter().take(TITLES).chain(more).collect(),
            );
        }
    }
    let premises = &review.premises;
    if !premises.assumptions.is_empty() {
        let numbered = premises.assumptions.iter().zip(1..).map(|(text, n)| {
            let struck = if said.struck.contains(text) { " (struck)" } else { "" };
            format!("{n}  {}{struck}", one_line(text))
        });
        list("It assumes".into(), numbered.collect());
    }
    if !premises.left_out.is_empty() {
        list("It leaves out".into(), premises.left_out.iter().map(|text| one_line(text)).collect());
    }
    list(format!("The run can use at most {}", most(&review.estimate)), Vec::new());
    if let Some(at) = review.goes_on_at {
        list(format!("It goes on by itself at {at}"), Vec::new());
    }
    lines
}

/// An estimate on one line.
fn most(estimate: &Estimate) -> String {
    let calls = estimate.plan_calls
        + estimate.execute_calls
        + estimate.aggregate_calls
        + estimate.research_calls
        + estimate.pick_calls
        + estimate.verify_calls;
    let mut parts = vec![format!("{} nodes", grouped(estimate.nodes)), format!("{} calls", grouped(calls))];
    parts.extend(estimate.tokens.map(|tokens| format!("{} tokens", grouped(tokens))));
    parts.extend(estimate.cost_micros.map(dollars));
    parts.push(duration(estimate.ends_within_ms));
    if !estimate.unlimited.is_empty() {
        parts.push(format!("no limit of {}", estimate.unlimited.join(", ")));
    }
    parts.join(", ")
}
