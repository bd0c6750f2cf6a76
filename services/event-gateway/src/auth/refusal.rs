//! Why a token is not accepted. Nothing of the token itself is in the text.

use tonic::{Code, Status};
use tree_agent_runtime::errors::status;
use tree_agent_runtime::role_token::RUN_ID;

/// Why a call is refused, or a stream ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// There is none.
    #[error("this gateway asks for a token; send it in the metadata as authorization: Bearer TOKEN")]
    Missing,
    /// It was good.
    #[error("the token has expired; get a new one and call again")]
    Expired,
    /// It never was good here.
    #[error("the token is not accepted: {0}")]
    Invalid(&'static str),
    /// A caller names a run, as roles do, and does not show the token of roles.
    #[error(
        "{RUN_ID} is only for roles, which must show the role token of this gateway; set the same \
         TREE_AGENT_ROLE_TOKEN for all services"
    )]
    RoleToken,
    /// A role named no run.
    #[error("a role must name the run that it works for in the metadata as {RUN_ID}: ID")]
    NoRun,
    /// A role has no business there.
    #[error("roles may read and write documents of their run's context, and nothing else")]
    Role,
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let (code, reason) = match refusal {
            Refusal::Missing => (Code::Unauthenticated, "TOKEN_MISSING"),
            Refusal::Expired => (Code::Unauthenticated, "TOKEN_EXPIRED"),
            Refusal::Invalid(_) => (Code::Unauthenticated, "TOKEN_INVALID"),
            Refusal::RoleToken => (Code::Unauthenticated, "ROLE_TOKEN_INVALID"),
            Refusal::NoRun => (Code::PermissionDenied, "RUN_MISSING"),
            Refusal::Role => (Code::PermissionDenied, "NOT_FOR_ROLES"),
        };
        status(code, reason, refusal.to_string())
    }
}
