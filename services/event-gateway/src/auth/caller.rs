//! What handlers learn of a token.

use http::Extensions;
use tokio::time::Instant;

/// Whoever calls. Without authentication everybody is the caller without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The token's `sub`: the `user_id` of the runs that are created with it.
    pub(crate) user_id: String,
    /// When the token expires.
    pub(crate) expires_at: Option<Instant>,
}

impl Caller {
    /// The caller of a request that has passed the [`Guard`](super::Guard).
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }
}
