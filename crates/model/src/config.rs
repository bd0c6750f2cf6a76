//! What the three role services are told on their command line.

use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use tree_agent_contract::role::RoleError;
use tree_agent_contract::{ModelChoice, ModelProblem};
use tree_agent_runtime::channel::{ConnectArgs, Connector};
use tree_agent_runtime::config::Problems;
use tree_agent_runtime::credentials::TokenArgs;
use tree_agent_tools::{GatewayDocuments, McpConfig, McpServers, ToolRegistry};

use crate::llm::{LanguageModels, LlmArgs};
use crate::select::Models;
use crate::serve::RoleServer;

/// Arguments of a role service.
#[derive(Clone, Debug, clap::Args)]
pub struct RoleArgs {
    /// URLs of event-gateways, separated by commas: where tools find documents.
    #[arg(long, env = "TREE_AGENT_GATEWAY", value_name = "URLS", default_value = "http://127.0.0.1:7400")]
    pub gateway: String,
    /// The model for runs that name none: offline, llm, provider:model, or scripted:key=value,… [default: llm when a
    /// language model is set, else offline]
    #[arg(
        long,
        env = "TREE_AGENT_MODEL",
        value_name = "MODEL",
        default_value = "",
        hide_default_value = true
    )]
    pub model: String,
    /// Whether runs may use the scripted model, which answers nothing and can be told to use any amount of resources: for
    /// tests and benchmarks.
    #[arg(long, env = "TREE_AGENT_SCRIPTED", value_name = "on|off", default_value = "off")]
    pub scripted: Switch,
    /// What gateways that ask for a token are shown.
    #[command(flatten)]
    pub token: TokenArgs,
    /// How other services are connected to.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// The language models.
    #[command(flatten)]
    pub llm: LlmArgs,
}

impl RoleArgs {
    /// Checks the arguments; what is wrong is noted in `problems`.
    pub fn check(&self, problems: &mut Problems) -> RoleConfig {
        let mut llm = self.llm.check(problems);
        // The operator's own default may be named as well.
        if let Ok(ModelChoice::Model(model)) = ModelChoice::parse(&self.model) {
            llm.offer(model);
        }
        let language = LanguageModels::new(&llm);
        let models = Models::configured(&self.model, language.clone(), self.scripted);
        if let Err(error) = &models {
            problems.add("TREE_AGENT_MODEL", &error.message);
        }
        let connector = self.connect.check(problems).with_credentials(self.token.check(problems));
        let gateways = problems.urls("TREE_AGENT_GATEWAY", &self.gateway);
        connector.check_urls("TREE_AGENT_GATEWAY", &gateways, problems);
        RoleConfig {
            gateways,
            connector,
            model: self.model.clone(),
            scripted: self.scripted,
            language,
            servers: McpConfig::default(),
        }
    }
}

/// Something that can be switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// It cannot be used.
    #[default]
    Off,
    /// It can be used.
    On,
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
    /// How they are connected to, with the token that they are sent.
    pub connector: Connector,
    /// The model for runs that name none; empty for `llm` or `offline`, whichever there is.
    pub model: String,
    /// Whether runs may use the scripted model.
    pub scripted: Switch,
    /// The MCP servers whose tools the role gets.
    pub servers: McpConfig,
    /// The language models.
    pub language: LanguageModels,
}

impl RoleConfig {
    /// The name of the model that runs use which name none.
    pub fn default_model(&self) -> &str {
        match self.model.trim() {
            "" if self.language.are_set() => "llm",
            "" => "offline",
            name => name,
        }
    }

    /// Fails when a provider refuses its key, so that this is known before a run starts. Takes up to ten seconds for
    /// a provider that cannot be reached, which is no failure.
    pub async fn check_keys(&self) -> Result<(), ModelProblem> {
        self.language.check_keys().await
    }

    /// A server of the built-in models with tools over the gateways. Connects lazily, so it succeeds while no gateway
    /// is up; fails only for an unknown model. Must be called in a runtime.
    pub fn server(&self) -> Result<RoleServer, RoleError> {
        let models = Models::configured(&self.model, self.language.clone(), self.scripted)?;
        let tools =
            ToolRegistry::new(Arc::new(GatewayDocuments::connect_lazy(&self.gateways, &self.connector)));
        Ok(RoleServer::new(models, tools.with_servers(McpServers::start(self.servers.clone()))))
    }
}
