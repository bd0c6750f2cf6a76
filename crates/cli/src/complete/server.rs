//! Candidates that a server knows: runs, nodes, projects and models.

use std::ffi::OsStr;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use tree_agent_contract::RunSummary;
use tree_agent_contract::graph::GraphNode;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_runtime::config::Problems;

use super::WORDS;
use crate::args::{Cli, Global};
use crate::client::{Client, request};
use crate::commands::graph;
use crate::error::CliError;
use crate::value::RunRef;
use crate::view::paint::fit;
use crate::view::printable::one_line;

/// How long a shell may be held up.
const PATIENCE: Duration = Duration::from_secs(3);
/// Candidates of one kind.
const CANDIDATES: u32 = 100;
/// Means the newest run.
const LATEST: &str = "@latest";
/// Columns of the text beside a candidate.
const HELP: usize = 60;

/// Ids of runs, newest first; of those that begin with what was typed, at most [`CANDIDATES`].
pub(crate) fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        if current.starts_with('@') {
            let latest = CompletionCandidate::new(LATEST).help(Some("the newest run".into()));
            return if LATEST.starts_with(current) { vec![latest] } else { Vec::new() };
        }
        let runs = ask(async |client| {
            let (page_size, id_part) = (CANDIDATES, current.to_owned());
            let message = pb::ListRunsRequest { page_size, id_part, ..Default::default() };
            client
                .call(|| {
                    let (mut runs, message) = (client.runs(), message.clone());
                    async move { runs.list_runs(request(message)).await }
                })
                .await
        });
        let runs = runs.map(|page| page.runs).unwrap_or_default();
        let runs = runs.into_iter().filter_map(|run| RunSummary::from_wire(run).ok());
        runs.filter(|run| run.run_id.to_string().starts_with(current)).map(run_candidate).collect()
    })
}

fn run_candidate(run: RunSummary) -> CompletionCandidate {
    let about = format!("{}: {}", run.status, fit(&one_line(&run.spec.objective), HELP));
    CompletionCandidate::new(run.run_id.to_string()).help(Some(about.into()))
}

/// Ids of the nodes of the run that the command line names.
pub(crate) fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let (Some(current), Some(run)) = (current.to_str(), named_run()) else { return Vec::new() };
        let graph = ask(async |client| graph::fetch(&client, client.find_run(&run).await?, None).await);
        let nodes = graph.map(|graph| graph.nodes).unwrap_or_default().into_iter();
        let candidate = |node: GraphNode| {
            let about = format!("{}: {}", node.status, fit(&one_line(&node.title), HELP));
            CompletionCandidate::new(node.id.to_string()).help(Some(about.into()))
        };
        let fits = |node: &GraphNode| node.id.to_string().starts_with(current);
        nodes.filter(fits).take(CANDIDATES as usize).map(candidate).collect()
    })
}

/// The same for a flag whose first value is a node; nothing for the values behind it.
pub(crate) fn nodes_first() -> ArgValueCompleter {
    let nodes = nodes();
    ArgValueCompleter::new(move |current: &OsStr| {
        let flag = WORDS.get().and_then(|words| words.iter().nth_back(1));
        let is_first = flag.is_some_and(|word| word.to_string_lossy().starts_with("--"));
        if is_first { nodes.complete(current) } else { Vec::new() }
    })
}

/// The run that stands on the command line before the word that is completed.
fn named_run() -> Option<RunRef> {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(WORDS.get()?).ok()?;
    let mut innermost = &matches;
    while let Some((_, below)) = innermost.subcommand() {
        innermost = below;
    }
    innermost.try_get_one::<RunRef>("run").ok()?.cloned()
}

/// Names of projects.
pub(crate) fn projects() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        let projects = ask(async |client| {
            let message = pb::ListProjectsRequest {
                page_size: CANDIDATES,
                name_contains: current.to_owned(),
                ..Default::default()
            };
            client
                .call(|| {
                    let (mut projects, message) = (client.projects(), message.clone());
                    async move { projects.list_projects(request(message)).await }
                })
                .await
        });
        let names =
            projects.map(|page| page.projects).unwrap_or_default().into_iter().map(|p| one_line(&p.name));
        names.filter(|name| name.starts_with(current)).map(CompletionCandidate::new).collect()
    })
}

/// Names of models.
pub(crate) fn models() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        let models = ask(async |client| {
            client
                .call(|| {
                    let mut models = client.models();
                    async move { models.list_models(request(pb::ListModelsRequest {})).await }
                })
                .await
        });
        let models = models.map(|list| list.models).unwrap_or_default().into_iter();
        let fits = |model: &pb::Model| model.usable && model.name.starts_with(current);
        let candidate = |model: pb::Model| {
            CompletionCandidate::new(one_line(&model.name)).help(Some(one_line(&model.description).into()))
        };
        models.filter(fits).map(candidate).collect()
    })
}

/// Puts a question to the server that the command line names. Whatever goes wrong, there is only nothing to offer.
fn ask<T>(question: impl AsyncFnOnce(Client) -> Result<T, CliError>) -> Option<T> {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(WORDS.get()?).ok()?;
    let global = Global::from_arg_matches(&matches).ok()?;
    let mut problems = Problems::default();
    let credentials = global.token.check(&mut problems);
    let connector = global.connect.check(&mut problems).with_credentials(credentials);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answer = runtime.block_on(async {
        let answer = async { question(Client::connect(&global.server, &connector).await?).await };
        tokio::time::timeout(PATIENCE, answer).await
    });
    answer.ok()?.ok()
}
