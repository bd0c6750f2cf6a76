//! The token with which the services of a cluster call each other.
//!
//! Planners and gateways send it to role services, which refuse every call without it, except health, because probes
//! have no token. Roles send it to gateways with the id of the run that they work for ([`RUN_ID`]). A gateway then
//! shows them what that run may see.

use std::path::PathBuf;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use tonic::service::Routes;
use tonic::{Code, Status};
use tree_agent_security::{SharedSecret, SharedSecrets};

use crate::client::credentials::Credentials;
use crate::errors::status;
use crate::problems::{Problems, Secret};

/// The header that names the run for which a role calls a gateway.
pub const RUN_ID: &str = "tree-agent-run-id";

/// Where the role token comes from. The variable `TREE_AGENT_ROLE_TOKEN` holds a token itself. There is no flag for it,
/// because other users of a machine can see command lines.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Calls between services")]
pub struct RoleTokenArgs {
    /// A file with the token that the services of a cluster send to each other; all of them need the same one.
    /// TREE_AGENT_ROLE_TOKEN holds a token itself
    #[arg(long, env = "TREE_AGENT_ROLE_TOKEN_FILE", value_name = "FILE")]
    pub role_token_file: Option<PathBuf>,
}

impl RoleTokenArgs {
    /// The token. If it is missing or cannot be used, that is added to `problems`, and the result is a random token.
    pub fn check(&self, problems: &mut Problems) -> RoleToken {
        let secret = Secret {
            variable: "TREE_AGENT_ROLE_TOKEN",
            file_variable: "TREE_AGENT_ROLE_TOKEN_FILE",
            file: self.role_token_file.as_deref(),
        };
        let (name, text) = match secret.read() {
            Ok(Some(token)) => return RoleToken(token),
            Ok(None) => {
                let text = "is not set, and TREE_AGENT_ROLE_TOKEN_FILE neither; all services of a cluster share this \
                    secret: make one with `openssl rand -hex 32`";
                ("TREE_AGENT_ROLE_TOKEN", text.to_owned())
            }
            Err(wrong) => wrong,
        };
        problems.add(name, text);
        RoleToken::random()
    }
}

/// The token that role services require. Several may be valid while it is being replaced: the first is sent, all are
/// accepted. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RoleToken(SharedSecrets);

impl RoleToken {
    /// A random token, for services within one process.
    pub fn random() -> Self {
        Self(SharedSecrets::random())
    }

    /// The credentials with which clients call role services.
    ///
    /// # Panics
    /// Never: a secret consists of visible ASCII characters.
    pub fn credentials(&self) -> Credentials {
        Credentials::fixed(self.0.first().expose()).expect("a secret is visible ASCII")
    }

    /// Wraps `routes`: a call without the token is refused, except to health.
    pub fn guard(self, routes: Routes) -> Routes {
        let guarded = routes.into_axum_router().layer(middleware::from_fn_with_state(self, require));
        Routes::from(Router::new().merge(guarded))
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), Status> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let refused = |reason, message: &str| Err(status(Code::Unauthenticated, reason, message));
        let Some(value) = values.next() else {
            let text = "this role service requires the cluster's role token; set the same TREE_AGENT_ROLE_TOKEN for all services";
            return refused("ROLE_TOKEN_MISSING", text);
        };
        if values.next().is_none() && self.is_in(value) {
            return Ok(());
        }
        let text = "the role token is not valid for this service; set the same TREE_AGENT_ROLE_TOKEN for all services";
        refused("ROLE_TOKEN_INVALID", text)
    }

    /// True if the value of `authorization` holds the token.
    pub fn is_in(&self, value: &HeaderValue) -> bool {
        let token = value.to_str().ok().and_then(|text| text.trim().split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        token.is_some_and(|(_, token)| self.0.accept(token.trim().as_bytes()))
    }
}

impl From<SharedSecret> for RoleToken {
    fn from(secret: SharedSecret) -> Self {
        Self(secret.into())
    }
}

async fn require(State(token): State<RoleToken>, mut request: Request, next: Next) -> Response {
    if !request.uri().path().starts_with("/grpc.health.v1.Health/")
        && let Err(refusal) = token.check(request.headers())
    {
        return refusal.into_http();
    }
    // The services do not need it, so they cannot log it either.
    request.headers_mut().remove(header::AUTHORIZATION);
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (header::AUTHORIZATION, value.parse().unwrap())).collect()
    }

    #[test]
    fn only_the_token_is_accepted() {
        let secret = SharedSecret::random();
        let token = RoleToken::from(secret.clone());
        let good = format!("Bearer {}", secret.expose());
        assert!(token.check(&headers(&[&good])).is_ok());
        assert_eq!(token.credentials().current().unwrap().to_str().unwrap(), good);
        let (good, other) = (good.as_str(), format!("Bearer {}", SharedSecret::random().expose()));
        for bad in [vec![], vec![&*other], vec![good, good], vec![secret.expose()], vec!["Bearer "], vec![""]]
        {
            assert_eq!(token.check(&headers(&bad)).unwrap_err().code(), Code::Unauthenticated, "{bad:?}");
        }
    }

    #[test]
    fn a_missing_token_is_said_with_the_way_to_make_one() {
        let folder = tempfile::tempdir().unwrap();
        let said = |file: Option<PathBuf>| {
            let mut problems = Problems::default();
            RoleTokenArgs { role_token_file: file }.check(&mut problems);
            problems.finish().unwrap_err().to_string()
        };
        let missing = said(None);
        assert!(missing.contains("TREE_AGENT_ROLE_TOKEN: is not set"), "{missing}");
        assert!(missing.contains("openssl rand -hex 32"), "{missing}");
        let path = folder.path().join("token");
        assert!(said(Some(path.clone())).contains("TREE_AGENT_ROLE_TOKEN_FILE: "));
        std::fs::write(&path, "too short").unwrap();
        let weak = said(Some(path));
        assert!(weak.contains("32 to 1024") && weak.contains("openssl rand -hex 32"), "{weak}");
    }
}
