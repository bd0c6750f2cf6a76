//! Which web pages may call.
//!
//! A browser sends the origin of the page that a request comes from. CORS decides whether the page may read the
//! response. Whether the request is processed is decided here, because a browser sends many requests without a
//! preflight.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use http::uri::{Authority, Uri};
use http::{HeaderMap, HeaderValue, header};

use super::hosts::is_loopback_name;

/// Which web pages, besides our own, may call from a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// Pages served from this machine's loopback addresses: a UI under development.
    #[default]
    Loopback,
    /// These origins, such as `https://example.org`.
    These(Vec<HeaderValue>),
    /// Every page.
    Any,
}

impl FromStr for Origins {
    type Err = String;

    /// `loopback`, `*`, or origins separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "loopback" => Ok(Self::Loopback),
            "*" => Ok(Self::Any),
            list => list.split(',').map(str::trim).map(configured).collect::<Result<_, _>>().map(Self::These),
        }
    }
}

fn configured(text: &str) -> Result<HeaderValue, String> {
    match HeaderValue::from_str(text) {
        Ok(value) if parse(&value).is_some() => Ok(value),
        _ => Err(format!("{text:?} is not an origin such as https://example.org")),
    }
}

/// Parses an origin; `None` for `null` and for anything else that is not an origin.
fn parse(origin: &HeaderValue) -> Option<Uri> {
    let text = origin.to_str().ok()?;
    let uri: Uri = text.parse().ok()?;
    let bare = uri.scheme().is_some() && uri.path() == "/" && uri.query().is_none() && !text.ends_with('/');
    (bare && uri.authority().is_some_and(|a| !a.as_str().contains('@'))).then_some(uri)
}

impl Origins {
    /// Whether pages of `origin` may call and read the response.
    pub fn allow(&self, origin: &HeaderValue) -> bool {
        match self {
            Self::Any => true,
            Self::These(list) => list.contains(origin),
            Self::Loopback => parse(origin).is_some_and(|uri| uri.host().is_some_and(is_loopback)),
        }
    }

    /// Whether the origin of a request to `host` may call. A request without an origin does not come from a web page,
    /// or it is a simple GET, which changes nothing.
    pub(crate) fn check(&self, headers: &HeaderMap, host: &Authority) -> bool {
        headers.get_all(header::ORIGIN).iter().all(|origin| is_own(origin, host) || self.allow(origin))
    }
}

/// Whether `origin` is the server's own. Host and port decide: behind a proxy that terminates TLS the server does not
/// know the scheme.
fn is_own(origin: &HeaderValue, host: &Authority) -> bool {
    let Some(uri) = parse(origin) else { return false };
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let port = |port: Option<u16>| port.unwrap_or(default);
    uri.host().is_some_and(|name| name.eq_ignore_ascii_case(host.host()))
        && port(uri.port_u16()) == port(host.port_u16())
}

fn is_loopback(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let address = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => host.parse::<IpAddr>().ok(),
    };
    is_loopback_name(&host) || address.is_some_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_pages_may_call_and_others_may_not() {
        let allow = |origin| Origins::Loopback.allow(&HeaderValue::from_static(origin));
        for good in ["http://localhost:5173", "http://127.0.0.1:1", "http://[::1]:80", "http://ui.localhost"]
        {
            assert!(allow(good), "{good}");
        }
        for bad in [
            "http://example.org",
            "http://localhost.example.org",
            "http://127.0.0.1.example.org",
            "http://localhost@example.org",
            "null",
            "",
        ] {
            assert!(!allow(bad), "{bad}");
        }
    }

    #[test]
    fn origins_are_checked_when_they_are_configured() {
        assert_eq!("loopback".parse(), Ok(Origins::Loopback));
        assert_eq!("*".parse(), Ok(Origins::Any));
        let two = Origins::These(vec![
            HeaderValue::from_static("https://a.b"),
            HeaderValue::from_static("http://c:1"),
        ]);
        assert_eq!("https://a.b, http://c:1".parse(), Ok(two));
        for bad in ["a.b", "https://a/", "https://a/x", "https://x@a", ""] {
            assert!(bad.parse::<Origins>().is_err(), "{bad}");
        }
    }

    #[test]
    fn our_own_pages_may_call_under_every_name_of_ours() {
        let origins: Origins = "https://elsewhere.example".parse().unwrap();
        let check = |origin: &'static str, host: &str| {
            let headers = HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))]);
            origins.check(&headers, &host.parse().unwrap())
        };
        assert!(check("http://127.0.0.1:7400", "127.0.0.1:7400"));
        assert!(check("https://Gateway.example", "gateway.example"));
        assert!(check("https://gateway.example", "gateway.example:443"));
        assert!(check("https://elsewhere.example", "gateway.example"));
        assert!(!check("http://127.0.0.1:5173", "127.0.0.1:7400"));
        assert!(!check("http://gateway.example:81", "gateway.example"));
        assert!(!check("null", "gateway.example"));
        assert!(origins.check(&HeaderMap::new(), &Authority::from_static("gateway.example")));
    }
}
