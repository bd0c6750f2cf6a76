//! Arguments that services share. What is wrong with them is reported at once, see [`Problems`].

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tree_agent_security::SharedSecrets;

use crate::client::channel::Connector;
use crate::errors::chain;
use crate::problems::Secret;
use crate::server::settings::{ServerArgs, ServerConfig};
use crate::telemetry::LogFormat;

pub use crate::problems::{ConfigError, Problems};

/// The folder of tree-agent in the data folder of the user; none if the user has no home.
pub fn user_data_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")));
    data.map(|data| data.join("tree-agent"))
}

/// Where to listen, and how long to drain.
#[derive(Clone, Debug, clap::Args)]
pub struct ListenArgs {
    /// Address to listen on, such as 127.0.0.1:7400 (port 0: any free one).
    #[arg(long, env = "TREE_AGENT_LISTEN", value_name = "ADDR")]
    pub listen: Option<String>,
    /// Address for GET /metrics alone, such as 127.0.0.1:9400 [default: beside the calls]
    #[arg(long, env = "TREE_AGENT_METRICS_LISTEN", value_name = "ADDR")]
    pub metrics_listen: Option<String>,
    /// Seconds that open calls get to end after SIGTERM.
    #[arg(long, env = "TREE_AGENT_DRAIN_SECONDS", value_name = "SECONDS", default_value = "10")]
    pub drain_seconds: String,
    /// Who may connect, and how much a client may hold.
    #[command(flatten)]
    pub server: ServerArgs,
}

impl ListenArgs {
    /// The address; loopback and `default_port` when none was given.
    pub fn address(&self, default_port: u16, problems: &mut Problems) -> SocketAddr {
        let default = SocketAddr::from(([127, 0, 0, 1], default_port));
        match &self.listen {
            Some(text) => problems
                .parse("TREE_AGENT_LISTEN", text, "an address and port such as 127.0.0.1:7400")
                .unwrap_or(default),
            None => default,
        }
    }

    /// Everything that can be set for the port, checked.
    pub fn server(&self, problems: &mut Problems) -> ServerConfig {
        let (drain, metrics) = (self.drain(problems), self.metrics(problems));
        ServerConfig { drain, metrics, ..self.server.check(problems) }
    }

    /// Where metrics are served; `None` for beside the calls.
    fn metrics(&self, problems: &mut Problems) -> Option<SocketAddr> {
        let text = self.metrics_listen.as_deref().filter(|text| !text.trim().is_empty())?;
        problems.parse("TREE_AGENT_METRICS_LISTEN", text, "an address and port such as 127.0.0.1:9400")
    }

    /// How long open calls get to end.
    fn drain(&self, problems: &mut Problems) -> Duration {
        problems.seconds("TREE_AGENT_DRAIN_SECONDS", &self.drain_seconds, 0..=3_600)
    }
}

/// What to log, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// What to log on stderr: a level, or `target=level` pairs separated by commas.
    #[arg(long = "log", env = "TREE_AGENT_LOG", value_name = "FILTER", default_value = "info")]
    pub filter: String,
    /// text or json.
    #[arg(long, env = "TREE_AGENT_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: String,
}

impl LogArgs {
    /// The format.
    pub fn format(&self, problems: &mut Problems) -> LogFormat {
        problems.parse("TREE_AGENT_LOG_FORMAT", &self.log_format, "text or json").unwrap_or_default()
    }
}

/// Where the services that hold runs find Postgres and Redis.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Storage")]
pub struct StorageArgs {
    /// The Postgres database, such as postgres://user@host:5432/tree_agent.
    #[arg(long, env = "TREE_AGENT_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// Maximum of connections to Postgres.
    #[arg(long, env = "TREE_AGENT_DATABASE_CONNECTIONS", value_name = "N", default_value = "8")]
    pub database_connections: String,
    /// The Redis server, such as redis://host:6379; rediss:// is over TLS.
    #[arg(
        long,
        env = "TREE_AGENT_REDIS_URL",
        value_name = "URL",
        default_value = "redis://127.0.0.1:6379",
        hide_env_values = true
    )]
    pub redis_url: String,
    /// A file with the key that authenticates what services publish over Redis; gateways and planners need the same
    /// one. TREE_AGENT_FANOUT_KEY holds a key itself
    #[arg(long, env = "TREE_AGENT_FANOUT_KEY_FILE", value_name = "FILE")]
    pub fanout_key_file: Option<PathBuf>,
}

/// [`StorageArgs`], checked.
#[derive(Clone)]
pub struct StorageConfig {
    /// The Postgres database.
    pub database_url: String,
    /// Maximum of connections to it.
    pub database_connections: usize,
    /// The Redis server.
    pub redis_url: String,
    /// What authenticates publications over Redis; without it they only say that there is something new in the log.
    pub fanout_key: Option<SharedSecrets>,
}

