//! The settings of a port, as flags and variables that every service and `dev` share.

use std::time::Duration;

use super::{BodyLimits, ConnectionLimits, Hosts, Origins, Proxies, ServerConfig};
use crate::config::Problems;

const MIB: u64 = 1024 * 1024;

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
    /// Addresses or networks (10.0.0.0/8) of proxies, separated by commas: the limit of connections per address does
    /// not apply to them.
    #[arg(long, env = "TREE_AGENT_PROXIES", value_name = "ADDRESSES")]
    pub proxies: Option<String>,
    /// Open connections; further clients wait [default: 10000, and at most three quarters of the open-file limit]
    #[arg(long, env = "TREE_AGENT_MAX_CONNECTIONS", value_name = "N")]
    pub max_connections: Option<String>,
    /// Open connections from one address (an IPv6 network of 64 bits counts as one); further ones are closed
    /// [default: 256]
    #[arg(long, env = "TREE_AGENT_MAX_CONNECTIONS_PER_ADDRESS", value_name = "N")]
    pub max_connections_per_address: Option<String>,
    /// Streams that one connection may have open; a client waits with further ones [default: 4096]
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
    /// Seconds that a request body may take to arrive [default: 60]
    #[arg(long, env = "TREE_AGENT_BODY_SECONDS", value_name = "SECONDS")]
    pub body_seconds: Option<String>,
    /// MiB of all request bodies that are being received; further ones are refused [default: 128]
    #[arg(long, env = "TREE_AGENT_BODY_MIB", value_name = "MIB")]
    pub body_mib: Option<String>,
    /// MiB of all answers that clients have not read; beyond it those read least recently are dropped [default: 256]
    #[arg(long, env = "TREE_AGENT_ANSWER_MIB", value_name = "MIB")]
    pub answer_mib: Option<String>,
    /// Answers that may wait for their clients; beyond them the connection with the most is cut [default: 16384]
    #[arg(long, env = "TREE_AGENT_UNREAD_ANSWERS", value_name = "N")]
    pub unread_answers: Option<String>,
    /// Requests that may be open; beyond them the connection with the most is cut [default: 32768]
    #[arg(long, env = "TREE_AGENT_OPEN_REQUESTS", value_name = "N")]
    pub open_requests: Option<String>,
}

impl ServerArgs {
    /// Checks the settings; what is wrong is added to `problems`.
    pub fn check(&self, problems: &mut Problems) -> ServerConfig {
        let default = ServerConfig::default();
        ServerConfig {
            hosts: self.hosts(problems),
            origins: self.origins(problems).unwrap_or(default.origins),
            connections: self.connections(default.connections, problems),
            bodies: self.bodies(default.bodies, problems),
            // A budget below two messages of the size limit could never send one beside another.
            answer_bytes: mib("TREE_AGENT_ANSWER_MIB", &self.answer_mib, default.answer_bytes, problems),
            unread_answers: number(
                "TREE_AGENT_UNREAD_ANSWERS",
                &self.unread_answers,
                default.unread_answers,
                problems,
            ),
            open_requests: number(
                "TREE_AGENT_OPEN_REQUESTS",
                &self.open_requests,
                default.open_requests,
                problems,
            ),
            ..default
        }
    }

    fn hosts(&self, problems: &mut Problems) -> Hosts {
        let text = set(self.hosts.as_ref()).unwrap_or_default();
        text.parse().unwrap_or_else(|wrong: String| {
            problems.add("TREE_AGENT_HOSTS", wrong);
            Hosts::default()
        })
    }

    fn origins(&self, problems: &mut Problems) -> Option<Origins> {
        let expected = "loopback, * or origins such as https://example.org, separated by commas";
        problems.parse("TREE_AGENT_ALLOWED_ORIGINS", set(self.allowed_origins.as_ref())?, expected)
    }

