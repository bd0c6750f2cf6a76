//! Conversations of runs.

use async_trait::async_trait;
use tree_agent_contract::session::Session;
use tree_agent_contract::{RunId, SessionId};

use crate::error::StoreError;

/// Maximum of conversations of one chain. A search has at most as many levels.
pub(crate) const CHAIN: u32 = 64;

/// Conversations. They are written with the events that they belong to ([`RunAppend`](super::RunAppend)).
#[async_trait]
pub trait Sessions: Send + Sync {
    /// The conversation and those that it continues, the oldest first; at most the 64 newest. Empty for an unknown one.
    async fn session_chain(&self, run: RunId, id: &SessionId) -> Result<Vec<Session>, StoreError>;

    /// Conversations of the run, by id after `after`, at most `limit`.
    async fn run_sessions(
        &self,
        run: RunId,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<Session>, StoreError>;
}
