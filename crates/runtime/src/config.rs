//! Arguments that services share, and a way to report everything that is wrong with them at once.
//!
//! Arguments are taken as text and parsed by [`Problems`], because the command line parser would stop at the
//! first bad value.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tree_agent_security::{SharedSecrets, private_files};

use crate::channel::{Connector, is_server_url};
use crate::server::{ServerArgs, ServerConfig};
use crate::telemetry::LogFormat;

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
    /// Checks the arguments. Problems are added to `problems`.
    pub fn check(&self, problems: &mut Problems) -> StorageConfig {
        let remedy = "for example postgres://tree_agent@127.0.0.1:5432/tree_agent";
        let connections =
            problems.number("TREE_AGENT_DATABASE_CONNECTIONS", &self.database_connections, 2..=1_000);
        StorageConfig {
            database_url: problems.required("TREE_AGENT_DATABASE_URL", self.database_url.as_deref(), remedy),
            database_connections: connections as usize,
            redis_url: self.redis_url.clone(),
            fanout_key: Secret {
                variable: "TREE_AGENT_FANOUT_KEY",
                file_variable: "TREE_AGENT_FANOUT_KEY_FILE",
                file: self.fanout_key_file.as_deref(),
            }
            .read(problems),
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

/// Where secrets that services share come from: a file or a variable. There is no flag, because other users of a
/// machine can see command lines.
pub(crate) struct Secret<'a> {
    pub(crate) variable: &'static str,
    pub(crate) file_variable: &'static str,
    pub(crate) file: Option<&'a Path>,
}

impl Secret<'_> {
    /// The secrets from the file, else from the variable. Problems are added to `problems`.
    pub(crate) fn read(&self, problems: &mut Problems) -> Option<SharedSecrets> {
        let Some(path) = self.file.filter(|path| !path.as_os_str().is_empty()) else {
            let text = std::env::var(self.variable).ok().filter(|text| !text.trim().is_empty())?;
            let secrets = SharedSecrets::parse(&text);
            return secrets.map_err(|error| problems.add(self.variable, error)).ok();
        };
        let shown = path.display();
        match std::fs::read_to_string(path) {
            Ok(text) => {
                private_files::warn_if_shared(path);
                let secrets = SharedSecrets::parse(&text);
                let unusable = |error| {
                    problems
                        .add(self.file_variable, format_args!("{shown} cannot be used: the secret {error}"));
                };
                secrets.map_err(unusable).ok()
            }
            Err(error) => {
                problems.add(self.file_variable, format_args!("{shown} cannot be read: {error}"));
                None
            }
        }
    }
}

/// Everything that is wrong with the configuration.
#[derive(Debug, Default)]
pub struct Problems(Vec<String>);

impl Problems {
    /// Notes that `name` has a problem.
    pub fn add(&mut self, name: &str, message: impl fmt::Display) {
        self.0.push(format!("{name}: {message}"));
    }

    /// How many problems are noted.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Parses `text`; notes a problem that says what was `expected` when it is malformed.
    pub fn parse<T: FromStr>(&mut self, name: &str, text: &str, expected: &str) -> Option<T> {
        let parsed = text.trim().parse().ok();
        if parsed.is_none() {
            self.add(name, format_args!("{text:?} is not {expected}"));
        }
        parsed
    }

    /// Parses a number within `range`; the range's start stands in for a bad one.
    pub fn number(&mut self, name: &str, text: &str, range: std::ops::RangeInclusive<u64>) -> u64 {
        match text.trim().parse() {
            Ok(n) if range.contains(&n) => n,
            _ => {
                let expected =
                    format_args!("{text:?} is not a number from {} to {}", range.start(), range.end());
                self.add(name, expected);
                *range.start()
            }
        }
    }

    /// Parses whole seconds within `range`.
    pub fn seconds(&mut self, name: &str, text: &str, range: std::ops::RangeInclusive<u64>) -> Duration {
        Duration::from_secs(self.number(name, text, range))
    }

    /// The value of something that has no default; notes a problem with the `remedy` when it is missing.
    pub fn required(&mut self, name: &str, value: Option<&str>, remedy: &str) -> String {
        match value.map(str::trim).filter(|v| !v.is_empty()) {
            Some(value) => value.to_owned(),
            None => {
                self.add(name, format_args!("is not set; {remedy}"));
                String::new()
            }
        }
    }

    /// Comma-separated URLs of peers, at least one, each with scheme and host.
    pub fn urls(&mut self, name: &str, text: &str) -> Vec<http::Uri> {
        let mut urls = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            match part.parse::<http::Uri>() {
                Ok(url) if is_server_url(&url) => urls.push(url),
                _ => self.add(
                    name,
                    format_args!(
                        "{part:?} is not a URL such as http://127.0.0.1:7402 or https://example.org"
                    ),
                ),
            }
        }
        if urls.is_empty() && text.trim().is_empty() {
            self.add(name, "is empty; name at least one URL, several separated by commas");
        }
        urls
    }

    /// `Ok` when nothing was noted.
    pub fn finish(self) -> Result<(), ConfigError> {
        if self.0.is_empty() { Ok(()) } else { Err(ConfigError(self.0)) }
    }
}

/// The configuration cannot be used. Lists every problem, one a line.
#[derive(Debug)]
pub struct ConfigError(Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used:")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for ConfigError {}

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
