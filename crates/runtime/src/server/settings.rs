//! The settings of a port, as flags and variables that every service and `dev` share.

use std::net::SocketAddr;
use std::time::Duration;

use super::hosts::Hosts;
use super::origins::Origins;
use crate::problems::Problems;

/// The default time that open calls have to end after shutdown.
pub const DRAIN: Duration = Duration::from_secs(10);

/// Everything that can be set for a port.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The time that open calls have to end after shutdown. Default [`DRAIN`].
    pub drain: Duration,
    /// The address for metrics; `None` serves them on the port of the calls.
    pub metrics: Option<SocketAddr>,
    /// The names under which the server may be called, besides IP addresses and loopback names.
    pub hosts: Hosts,
    /// Which web pages, besides the server's own, may call from a browser.
    pub origins: Origins,
    /// Limits of connections.
    pub connections: ConnectionLimits,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            drain: DRAIN,
            metrics: None,
            hosts: Hosts::default(),
            origins: Origins::default(),
            connections: ConnectionLimits::default(),
        }
    }
}

/// Limits of connections.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// Connections that may be open; further clients wait. Default 10,000, and never more than three quarters of the
    /// files that the process may have open.
    pub total: usize,
    /// Streams that a connection may have open; a client waits with further ones. If it is not set, the server decides.
    pub streams: Option<u32>,
    /// How long a new connection may take to send the head of its first request. Default 10 s.
    pub first_request: Duration,
    /// How long a connection stays without an open request, and how long a client of HTTP/1.1 may read nothing.
    /// Default 300 s.
    pub idle: Duration,
    /// Silence after which a client is pinged. Default 30 s.
    pub keep_alive: Duration,
    /// How long the answer to a ping may take before the connection is closed with all its streams. Default 20 s.
    pub keep_alive_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            total: 10_000,
            streams: None,
            first_request: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            keep_alive: Duration::from_secs(30),
            keep_alive_timeout: Duration::from_secs(20),
        }
    }
}

/// Who may connect to a port, and how much a client may hold there. A value that is not set has its default.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Connections")]
pub struct ServerArgs {
    /// Host names under which this server may be called, separated by commas; *.example.org stands for every name below
    /// example.org. IP addresses and localhost always work.
    #[arg(long, env = "TREE_AGENT_HOSTS", value_name = "NAMES")]
    pub hosts: Option<String>,
    /// Web pages that may call from a browser, besides our own: loopback, * for any, or origins such as
    /// `https://example.org` separated by commas [default: loopback]
    #[arg(long, env = "TREE_AGENT_ALLOWED_ORIGINS", value_name = "ORIGINS")]
    pub allowed_origins: Option<String>,
    /// Open connections; further clients wait [default: 10000, and at most three quarters of the open-file limit]
    #[arg(long, env = "TREE_AGENT_MAX_CONNECTIONS", value_name = "N")]
    pub max_connections: Option<String>,
    /// Streams that one connection may have open; a client waits with further ones [default: 250 at the gateway, 4096
    /// at a role]
    #[arg(long, env = "TREE_AGENT_STREAMS_PER_CONNECTION", value_name = "N")]
    pub streams_per_connection: Option<String>,
    /// Seconds that a new connection has to send the head of its first request [default: 10]
    #[arg(long, env = "TREE_AGENT_FIRST_REQUEST_SECONDS", value_name = "SECONDS")]
    pub first_request_seconds: Option<String>,
    /// Seconds after which a connection without an open request is closed [default: 300]
    #[arg(long, env = "TREE_AGENT_IDLE_SECONDS", value_name = "SECONDS")]
    pub idle_seconds: Option<String>,
    /// Seconds of silence after which a client is pinged [default: 30]
    #[arg(long, env = "TREE_AGENT_KEEPALIVE_SECONDS", value_name = "SECONDS")]
    pub keepalive_seconds: Option<String>,
    /// Seconds that the answer to a ping may take before the connection is cut [default: 20]
    #[arg(long, env = "TREE_AGENT_KEEPALIVE_TIMEOUT_SECONDS", value_name = "SECONDS")]
    pub keepalive_timeout_seconds: Option<String>,
}

