//! What shells complete.
//!
//! The shell calls this program with `COMPLETE=SHELL` and the words of the command line, and clap finds the candidates.
//! Ids of runs and nodes, names of projects and models are asked of the server that the command line names.

use std::ffi::OsStr;
use std::sync::OnceLock;
use std::time::Duration;

use clap::{ArgMatches, Command, FromArgMatches};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, ValueCompleter};
use clap_complete::env::Shells;
use tree_agent_contract::RunSummary;
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;
use tree_agent_runtime::config::Problems;

use crate::client::Client;
use crate::error::CliError;
use crate::global::Global;
use crate::value::RunRef;
use crate::view::paint::fit;
use crate::view::printable::one_line;

/// The variable that tells this program to complete for a shell.
const VARIABLE: &str = "COMPLETE";
/// The name of the program in scripts.
const PROGRAM: &str = "tree-agent";
/// How long a shell may be held up.
const PATIENCE: Duration = Duration::from_secs(3);
/// Candidates of one kind.
const CANDIDATES: u32 = 100;
/// Means the newest run.
const LATEST: &str = "@latest";
/// Columns of the text beside a candidate.
const HELP: usize = 60;

/// Makes the definition of the command line that is completed.
static COMMAND: OnceLock<fn() -> Command> = OnceLock::new();

/// Answers a shell that asks for completions of `command` and ends the process; otherwise does nothing.
pub(crate) fn answer_shell(command: fn() -> Command) {
    let _ = COMMAND.set(command);
    CompleteEnv::with_factory(command).complete();
}

/// The script that registers the completions with the shell of this name; none for a shell that is not known.
pub(crate) fn script(shell: &str) -> Option<std::io::Result<String>> {
    let completer = std::env::args_os().next().unwrap_or_else(|| PROGRAM.into());
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let written = shells.completer(shell)?.write_registration(
        VARIABLE,
        PROGRAM,
        PROGRAM,
        &completer.to_string_lossy(),
        &mut script,
    );
    Some(written.map(|()| String::from_utf8_lossy(&script).into_owned()))
}

/// Ids of runs, newest first.
pub(crate) fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        if current.starts_with('@') {
            return fitting(current, [(LATEST.to_owned(), "the newest run".to_owned())]);
        }
        let message =
            pb::ListRunsRequest { page_size: CANDIDATES, id_part: current.to_owned(), ..Default::default() };
        let page = ask(async |client| client.ask(message).await).unwrap_or_default();
        let runs = page.runs.into_iter().filter_map(|run| RunSummary::from_wire(run).ok());
        fitting(
            current,
            runs.map(|run| (run.run_id.to_string(), format!("{}: {}", run.status, run.spec.objective))),
        )
    })
}

/// Ids of the nodes of the run that the command line names; for a flag with several values only for the first.
pub(crate) fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(Nodes)
}

struct Nodes;

impl ValueCompleter for Nodes {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let (Some(current), Some(run)) = (current.to_str(), named_run()) else { return Vec::new() };
        let graph = ask(async |client| client.graph(client.find_run(&run).await?, None).await);
        let nodes = graph.map(|graph| graph.nodes).unwrap_or_default().into_iter();
        fitting(current, nodes.map(|node| (node.id.to_string(), format!("{}: {}", node.status, node.title))))
    }

    fn complete_at(&self, index: usize, current: &OsStr) -> Vec<CompletionCandidate> {
        if index == 0 { self.complete(current) } else { Vec::new() }
    }
}

/// Names of projects.
pub(crate) fn projects() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        let name_contains = current.to_owned();
        let message = pb::ListProjectsRequest { page_size: CANDIDATES, name_contains, ..Default::default() };
        let page = ask(async |client| client.ask(message).await).unwrap_or_default();
        fitting(current, page.projects.into_iter().map(|project| (project.name, project.description)))
    })
}

/// Names of models.
pub(crate) fn models() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        let list = ask(async |client| client.ask(pb::ListModelsRequest {}).await).unwrap_or_default();
        let usable = list.models.into_iter().filter(|model| model.usable);
        fitting(current, usable.map(|model| (model.name, model.description)))
    })
}

/// The candidates that begin with `current`. Somebody else chose the names, and shells differ in what they quote, so
/// only names that need no quotes are offered.
fn fitting(
    current: &str,
    candidates: impl IntoIterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let is_word = |name: &str| name.chars().all(|c| c.is_alphanumeric() || "-_./:=@%+,".contains(c));
    let fitting = candidates.into_iter().filter(|(name, _)| name.starts_with(current) && is_word(name));
    fitting
        .take(CANDIDATES as usize)
        .map(|(name, about)| CompletionCandidate::new(name).help(Some(fit(&one_line(&about), HELP).into())))
        .collect()
}

/// What the command line says so far.
fn matches() -> Option<ArgMatches> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    COMMAND.get()?().ignore_errors(true).try_get_matches_from(words).ok()
}

/// The run that stands on the command line before the word that is completed.
fn named_run() -> Option<RunRef> {
    let matches = matches()?;
    let mut innermost = &matches;
    while let Some((_, below)) = innermost.subcommand() {
        innermost = below;
    }
    innermost.try_get_one::<RunRef>("run").ok()?.cloned()
}

/// Puts a question to the server that the command line names. Whatever goes wrong, there is only nothing to offer.
fn ask<T>(question: impl AsyncFnOnce(Client) -> Result<T, CliError>) -> Option<T> {
    let global = Global::from_arg_matches(&matches()?).ok()?;
    let connector = global.connector(&mut Problems::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answer = runtime.block_on(async {
        let answer = async { question(Client::connect(&global.server, &connector).await?).await };
        tokio::time::timeout(PATIENCE, answer).await
    });
    answer.ok()?.ok()
}
