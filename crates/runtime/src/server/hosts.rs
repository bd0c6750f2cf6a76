//! Which host names a server answers for.
//!
//! A web page on a foreign name that resolves to this machine (DNS rebinding) has the same origin as the server, so the
//! browser lets it read responses. But it cannot choose the host that the browser sends. So the server answers only for
//! hosts that it knows.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;

/// The configured names. IP addresses and loopback names (`localhost`, `*.localhost`) are always accepted.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<[Pattern]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Name(String),
    /// Every name that ends with this, which begins with a dot.
    Below(String),
}

/// Why the host of a request is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostError {
    /// The request names no host, several, or one that is malformed.
    Malformed,
    /// This server does not answer for that name.
    Unknown(String),
}

impl FromStr for Hosts {
    type Err = String;

    /// Names separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(pattern).collect()
    }
}

impl FromIterator<Pattern> for Hosts {
    fn from_iter<T: IntoIterator<Item = Pattern>>(patterns: T) -> Self {
        Self(patterns.into_iter().collect())
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if !name.split('.').all(label) {
        return Err(format!(
            "{text:?} is not a host name such as tree-agent.example.org or *.example.org; leave out scheme and port"
        ));
    }
    let name = name.to_ascii_lowercase();
    Ok(if text.starts_with("*.") { Pattern::Below(format!(".{name}")) } else { Pattern::Name(name) })
}

impl Hosts {
    /// Whether the server answers for `host`, which is a name or an address without a port.
    pub fn accepts(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        address(&host).is_some()
            || is_loopback_name(&host)
            || self.0.iter().any(|pattern| match pattern {
                Pattern::Name(name) => host == *name,
                Pattern::Below(suffix) => host.strip_suffix(suffix.as_str()).is_some_and(has_labels),
            })
    }

    /// Returns the host of a request. HTTP/2 sends it in `:authority`, which hyper puts into the URI; HTTP/1.1 sends it
    /// in the `Host` header. If a request has both, they must be equal.
    pub(crate) fn check(&self, parts: &Parts) -> Result<Authority, HostError> {
        let mut headers = parts.headers.get_all(HOST).iter();
        let header = match (headers.next(), headers.next()) {
            (None, _) => None,
            (Some(value), None) => {
                Some(Authority::try_from(value.as_bytes()).map_err(|_| HostError::Malformed)?)
            }
            (Some(_), Some(_)) => return Err(HostError::Malformed),
        };
        let named = parts.uri.authority().cloned();
        for authority in [&named, &header].into_iter().flatten() {
            let (host, _) = host_and_port(authority).ok_or(HostError::Malformed)?;
            if !self.accepts(host) {
                return Err(HostError::Unknown(host.to_owned()));
            }
        }
        match (named, header) {
            (Some(named), Some(header)) if named != header => Err(HostError::Malformed),
            (Some(host), _) | (None, Some(host)) => Ok(host),
            (None, None) => Err(HostError::Malformed),
        }
    }
}

/// The host and the port of `authority`, if it is nothing but these. No client needs user information, and it makes a
/// host easy to misread. For `[::1].example.org`, [`Authority::host`] is `[::1]`, so what follows the host is checked
/// as well.
pub(super) fn host_and_port(authority: &Authority) -> Option<(&str, Option<u16>)> {
    let host = authority.host();
    match authority.as_str().strip_prefix(host)? {
        "" => Some((host, None)),
        rest => {
            let port = rest.strip_prefix(':').filter(|port| port.bytes().all(|b| b.is_ascii_digit()))?;
            Some((host, Some(port.parse().ok()?)))
        }
    }
}

/// The address that a host is, if it is one: that of IPv6 stands in brackets.
pub(super) fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}

/// Whether browsers take a name for this machine, without asking DNS (RFC 6761). Other clients may ask: see
/// [`crate::channel::is_loopback`].
pub(super) fn is_loopback_name(host: &str) -> bool {
    host == "localhost" || host.strip_suffix(".localhost").is_some_and(has_labels)
}

/// Whether no label of a name is empty.
fn has_labels(name: &str) -> bool {
    name.split('.').all(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn check(hosts: &Hosts, uri: &str, headers: &[&str]) -> Result<Authority, HostError> {
        let mut request = Request::get(uri);
        for host in headers {
            request = request.header(HOST, *host);
        }
        hosts.check(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn addresses_loopback_names_and_configured_names_are_accepted() {
        let hosts: Hosts = "tree-agent.Example.org,*.svc.cluster.local".parse().unwrap();
        for good in [
            "127.0.0.1",
            "192.0.2.7",
            "[::1]",
            "[2001:db8::1]",
            "localhost",
            "LOCALHOST",
            "localhost.",
            "ui.localhost",
            "tree-agent.example.org",
            "TREE-AGENT.example.ORG",
            "executor.ns.svc.cluster.local",
        ] {
            assert!(hosts.accepts(good), "{good}");
        }
        for bad in [
            "example.org",
            "x.tree-agent.example.org",
            "localhost.example.org",
            "notlocalhost",
            "127.0.0.1.example.org",
            "svc.cluster.local",
            ".localhost",
            "a..localhost",
            ".a.localhost",
            "localhost..",
            ".svc.cluster.local",
            "a..svc.cluster.local",
            "127.1",
            "0x7f000001",
            "2130706433",
            "[127.0.0.1]",
            "::1",
            "",
        ] {
            assert!(!hosts.accepts(bad), "{bad}");
        }
    }

    #[test]
    fn names_are_configured_without_scheme_and_port() {
        for bad in ["https://example.org", "example.org:80", "a..b", "*", "*.", "a b", "exa*mple"] {
            assert!(bad.parse::<Hosts>().is_err(), "{bad}");
        }
        assert!("".parse::<Hosts>().is_ok());
    }

    #[test]
    fn a_request_names_one_host() {
        let hosts = Hosts::default();
        let unknown = |host: &str| Err(HostError::Unknown(host.to_owned()));
        assert_eq!(check(&hosts, "/", &["127.0.0.1:7400"]).unwrap(), "127.0.0.1:7400");
        assert_eq!(check(&hosts, "http://localhost:7400/", &[]).unwrap(), "localhost:7400");
        assert_eq!(check(&hosts, "/", &["evil.example:7400"]), unknown("evil.example"));
        assert_eq!(check(&hosts, "http://evil.example/", &["localhost"]), unknown("evil.example"));
        assert_eq!(check(&hosts, "http://localhost/", &["evil.example"]), unknown("evil.example"));
        for headers in [&[][..], &["localhost", "localhost"], &["a b"], &[""], &["x@localhost"]] {
            assert_eq!(check(&hosts, "/", headers), Err(HostError::Malformed), "{headers:?}");
        }
        for host in [
            "[::1].evil.example",
            "[::1].evil.example:80",
            "[::1]evil.example",
            "localhost@localhost",
            "localhost:80@evil.example",
            "localhost:99999",
            "localhost:",
            "localhost:+80",
        ] {
            assert_eq!(check(&hosts, "/", &[host]), Err(HostError::Malformed), "{host}");
        }
        assert_eq!(check(&hosts, "http://localhost/", &["127.0.0.1"]), Err(HostError::Malformed));
    }
}
