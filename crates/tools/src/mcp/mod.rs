//! Tools of MCP servers (Model Context Protocol): child processes over stdio, and streamable HTTP.
//!
//! Each server has a [`Server`](server) that starts it, keeps it running and forwards calls. Servers are not trusted:
//! a server is started without a shell, and of our variables it gets a few harmless ones and those that its
//! configuration names. Its lines and answers are limited, its schemas are checked before they are used, and its
//! answers are data. Its tools are offered under names that we choose ([`names`]).

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

/// The running servers of a configuration. Dropping the last clone stops them.
#[derive(Clone, Default)]
pub struct McpServers {
    servers: Arc<[Arc<Server>]>,
    _ends: Option<Arc<DropGuard>>,
}

impl McpServers {
    /// Starts the servers of `config` independently. A server that cannot be started now is retried later. Must be
    /// called within a runtime.
    pub fn start(config: McpConfig) -> Self {
        if config.is_empty() {
            return Self::default();
        }
        let done = CancellationToken::new();
        let McpConfig { servers, roots } = config;
        let start = |server| Server::start(server, roots.clone(), done.clone());
        let servers = servers.into_iter().map(start).collect();
        Self { servers, _ends: Some(Arc::new(done.drop_guard())) }
    }

    /// Waits until the first start of every server has succeeded or failed.
    pub(crate) async fn ready(&self) {
        for server in self.servers.iter() {
            server.settled().await;
        }
    }

    /// The servers whose tools `context` would offer and that have listed none, each with what went wrong.
    pub(crate) fn without_tools(&self, context: &RunContext) -> Vec<(String, String)> {
        let servers = self.servers.iter().filter(|server| server.config.offers(context));
        servers.filter_map(|server| Some((server.config.name.clone(), server.toolless()?))).collect()
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
