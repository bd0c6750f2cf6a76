//! URLs of servers.

use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;
use rustls::pki_types::ServerName;

/// Whether `url` is http:// or https:// with a valid host.
pub(crate) fn is_server_url(url: &Uri) -> bool {
    let host = host(url);
    !host.is_empty()
        && (url.scheme() == Some(&Scheme::HTTP) || is_https(url) && ServerName::try_from(host).is_ok())
}

pub(crate) fn is_https(url: &Uri) -> bool {
    url.scheme() == Some(&Scheme::HTTPS)
}

/// The host without the brackets of an IPv6 address.
pub(crate) fn host(url: &Uri) -> &str {
    url.host().unwrap_or_default().trim_matches(['[', ']'])
}

/// Whether `url` is on this machine: a loopback address or `localhost`, which the files of every system name. Other
/// names do not count, not even those below localhost: systems ask DNS for them, and whoever answers there chooses the
/// address. What goes to this machine may be secret, and goes through no proxy.
pub fn is_loopback(url: &Uri) -> bool {
    let host = host(url);
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// The base URL of an API, with `/` at its end. If `text` has no path, the `usual` one is added. The error says what is
/// wrong, and that the key belongs into `key_variable`.
pub fn api_url(text: &str, usual: &str, key_variable: &str) -> Result<String, String> {
    let url: Option<Uri> = text.trim().parse().ok().filter(is_server_url);
    // The text is not shown: it may hold a password.
    let url = url.ok_or("is not a URL such as http://127.0.0.1:8080/v1")?;
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) || url.query().is_some() {
        return Err(format!("holds a user or a query; put the key into {key_variable}"));
    }
    let text = text.trim().trim_end_matches('/');
    // People copy the whole address of a request.
    let text = text.strip_suffix("/chat/completions").unwrap_or(text);
    Ok(if url.path() == "/" { format!("{text}/{usual}") } else { format!("{text}/") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_request_is_that_of_its_server() {
        for (text, expected) in [
            ("http://127.0.0.1:1/v1/chat/completions", "http://127.0.0.1:1/v1/"),
            (" http://127.0.0.1:1/v1/chat/completions/ ", "http://127.0.0.1:1/v1/"),
            ("http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1/"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1/v1/"),
        ] {
            assert_eq!(api_url(text, "v1/", "KEY").as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for here in [
            "http://127.0.0.1:1",
            "http://127.1.2.3",
            "http://[::1]:1",
            "http://[::ffff:127.0.0.1]",
            "http://localhost",
            "http://LocalHost:80",
        ] {
            assert!(is_loopback(&here.parse().unwrap()), "{here}");
        }
        for elsewhere in [
            "http://10.0.0.1",
            "http://localhost.example",
            "http://127.0.0.1.example",
            "http://[::2]",
            "http://localhost.",
            "http://a.localhost",
        ] {
            assert!(!is_loopback(&elsewhere.parse().unwrap()), "{elsewhere}");
        }
    }
}
