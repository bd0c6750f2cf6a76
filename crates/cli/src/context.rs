//! What every command gets.

use tokio_util::sync::CancellationToken;
use tree_agent_runtime::channel::{ConnectArgs, Connector};
use tree_agent_runtime::shutdown;

use crate::client::Client;
use crate::error::CliError;
use crate::output::Output;
use crate::screen::show_cursor;

/// What every command gets.
pub(crate) struct Context {
    /// The URL of the server.
    pub(crate) server: String,
    /// How the server is connected to, with the token for servers that ask for one.
    pub(crate) connector: Connector,
    /// What the connector was made of.
    pub(crate) connect: ConnectArgs,
    pub(crate) out: Output,
}

impl Context {
    /// A connection to the server.
    pub(crate) async fn connect(&self) -> Result<Client, CliError> {
        Client::connect(&self.server, &self.connector).await
    }
}

/// A token that is cancelled at the first Ctrl-C or SIGTERM. A second one restores the terminal and ends the process.
pub(crate) fn interrupt() -> Result<CancellationToken, CliError> {
    Ok(shutdown::signal_with(show_cursor)?)
}
