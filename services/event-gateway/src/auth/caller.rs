//! What handlers learn of a token.

use http::Extensions;
use tokio::time::Instant;
use tree_agent_contract::RunId;

/// Whoever calls. Without authentication everybody is the caller without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The token's `sub`: the `user_id` of the runs that are created with it.
    pub(crate) user_id: String,
    /// When the token expires.
    pub(crate) expires_at: Option<Instant>,
    /// The caller is a role that works for this run.
    pub(crate) works_for: Option<RunId>,
}

impl Caller {
    /// The caller of a request that has passed the [`Guard`](super::Guard).
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// A role that works for `run`.
    pub(crate) fn role(run: RunId) -> Self {
        Self { works_for: Some(run), ..Self::default() }
    }
}
