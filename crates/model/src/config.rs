//! What the three role services are told on their command line.

use std::sync::Arc;

use http::Uri;
use tree_agent_runtime::config::Problems;
use tree_agent_tools::{GatewayDocuments, ToolRegistry};

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
        RoleConfig { gateways: problems.urls("TREE_AGENT_GATEWAY", &self.gateway), model: self.model.clone() }
    }
}

/// What a role service needs to know.
#[derive(Clone, Debug)]
pub struct RoleConfig {
    /// The event-gateways: where tools find documents.
    pub gateways: Vec<Uri>,
    /// The model for runs that name none.
    pub model: String,
}

impl RoleConfig {
    /// A server of the built-in models with tools over the gateways. Connects lazily, so it succeeds while no gateway
    /// is up; fails only for an unknown model. Must be called in a runtime.
    pub fn server(&self) -> Result<RoleServer, tree_agent_contract::role::RoleError> {
        let tools = ToolRegistry::new(Arc::new(GatewayDocuments::connect_lazy(&self.gateways)));
        Ok(RoleServer::new(Models::new(&self.model)?, tools))
    }
}
