//! Which web pages may call.
//!
//! A browser sends the origin of the page that a request comes from. CORS decides whether the page may read the
//! response. Whether the request is processed is decided here, because a browser sends many requests without a
//! preflight.

use std::str::FromStr;

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, header};

use super::hosts::{address, host_and_port, is_loopback_name};

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
        Ok(value) if Origin::parse(&value).is_some() => Ok(value),
        _ => Err(format!("{text:?} is not an origin such as https://example.org")),
    }
}

/// The parts of an origin that decide.
struct Origin {
    is_https: bool,
    authority: Authority,
}

impl Origin {
    /// Parses `http://HOST[:PORT]` and the same with `https`. `None` for `null` and anything else: a path, a query, a
    /// fragment or user information would make the host easy to misread.
    fn parse(origin: &HeaderValue) -> Option<Self> {
        let (scheme, authority) = origin.to_str().ok()?.split_once("://")?;
        let is_https = match scheme {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority: Authority = authority.parse().ok()?;
        host_and_port(&authority)?;
        Some(Self { is_https, authority })
    }
}

impl Origins {
    /// Whether pages of `origin` may call and read the response.
    pub fn allow(&self, origin: &HeaderValue) -> bool {
        match self {
            Self::Any => true,
            Self::These(list) => list.contains(origin),
            Self::Loopback => Origin::parse(origin).is_some_and(|o| is_loopback(o.authority.host())),
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
    let Some(Origin { is_https, authority }) = Origin::parse(origin) else { return false };
    let default = if is_https { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    authority.host().eq_ignore_ascii_case(host.host()) && port(&authority) == port(host)
}

fn is_loopback(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    is_loopback_name(&host) || address(&host).is_some_and(|ip| ip.is_loopback())
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
            "http://example.org@localhost",
            "http://127.0.0.1#.example.org",
            "http://127.0.0.1?.example.org",
            "http://127.0.0.1/.example.org",
            "http://127.0.0.1\\.example.org",
            "http://[::1].example.org",
            "http://[::1].example.org:80",
            "http://localhost:80:80",
            "http://localhost:99999",
            "http://localhost/",
            "javascript://127.0.0.1",
            "moz-extension://localhost",
            "file://localhost",
            "//localhost",
            "localhost",
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
        for bad in
            ["a.b", "https://a/", "https://a/x", "https://a?x", "https://a#x", "https://x@a", "ftp://a", ""]
        {
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
