//! The command line's shape.

use clap::{Args, Parser, Subcommand};
use tree_agent_runtime::channel::ConnectArgs;
use tree_agent_runtime::credentials::TokenArgs;

use crate::commands::{
    cancel, completions, dev, doc, events, graph, import, log, migrate, projects, rebuild, run, runs, verify,
    watch,
};
use crate::exit;
use crate::output::Format;

/// Gives an objective to a tree of agents and watches it grow.
#[derive(Debug, Parser)]
#[command(name = "tree-agent", version, after_help = exit::HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The server that commands talk to
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TREE_AGENT_SERVER",
        default_value = "http://127.0.0.1:7400"
    )]
    pub(crate) server: String,
    /// What stdout looks like; with jsonl there is one JSON object a line and nothing else
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Human)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// What is logged on stderr, such as info or tree_agent_driver=debug,info [default: warn; dev: info]
    #[arg(long, global = true, value_name = "FILTER", env = "TREE_AGENT_LOG")]
    pub(crate) log: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Dev(Box<dev::Dev>),
    Run(Box<run::Run>),
    Watch(watch::Watch),
    Runs(runs::Runs),
    Graph(graph::Graph),
    Events(events::Events),
    Doc(doc::Doc),
    Cancel(cancel::Cancel),
    Import(import::Import),
    Projects(projects::Projects),
    Migrate(migrate::Migrate),
    Verify(verify::Verify),
    Log(Box<log::Log>),
    Rebuild(rebuild::Rebuild),
    Completions(completions::Completions),
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
        assert!(Cli::command().render_help().to_string().contains("130  interrupted"));
    }
}
