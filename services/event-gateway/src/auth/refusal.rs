//! Why a token is not accepted. Nothing of the token itself is in the text.

use tonic::{Code, Status};
use tree_agent_runtime::errors::status;

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
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let reason = match refusal {
            Refusal::Missing => "TOKEN_MISSING",
            Refusal::Expired => "TOKEN_EXPIRED",
            Refusal::Invalid(_) => "TOKEN_INVALID",
        };
        status(Code::Unauthenticated, reason, refusal.to_string())
    }
}
