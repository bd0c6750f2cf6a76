//! Flags of every command.

use clap::Args;
use colorchoice_clap::Color;
use tree_agent_runtime::channel::{ConnectArgs, Connector};
use tree_agent_runtime::config::Problems;
use tree_agent_runtime::credentials::TokenArgs;

use crate::output::Format;

/// Flags of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The server
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TREE_AGENT_SERVER",
        default_value = "http://127.0.0.1:7400"
    )]
    pub(crate) server: String,
    /// The form of the output on stdout
    #[arg(short, long, global = true, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Print the result and errors only: no progress, no notes
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print the Markdown of answers as it is, also on a terminal
    #[arg(long, global = true)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) color: Color,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    /// What to log on stderr, such as info or tree_agent_driver=debug,info [default: warn; dev: info]
    #[arg(long, global = true, value_name = "FILTER", env = "TREE_AGENT_LOG")]
    pub(crate) log: Option<String>,
}

impl Global {
    /// How the server is connected to, with the token for servers that ask for one.
    pub(crate) fn connector(&self, problems: &mut Problems) -> Connector {
        let credentials = self.token.check(problems);
        self.connect.check(problems).with_credentials(credentials)
    }
}
