//! Behaviour versions: every constant on which the meaning of a log depends.
//!
//! A log says with which behaviour version it was begun, and keeps it for life: its retries come at the same times and
//! its answers lead to the same events, whichever program drives it. Whoever changes a constant here adds a version
//! instead, and records histories of it (`tests/histories`).

use crate::amounts::Amounts;
use crate::retry::RetryPolicy;

/// The behaviour of runs that were begun with one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// When a failed call is made again.
    pub(crate) retry: RetryPolicy,
    /// Maximum of milliseconds before a role that could not be reached is called again.
    pub(crate) unreachable_max_ms: u64,
    /// Milliseconds for which a run waits for a provider while no model call of it has succeeded.
    pub(crate) provider_patience_ms: u64,
    /// Milliseconds that a run that is out of budget waits for an unreachable aggregator.
    pub(crate) grace_ms: u64,
    /// The expected need of a call before the first call of its role has ended: a model's answer with some context, at
    /// the price of a large model. If an eighth of the limit is less, that is used instead.
    pub(crate) unseen: Amounts,
    /// Every document of the run has a place below its workspace.
    pub(crate) links_documents: bool,
    /// The run keeps answers of tools for further calls.
    pub(crate) keeps_answers: bool,
}

const FIRST: Behaviour = Behaviour {
    retry: RetryPolicy { base_ms: 200, max_ms: 30_000 },
    unreachable_max_ms: 5_000,
    provider_patience_ms: 50_000,
    grace_ms: 10_000,
    unseen: [16_384, 50_000, 8],
    links_documents: false,
    keeps_answers: false,
};

const THIRD: Behaviour = Behaviour { links_documents: true, ..FIRST };
const FIFTH: Behaviour = Behaviour { keeps_answers: true, ..THIRD };

/// Version 1 first. Since version 2, every tool call in a log has a result before its node goes on. Since
/// version 3, a run has a workspace, and its documents are below it. Since version 4, the answer may be verified:
/// programs that cannot do that leave such a run to others. Since version 5, answers of tools are kept.
static VERSIONS: [Behaviour; 5] = [FIRST, FIRST, THIRD, THIRD, FIFTH];

impl Behaviour {
    /// The version with which a new run begins.
    pub(crate) const NEW: u32 = 5;

    /// The behaviour of a version. None if this program does not know it.
    pub(crate) fn of(version: u32) -> Option<&'static Self> {
        VERSIONS.get(usize::try_from(version).ok()?.checked_sub(1)?)
    }
}
