//! The configuration of the three role services.

use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use tree_agent_contract::role::RoleError;
use tree_agent_contract::{ModelChoice, ModelProblem};
use tree_agent_runtime::channel::{ConnectArgs, Connector};
use tree_agent_runtime::config::Problems;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_tools::{GatewayDocuments, McpConfig, McpServers, ToolRegistry};

use crate::llm::{LanguageModels, LlmArgs};
use crate::select::Models;
use crate::serve::RoleServer;

/// Arguments of a role service.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Calls between services")]
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
        hide_default_value = true,
        help_heading = "Models"
    )]
    pub model: String,
    /// Whether runs may use the scripted model. It is for tests and benchmarks, and can be told to use any amount of
    /// resources.
    #[arg(
        long,
        env = "TREE_AGENT_SCRIPTED",
        value_name = "on|off",
        default_value = "off",
        help_heading = "Models"
    )]
    pub scripted: Switch,
    /// How other services are connected to.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// The language models.
    #[command(flatten)]
    pub llm: LlmArgs,
}

impl RoleArgs {
    /// Checks the arguments and adds what is wrong to `problems`. The role sends `token` to gateways.
    pub fn check(&self, token: &RoleToken, problems: &mut Problems) -> RoleConfig {
        let mut llm = self.llm.check(problems);
        if !self.connect.allow_plaintext_token {
            llm.check_plaintext(problems);
        }
        // The operator's own default may be named as well.
        if let Ok(ModelChoice::Model(model)) = ModelChoice::parse(&self.model) {
            llm.offer(model);
        }
        let connector = self.connect.check(problems).with_credentials(token.credentials());
        llm.trust(connector.roots().clone());
        let language = LanguageModels::new(&llm);
        let models = Models::configured(&self.model, language.clone(), self.scripted);
        if let Err(error) = &models {
            problems.add("TREE_AGENT_MODEL", &error.message);
        }
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

/// A switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// Off.
    #[default]
    Off,
    /// On.
    On,
}

/// Arguments of a role service that can use MCP servers.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ToolsArgs {
    /// A TOML file that names MCP servers; the executor gets their tools in addition to the built-in ones.
    #[arg(long, env = "TREE_AGENT_TOOLS_CONFIG", value_name = "FILE")]
    pub tools_config: Option<PathBuf>,
}

impl ToolsArgs {
    /// Reads and checks the file, and adds what is wrong to `problems`. The servers must be vouched for as those of
    /// `connector`, and tokens go over plain HTTP to other machines only if it allows that.
    pub fn check(&self, connector: &Connector, problems: &mut Problems) -> McpConfig {
        let Some(path) = self.tools_config.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
            return McpConfig::default();
        };
        let read = McpConfig::load(path).and_then(|config| match connector.allows_plaintext_token() {
            true => Ok(config),
            false => config.without_plaintext_tokens(),
        });
        let read = read.map(|config| config.trusting(connector.roots().clone()));
        read.unwrap_or_else(|found| {
            found.into_iter().for_each(|text| problems.add("TREE_AGENT_TOOLS_CONFIG", text));
            McpConfig::default()
        })
    }
}

/// The checked configuration of a role service.
#[derive(Clone, Debug)]
pub struct RoleConfig {
    /// The event-gateways through which tools read documents.
    pub gateways: Vec<Uri>,
    /// How to connect to them, with the token to send.
    pub connector: Connector,
    /// The model for runs that name none. If empty: `llm` if a language model is set, else `offline`.
    pub model: String,
    /// Whether runs may use the scripted model.
    pub scripted: Switch,
    /// The MCP servers whose tools the role gets.
    pub servers: McpConfig,
    /// The language models.
    pub language: LanguageModels,
}

impl RoleConfig {
    /// The name of the model for runs that name none.
    pub fn default_model(&self) -> &str {
        match self.model.trim() {
            "" if self.language.are_set() => "llm",
            "" => "offline",
            name => name,
        }
    }

    /// Fails if a provider refuses its key, so that this is known before a run starts. A provider that cannot be
    /// reached is not a failure; the check then takes up to ten seconds.
    pub async fn check_keys(&self) -> Result<(), ModelProblem> {
        self.language.check_keys().await
    }

    /// A server of the built-in models, with tools that use the gateways. Connects lazily, so no gateway needs to be
    /// up; fails only for an unknown model. Must be called in a runtime.
    pub fn server(&self) -> Result<RoleServer, RoleError> {
        let models = Models::configured(&self.model, self.language.clone(), self.scripted)?;
        let tools =
            ToolRegistry::new(Arc::new(GatewayDocuments::connect_lazy(&self.gateways, &self.connector)));
        Ok(RoleServer::new(models, tools.with_servers(McpServers::start(self.servers.clone()))))
    }
}
