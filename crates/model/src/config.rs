//! What the three role services are told on their command line.

use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use tree_agent_runtime::config::Problems;
use tree_agent_tools::{GatewayDocuments, McpConfig, McpServers, ToolRegistry};

use crate::select::Models;
use crate::serve::RoleServer;

/// Arguments of a role service.
#[derive(Clone, Debug, clap::Args)]
pub struct RoleArgs {
    /// URLs of event-gateways, separated by commas: where tools find documents.
    #[arg(long, env = "TREE_AGENT_GATEWAY", value_name = "URLS", default_value = "http://127.0.0.1:7400")]
    pub gateway: String,
    /// The model for runs that name none: offline, or scripted:key=value,…
    #[arg(long, env = "TREE_AGENT_MODEL", value_name = "MODEL", default_value = "offline")]
    pub model: String,
}

impl RoleArgs {
    /// Checks the arguments; what is wrong is noted in `problems`.
    pub fn check(&self, problems: &mut Problems) -> RoleConfig {
        if let Err(error) = Models::new(&self.model) {
            problems.add("TREE_AGENT_MODEL", error.message);
        }
        RoleConfig {
            gateways: problems.urls("TREE_AGENT_GATEWAY", &self.gateway),
            model: self.model.clone(),
            servers: McpConfig::default(),
        }
    }
}

/// Arguments of a role service that has tools from elsewhere.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ToolsArgs {
    /// A TOML file that names MCP servers, whose tools the executor gets beside the built-in ones.
    #[arg(long, env = "TREE_AGENT_TOOLS_CONFIG", value_name = "FILE")]
    pub tools_config: Option<PathBuf>,
}

impl ToolsArgs {
    /// Reads and checks the file; what is wrong in it is noted in `problems`.
    pub fn check(&self, problems: &mut Problems) -> McpConfig {
        let Some(path) = self.tools_config.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
            return McpConfig::default();
        };
        McpConfig::load(path).unwrap_or_else(|found| {
            found.into_iter().for_each(|text| problems.add("TREE_AGENT_TOOLS_CONFIG", text));
            McpConfig::default()
        })
    }
}

/// What a role service needs to know.
#[derive(Clone, Debug)]
pub struct RoleConfig {
    /// The event-gateways: where tools find documents.
    pub gateways: Vec<Uri>,
    /// The model for runs that name none.
    pub model: String,
    /// The MCP servers whose tools the role gets.
    pub servers: McpConfig,
}

impl RoleConfig {
    /// A server of the built-in models with tools over the gateways. Connects lazily, so it succeeds while no gateway
    /// is up; fails only for an unknown model. Must be called in a runtime.
    pub fn server(&self) -> Result<RoleServer, tree_agent_contract::role::RoleError> {
        let models = Models::new(&self.model)?;
        let tools = ToolRegistry::new(Arc::new(GatewayDocuments::connect_lazy(&self.gateways)));
        Ok(RoleServer::new(models, tools.with_servers(McpServers::start(self.servers.clone()))))
    }
}
