//! The command line's shape.

use clap::{Parser, Subcommand};

use crate::commands::{
    cancel, cite, completions, copy, delete, dev, diff, doc, docs, events, export, fork, graph, guide,
    import, log, migrate, pause, plan, projects, rebuild, result, retry, run, runs, search, set_budget,
    status, stop, verify, watch,
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
    // The server
    Dev(Box<dev::Dev>),
    Status(status::Status),
    Completions(completions::Completions),
    // The store
    Migrate(migrate::Migrate),
    Verify(verify::Verify),
    Rebuild(rebuild::Rebuild),
    Log(Box<log::Log>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_shows_the_exit_codes() {
        assert!(Cli::command().render_long_help().to_string().contains("130  interrupted"));
    }
}
