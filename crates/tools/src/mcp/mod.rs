//! Tools of MCP servers (Model Context Protocol): child processes over stdio, and streamable HTTP.
//!
//! Each server has a [`Server`](server) that starts it, keeps it running and passes calls on. What a server is and
//! says is not trusted: it gets no variable of ours that its configuration does not name, it is started without a
//! shell, its lines and answers are bounded, its schemas are checked before they are used, and what it answers is
//! data. Its tools are offered under names of our making ([`names`]).

mod answer;
mod config;
mod connect;
mod names;
mod server;

use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};
use tree_agent_contract::RunContext;

pub use config::McpConfig;
pub(crate) use server::{McpTool, Server};

/// The servers of a configuration, running. Dropping the last clone ends them.
#[derive(Clone, Default)]
pub struct McpServers {
    servers: Arc<[Arc<Server>]>,
    _ends: Option<Arc<DropGuard>>,
}

impl McpServers {
    /// Starts the servers of `config`, each by itself; what cannot be started now is tried again later. Must be called
    /// in a runtime.
    pub fn start(config: McpConfig) -> Self {
        if config.is_empty() {
            return Self::default();
        }
        let done = CancellationToken::new();
        let servers = config.servers.into_iter().map(|config| Server::start(config, done.clone())).collect();
        Self { servers, _ends: Some(Arc::new(done.drop_guard())) }
    }

    /// Waits until every server has answered, or has failed to, for the first time.
    pub(crate) async fn ready(&self) {
        for server in self.servers.iter() {
            server.settled().await;
        }
    }

    /// The tools that `context` offers, with their servers.
    pub(crate) fn tools(&self, context: &RunContext) -> Vec<(Arc<Server>, Arc<McpTool>)> {
        let servers = self.servers.iter().filter(|server| server.config.offers(context));
        servers
            .flat_map(|server| {
                let tools = server.tools();
                tools.iter().map(|tool| (server.clone(), tool.clone())).collect::<Vec<_>>()
            })
            .collect()
    }
}
