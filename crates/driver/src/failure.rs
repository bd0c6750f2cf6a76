//! That a run could not be driven.

use tree_agent_store::Claim;

/// A run that could not be driven.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) claim: Claim,
    pub(crate) reason: String,
    /// Its log cannot be replayed, so the run cannot even be ended as failed.
    pub(crate) hopeless: bool,
}