impl StorageArgs {
    /// Checks the arguments. Problems are added to `problems`. `database` and `redis` read the URLs as their clients
    /// do.
    pub fn check<D: Error + 'static, R: Error + 'static>(
        &self,
        problems: &mut Problems,
        database: impl FnOnce(&str) -> Result<(), D>,
        redis: impl FnOnce(&str) -> Result<(), R>,
    ) -> StorageConfig {
        let remedy = "for example postgres://tree_agent@127.0.0.1:5432/tree_agent";
        let connections =
            problems.number("TREE_AGENT_DATABASE_CONNECTIONS", &self.database_connections, 2..=1_000);
        let fanout_key = Secret {
            variable: "TREE_AGENT_FANOUT_KEY",
            file_variable: "TREE_AGENT_FANOUT_KEY_FILE",
            file: self.fanout_key_file.as_deref(),
        };
        let database_url = problems.required("TREE_AGENT_DATABASE_URL", self.database_url.as_deref(), remedy);
        if !database_url.is_empty()
            && let Err(error) = database(&database_url)
        {
            problems.add("TREE_AGENT_DATABASE_URL", chain(&error));
        }
        redis(&self.redis_url).unwrap_or_else(|error| problems.add("TREE_AGENT_REDIS_URL", chain(&error)));
        StorageConfig {
            database_url,
            database_connections: connections as usize,
            redis_url: self.redis_url.clone(),
            fanout_key: fanout_key.read().unwrap_or_else(|(name, text)| {
                problems.add(name, text);
                None
            }),
        }
    }
}

/// Where the role services are found.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Calls between services")]
pub struct RolesArgs {
    /// URLs of planners, separated by commas.
    #[arg(long, env = "TREE_AGENT_PLANNERS", value_name = "URLS", default_value = "http://127.0.0.1:7401")]
    pub planners: String,
    /// URLs of executors, separated by commas.
    #[arg(long, env = "TREE_AGENT_EXECUTORS", value_name = "URLS", default_value = "http://127.0.0.1:7402")]
    pub executors: String,
    /// URLs of aggregators, separated by commas.
    #[arg(
        long,
        env = "TREE_AGENT_AGGREGATORS",
        value_name = "URLS",
        default_value = "http://127.0.0.1:7403"
    )]
    pub aggregators: String,
}

/// [`RolesArgs`], checked; each URL may stand for several replicas behind one host name.
#[derive(Clone, Debug, Default)]
pub struct RoleUrls {
    /// The planners.
    pub planners: Vec<http::Uri>,
    /// The executors.
    pub executors: Vec<http::Uri>,
    /// The aggregators.
    pub aggregators: Vec<http::Uri>,
    /// How they are connected to, with the role token as its credentials.
    pub connector: Connector,
}

impl RolesArgs {
    /// Checks the arguments. Problems are added to `problems`. `connector` sends the role token.
    pub fn check(&self, connector: Connector, problems: &mut Problems) -> RoleUrls {
        let mut urls = |name, text: &str| {
            let urls = problems.urls(name, text);
            connector.check_urls(name, &urls, problems);
            urls
        };
        let planners = urls("TREE_AGENT_PLANNERS", &self.planners);
        let executors = urls("TREE_AGENT_EXECUTORS", &self.executors);
        let aggregators = urls("TREE_AGENT_AGGREGATORS", &self.aggregators);
        RoleUrls { planners, executors, aggregators, connector }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_reported_at_once() {
        let mut problems = Problems::default();
        let listen = ListenArgs {
            listen: Some("nowhere".into()),
            metrics_listen: Some("9400".into()),
            drain_seconds: "-1".into(),
            server: ServerArgs::default(),
        };
        listen.address(7400, &mut problems);
        listen.server(&mut problems);
        LogArgs { filter: "info".into(), log_format: "xml".into() }.format(&mut problems);
        problems.required("TREE_AGENT_DATABASE_URL", None, "for example postgres://localhost/tree_agent");
        problems.urls("TREE_AGENT_EXECUTORS", "http://a:1, ftp://b");
        let text = problems.finish().unwrap_err().to_string();
        for name in [
            "TREE_AGENT_LISTEN: \"nowhere\"",
            "TREE_AGENT_METRICS_LISTEN: \"9400\"",
            "TREE_AGENT_DRAIN_SECONDS: \"-1\"",
            "TREE_AGENT_LOG_FORMAT: \"xml\"",
            "TREE_AGENT_DATABASE_URL: is not set",
            "TREE_AGENT_EXECUTORS: \"ftp://b\"",
        ] {
            assert!(text.contains(name), "{name} is missing in {text}");
        }
    }

    #[test]
    fn good_values_are_taken() {
        let mut problems = Problems::default();
        let listen = ListenArgs {
            listen: None,
            metrics_listen: None,
            drain_seconds: "3".into(),
            server: ServerArgs::default(),
        };
        assert_eq!(listen.address(7400, &mut problems).port(), 7400);
        assert_eq!(listen.server(&mut problems).drain, Duration::from_secs(3));
        assert_eq!(problems.urls("X", "http://a:1,https://b:2").len(), 2);
        problems.finish().unwrap();
    }
}
