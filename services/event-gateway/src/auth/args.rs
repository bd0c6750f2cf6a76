//! How authentication is switched on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tree_agent_runtime::config::Problems;
use tree_agent_runtime::errors::chain;

use super::verify::{AuthConfig, Authenticator};

/// Which tokens a gateway accepts.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Authentication")]
pub struct AuthArgs {
    /// A JWKS file with the public keys of the issuer of tokens (EdDSA, ES256, RS256), read again when it changes.
    /// Callers must then show a token of it.
    #[arg(long, env = "TREE_AGENT_AUTH_JWKS", value_name = "FILE")]
    pub auth_jwks: Option<PathBuf>,
    /// The issuer that a token must name (iss).
    #[arg(long, env = "TREE_AGENT_AUTH_ISSUER", value_name = "ISSUER")]
    pub auth_issuer: Option<String>,
    /// The audience that a token must name (aud).
    #[arg(long, env = "TREE_AGENT_AUTH_AUDIENCE", value_name = "AUDIENCE")]
    pub auth_audience: Option<String>,
}

impl AuthArgs {
    /// Reads the keys; none when authentication is off. What is wrong or missing is noted in `problems`.
    pub fn check(&self, problems: &mut Problems) -> Option<Authenticator> {
        let set = |text: &Option<String>| text.as_deref().map(str::trim).unwrap_or_default().to_owned();
        let (issuer, audience) = (set(&self.auth_issuer), set(&self.auth_audience));
        let Some(jwks) = self.auth_jwks.clone().filter(|path| !path.as_os_str().is_empty()) else {
            if !issuer.is_empty() || !audience.is_empty() {
                let text = "is not set, but an issuer or an audience is; name the file with the keys, or leave all three out";
                problems.add("TREE_AGENT_AUTH_JWKS", text);
            }
            return None;
        };
        let missing =
            "is not set; with TREE_AGENT_AUTH_JWKS it must be, or tokens that were made for others would do";
        for (name, value) in [("TREE_AGENT_AUTH_ISSUER", &issuer), ("TREE_AGENT_AUTH_AUDIENCE", &audience)] {
            if value.is_empty() {
                problems.add(name, missing);
            }
        }
        let config = AuthConfig { jwks, issuer, audience, check_every: Duration::from_secs(30) };
        Authenticator::load(config).map_err(|error| problems.add("TREE_AGENT_AUTH_JWKS", chain(&error))).ok()
    }
}

/// Warns if the gateway asks for no tokens on an address that other machines can reach.
pub(crate) fn warn_if_public(address: SocketAddr, authenticator: Option<&Authenticator>) {
    if authenticator.is_none() && !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "ANYBODY WHO REACHES THIS ADDRESS MAY READ, CREATE AND CANCEL EVERY RUN: set TREE_AGENT_AUTH_JWKS to ask for \
             tokens, or listen on 127.0.0.1"
        );
    }
}
