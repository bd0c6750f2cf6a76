//! What can be set.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tree_agent_embedding::Embedder;
use tree_agent_runtime::config::RoleUrls;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_runtime::server::ServerConfig;

use crate::auth::Authenticator;
use crate::maxima::Maxima;
use crate::quotas::Quotas;
use crate::watch::WatchConfig;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// How streams behave.
    pub watch: WatchConfig,
    /// Its port.
    pub server: ServerConfig,
    /// The role services, which check whether the model of a new run can be used. A role without a URL is not asked.
    pub roles: RoleUrls,
    /// The most that a run may ask for.
    pub maxima: Maxima,
    /// What one user may have.
    pub quotas: Quotas,
    /// Whether runs keep prompts that do not say it.
    pub keep_prompts: bool,
    /// Checks callers' tokens; without it everybody may call.
    pub auth: Option<Authenticator>,
    /// What roles show with the run that they work for. Without it no role may call.
    pub role_token: Option<RoleToken>,
    /// What makes vectors of passages; without it search goes by words alone.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Bytes of vectors that are kept in memory, and that one search may need. Default 512 MiB.
    pub vector_bytes: usize,
    /// The program that converts imported files: one that calls [`tree_agent_convert::worker::serve`]. This one unless
    /// it is set.
    pub converter: PathBuf,
    /// How often store and fan-out are checked.
    pub health_check: Duration,
    /// How long a driver has to answer a command of a user.
    pub answer_within: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            watch: WatchConfig::default(),
            server: ServerConfig::default(),
            roles: RoleUrls::default(),
            maxima: Maxima::default(),
            quotas: Quotas::default(),
            keep_prompts: false,
            auth: None,
            role_token: None,
            embedder: None,
            vector_bytes: 512 << 20,
            // Without it, every file that must be converted is skipped with this reason.
            converter: std::env::current_exe().unwrap_or_default(),
            health_check: Duration::from_secs(2),
            answer_within: Duration::from_secs(10),
        }
    }
}
