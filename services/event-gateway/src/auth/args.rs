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
    /// What the token of an administrator says: NAME for a claim that is true, or NAME=VALUE for one that is or holds
    /// this text, such as groups=tree-agent-admins. Dots lead into objects.
    #[arg(long, env = "TREE_AGENT_ADMIN_CLAIM", value_name = "CLAIM")]
    pub admin_claim: Option<String>,
    /// Let everybody who reaches the gateway do everything, also on an address that other machines can reach.
    #[arg(long, env = "TREE_AGENT_ALLOW_ANYBODY", value_parser = clap::builder::BoolishValueParser::new())]
    pub allow_anybody: bool,
}

impl AuthArgs {
    /// Reads the keys; none when authentication is off, which a gateway on an `address` that others can reach must be
    /// told. What is wrong or missing is noted in `problems`.
    pub fn check(&self, address: SocketAddr, problems: &mut Problems) -> Option<Authenticator> {
        let set = |text: &Option<String>| text.as_deref().map(str::trim).unwrap_or_default().to_owned();
        let (issuer, audience) = (set(&self.auth_issuer), set(&self.auth_audience));
        let admin_claim = Some(set(&self.admin_claim)).filter(|claim| !claim.is_empty());
        let Some(jwks) = self.auth_jwks.clone().filter(|path| !path.as_os_str().is_empty()) else {
            if !issuer.is_empty() || !audience.is_empty() {
                let text = "is not set, but an issuer or an audience is; name the file with the keys, or leave all three out";
                problems.add("TREE_AGENT_AUTH_JWKS", text);
            } else if !address.ip().is_loopback() && !self.allow_anybody {
                let text = format!(
                    "is not set, so whoever reaches {address} could read, create and delete everything; set it, listen \
                     on 127.0.0.1, or set TREE_AGENT_ALLOW_ANYBODY"
                );
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
        let admin_claim = admin_claim.map(|claim| claim.parse()).transpose();
        let admin_claim =
            admin_claim.map_err(|error| problems.add("TREE_AGENT_ADMIN_CLAIM", error)).ok().flatten();
        let check_every = Duration::from_secs(30);
        let config = AuthConfig { jwks, issuer, audience, admin_claim, check_every };
        Authenticator::load(config).map_err(|error| problems.add("TREE_AGENT_AUTH_JWKS", chain(&error))).ok()
    }
}