impl ServerArgs {
    /// Checks the settings; what is wrong is added to `problems`.
    pub fn check(&self, problems: &mut Problems) -> ServerConfig {
        let default = ServerConfig::default();
        let hosts = set(&self.hosts).unwrap_or_default().parse().unwrap_or_else(|wrong: String| {
            problems.add("TREE_AGENT_HOSTS", wrong);
            Hosts::default()
        });
        let origins = set(&self.allowed_origins).and_then(|text| {
            let expected = "loopback, * or origins such as https://example.org, separated by commas";
            problems.parse("TREE_AGENT_ALLOWED_ORIGINS", text, expected)
        });
        let connections = self.connections(default.connections, problems);
        ServerConfig { hosts, origins: origins.unwrap_or(default.origins), connections, ..default }
    }

    fn connections(&self, default: ConnectionLimits, problems: &mut Problems) -> ConnectionLimits {
        let mut number = |name, text, most| {
            let number = set(text).map(|text| problems.number(name, text, 1..=most));
            number.and_then(|number| u32::try_from(number).ok())
        };
        let total = number("TREE_AGENT_MAX_CONNECTIONS", &self.max_connections, 1_000_000);
        let streams = number("TREE_AGENT_STREAMS_PER_CONNECTION", &self.streams_per_connection, 1_000_000);
        let mut seconds = |name, text, default| {
            number(name, text, 3_600).map_or(default, |seconds| Duration::from_secs(seconds.into()))
        };
        ConnectionLimits {
            total: total.map_or(default.total, |total| total as usize),
            streams,
            first_request: seconds(
                "TREE_AGENT_FIRST_REQUEST_SECONDS",
                &self.first_request_seconds,
                default.first_request,
            ),
            idle: seconds("TREE_AGENT_IDLE_SECONDS", &self.idle_seconds, default.idle),
            keep_alive: seconds("TREE_AGENT_KEEPALIVE_SECONDS", &self.keepalive_seconds, default.keep_alive),
            keep_alive_timeout: seconds(
                "TREE_AGENT_KEEPALIVE_TIMEOUT_SECONDS",
                &self.keepalive_timeout_seconds,
                default.keep_alive_timeout,
            ),
        }
    }
}

/// The text of a setting, unless it is empty: an empty variable counts as not set.
fn set(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_has_its_default_and_what_is_set_counts() {
        let mut problems = Problems::default();
        let config =
            ServerArgs { idle_seconds: Some(" ".into()), ..ServerArgs::default() }.check(&mut problems);
        assert_eq!((config.connections.total, config.connections.streams), (10_000, None));
        assert_eq!(config.connections.idle, Duration::from_secs(300));
        let args = ServerArgs {
            hosts: Some("tree-agent.example.org, *.svc.cluster.local".into()),
            allowed_origins: Some("*".into()),
            max_connections: Some("50".into()),
            streams_per_connection: Some("60".into()),
            idle_seconds: Some("7".into()),
            ..ServerArgs::default()
        };
        let config = args.check(&mut problems);
        problems.finish().unwrap();
        assert!(config.hosts.accepts("executor.ns.svc.cluster.local"));
        assert_eq!(config.origins, Origins::Any);
        assert_eq!((config.connections.total, config.connections.streams), (50, Some(60)));
        assert_eq!(config.connections.idle, Duration::from_secs(7));
    }

    #[test]
    fn every_wrong_setting_is_named() {
        let mut problems = Problems::default();
        let bad = || Some("-".to_owned());
        let args = ServerArgs {
            hosts: Some("https://example.org".into()),
            allowed_origins: bad(),
            max_connections: Some("0".into()),
            streams_per_connection: bad(),
            first_request_seconds: bad(),
            idle_seconds: bad(),
            keepalive_seconds: bad(),
            keepalive_timeout_seconds: Some("3601".into()),
        };
        args.check(&mut problems);
        let text = problems.finish().unwrap_err().to_string();
        let names = [
            "HOSTS",
            "ALLOWED_ORIGINS",
            "MAX_CONNECTIONS",
            "STREAMS_PER_CONNECTION",
            "FIRST_REQUEST_SECONDS",
            "IDLE_SECONDS",
            "KEEPALIVE_SECONDS",
            "KEEPALIVE_TIMEOUT_SECONDS",
        ];
        for name in names {
            assert!(text.contains(&format!("TREE_AGENT_{name}: ")), "{name} is missing in {text}");
        }
    }
}
