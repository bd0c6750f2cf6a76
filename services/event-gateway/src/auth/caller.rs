//! What handlers learn of whoever calls.

use std::sync::Arc;

use http::Extensions;
use tokio::time::Instant;
use tree_agent_contract::RunId;
use tree_agent_proto::rights::{Access, Rule};

/// Whoever calls, and what for. A request that has not passed the [`Guard`](super::Guard) has a caller without rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The token's `sub`: the `user_id` of the runs that are created with it. Empty without authentication.
    pub(crate) user_id: String,
    /// May do everything: an administrator, or anybody where nobody is asked who they are.
    pub(crate) administrator: bool,
    /// When the token expires.
    pub(crate) expires_at: Option<Instant>,
    /// The public key that vouches for the token.
    pub(crate) key: Option<Arc<str>>,
    /// The caller is a role that works for this run.
    pub(crate) works_for: Option<RunId>,
    /// What the method does with what its request names.
    pub(crate) access: Access,
}

impl Caller {
    /// The caller of a request that has passed the [`Guard`](super::Guard).
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Whoever calls a gateway that asks nobody who they are.
    pub(crate) fn anybody() -> Self {
        Self { administrator: true, ..Self::default() }
    }

    /// This caller, calling the method with this rule.
    pub(crate) fn calling(self, rule: Option<&Rule>) -> Self {
        Self { access: rule.map(|rule| rule.access).unwrap_or_default(), ..self }
    }
}
