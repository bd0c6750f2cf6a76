//! The command line's shape.

use std::path::Path;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    cancel, cite, completions, copy, delete, dev, diff, doc, docs, doctor, events, export, fork, graph,
    guide, import, log, mcp, migrate, pause, plan, projects, prompts, rebuild, result, retry, review, run,
    runs, search, set_budget, status, stop, verify, watch,
};
use crate::exit;
use crate::global::Global;

/// Answers questions that need more than one step: an objective becomes a tree of agents that plan, read documents and
/// write down what they found.
#[derive(Debug, Parser)]
#[command(name = "tree-agent", version, after_help = START, after_long_help = exit::HELP)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const START: &str = "\
To begin:
  tree-agent run --local --dir ./docs \"How does the lease work?\"   without a server
  tree-agent dev                                                  a server with a web UI

--help shows more, also of a command: tree-agent run --help";

/// The options of `run` that people use first. Its `-h` shows no others.
const FIRST: [&str; 10] =
    ["project", "dir", "model", "strategy", "out", "detach", "estimate", "max_time", "max_cost", "local"];

/// The whole definition, with its help in order of use. `-h` leaves out what few need.
pub(crate) fn command() -> clap::Command {
    let of_run = |arg: clap::Arg| match arg.get_id().as_str() {
        id if FIRST.contains(&id) => arg.help_heading(None),
        _ if arg.is_positional() => arg,
        _ if arg.get_help_heading().is_none() => arg.help_heading("More about the run").hide_short_help(true),
        _ => arg.hide_short_help(true),
    };
    let command = Cli::command().mut_args(|global| global.hide_short_help(true));
    command.mut_subcommand("run", |run| run.mut_args(of_run))
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // Runs
    Run(Box<run::Run>),
    Search(Box<search::Search>),
    Copy(copy::Copy),
    Watch(watch::Watch),
    Result(result::GetResult),
    Cite(cite::Cite),
    Stale(cite::Stale),
    Runs(Box<runs::Runs>),
    Graph(graph::Graph),
    Diff(diff::Diff),
    Events(events::Events),
    Export(export::Export),
    // Steering
    Pause(pause::Pause),
    Resume(pause::Resume),
    Review(review::ReviewCommand),
    Guide(guide::Guide),
    Stop(stop::Stop),
    Retry(Box<retry::Retry>),
    Plan(plan::Plan),
    Fork(Box<fork::Fork>),
    #[command(name = "budget")]
    SetBudget(set_budget::SetBudget),
    Cancel(cancel::Cancel),
    Delete(delete::Delete),
    // Documents
    Import(import::Import),
    // The underscore keeps it out of completion.
    #[command(name = tree_agent_convert::worker::COMMAND, hide = true)]
    ConvertFile(import::ConvertFile),
    Projects(projects::Projects),
    Doc(doc::Doc),
    Docs(Box<docs::Docs>),
    Prompts(prompts::Prompts),
    // The server
    Dev(Box<dev::Dev>),
    Mcp(Box<mcp::Mcp>),
    Status(status::Status),
    Doctor(Box<doctor::Doctor>),
    Completions(completions::Completions),
    // The store
    Migrate(migrate::Migrate),
    Verify(verify::Verify),
    Rebuild(rebuild::Rebuild),
    Log(Box<log::Log>),
}

impl Command {
    /// The folder with the runs that the command reads, in place of a server.
    pub(crate) fn data_dir(&self) -> Option<&Path> {
        let kept = match self {
            Command::Cite(cite) => &cite.kept,
            Command::Result(result) => &result.kept,
            Command::Runs(runs) => &runs.kept,
            Command::Graph(graph) => &graph.kept,
            Command::Diff(diff) => &diff.kept,
            _ => return None,
        };
        kept.data_dir.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_short_help_of_run_shows_ten_options_and_the_long_one_shows_them_first() {
        let mut command = command();
        command.build();
        let run = command.find_subcommand_mut("run").expect("run");
        let options = |help: String| -> Vec<String> {
            let words =
                help.lines().filter_map(|line| line.trim_start().strip_prefix('-').map(str::to_owned));
            words.filter(|words| !words.contains("--help")).collect()
        };
        let short = run.render_help().to_string();
        assert!(short.contains("tree-agent run --help"), "{short}");
        assert_eq!(options(short.clone()).len(), FIRST.len(), "{short}");
        let long = run.render_long_help().to_string();
        let (first, rest) =
            long.split_once("  -h, --help").expect("the last of the options without a heading");
        assert_eq!(options(first.into()).len(), FIRST.len(), "{first}");
        assert!(options(rest.into()).len() > 50, "{rest}");
    }

    #[test]
    fn help_shows_the_exit_codes() {
        assert!(command().render_long_help().to_string().contains("130  interrupted"));
    }
}