    fn connections(&self, default: ConnectionLimits, problems: &mut Problems) -> ConnectionLimits {
        let proxies = set(self.proxies.as_ref()).unwrap_or_default();
        let proxies = proxies.parse::<Proxies>().unwrap_or_else(|wrong| {
            problems.add("TREE_AGENT_PROXIES", wrong);
            Proxies::default()
        });
        let mut number = |name, text, default| number(name, text, default, problems);
        let (total, per_address) = (default.total, default.per_address);
        let total = number("TREE_AGENT_MAX_CONNECTIONS", &self.max_connections, total);
        let name = "TREE_AGENT_MAX_CONNECTIONS_PER_ADDRESS";
        let per_address = number(name, &self.max_connections_per_address, per_address);
        let streams = default.streams as usize;
        let streams = number("TREE_AGENT_STREAMS_PER_CONNECTION", &self.streams_per_connection, streams);
        let mut seconds = |name, text, default| seconds(name, text, default, 3_600, problems);
        ConnectionLimits {
            proxies,
            total,
            per_address,
            streams: u32::try_from(streams).unwrap_or(default.streams),
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

    fn bodies(&self, default: BodyLimits, problems: &mut Problems) -> BodyLimits {
        let deadline =
            seconds("TREE_AGENT_BODY_SECONDS", &self.body_seconds, default.deadline, 3_600, problems);
        // A budget below two messages of the size limit could never receive one beside another.
        let bytes = mib("TREE_AGENT_BODY_MIB", &self.body_mib, default.bytes, problems);
        BodyLimits { deadline, bytes }
    }
}

/// The text of a setting, unless it is empty: an empty variable counts as not set.
fn set(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}

fn number(name: &str, text: &Option<String>, default: usize, problems: &mut Problems) -> usize {
    let number = set(text.as_ref()).map(|text| problems.number(name, text, 1..=1_000_000));
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or(default)
}

fn seconds(
    name: &str,
    text: &Option<String>,
    default: Duration,
    most: u64,
    problems: &mut Problems,
) -> Duration {
    set(text.as_ref()).map_or(default, |text| problems.seconds(name, text, 1..=most))
}

/// A budget in bytes, from a number of MiB.
fn mib(name: &'static str, text: &Option<String>, default: usize, problems: &mut Problems) -> usize {
    let bytes = set(text.as_ref()).map(|text| problems.number(name, text, 16..=1_048_576) * MIB);
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_has_its_default_and_what_is_set_counts() {
        let mut problems = Problems::default();
        let config = ServerArgs::default().check(&mut problems);
        assert_eq!((config.connections.total, config.connections.per_address), (10_000, 256));
        assert_eq!(config.bodies.bytes, 128 * 1024 * 1024);
        let args = ServerArgs {
            hosts: Some("tree-agent.example.org, *.svc.cluster.local".into()),
            allowed_origins: Some("*".into()),
            proxies: Some("10.0.0.0/8,192.0.2.7".into()),
            max_connections: Some("50".into()),
            idle_seconds: Some("7".into()),
            body_mib: Some("16".into()),
            answer_mib: Some("32".into()),
            unread_answers: Some("100".into()),
            open_requests: Some("200".into()),
            ..ServerArgs::default()
        };
        let config = args.check(&mut problems);
        problems.finish().unwrap();
        assert!(config.hosts.accepts("executor.ns.svc.cluster.local"));
        assert_eq!(config.origins, Origins::Any);
        assert!(config.connections.proxies.contain("10.1.2.3".parse().unwrap()));
        assert_eq!((config.connections.total, config.connections.idle), (50, Duration::from_secs(7)));
        assert_eq!((config.bodies.bytes, config.answer_bytes), (16 * 1024 * 1024, 32 * 1024 * 1024));
        assert_eq!((config.unread_answers, config.open_requests), (100, 200));
    }

    #[test]
    fn every_wrong_setting_is_named() {
        let mut problems = Problems::default();
        let bad = || Some("-".to_owned());
        let args = ServerArgs {
            hosts: Some("https://example.org".into()),
            allowed_origins: bad(),
            proxies: bad(),
            max_connections: Some("0".into()),
            max_connections_per_address: bad(),
            streams_per_connection: bad(),
            first_request_seconds: bad(),
            idle_seconds: bad(),
            keepalive_seconds: bad(),
            keepalive_timeout_seconds: bad(),
            body_seconds: bad(),
            body_mib: Some("1".into()),
            answer_mib: Some("1".into()),
            unread_answers: bad(),
            open_requests: bad(),
        };
        args.check(&mut problems);
        let text = problems.finish().unwrap_err().to_string();
        let names = [
            "HOSTS",
            "ALLOWED_ORIGINS",
            "PROXIES",
            "MAX_CONNECTIONS",
            "MAX_CONNECTIONS_PER_ADDRESS",
            "STREAMS_PER_CONNECTION",
            "FIRST_REQUEST_SECONDS",
            "IDLE_SECONDS",
            "KEEPALIVE_SECONDS",
            "KEEPALIVE_TIMEOUT_SECONDS",
            "BODY_SECONDS",
            "BODY_MIB",
            "ANSWER_MIB",
            "UNREAD_ANSWERS",
            "OPEN_REQUESTS",
        ];
        for name in names {
            assert!(text.contains(&format!("TREE_AGENT_{name}: ")), "{name} is missing in {text}");
        }
    }
}
