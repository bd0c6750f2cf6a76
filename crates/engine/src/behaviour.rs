//! The behaviour version: every constant on which the meaning of a log depends.
//!
//! A log says with which behaviour version it was begun, and keeps it for life: its retries come at the same times and
//! its answers lead to the same events, whichever program drives it. Recorded histories (`tests/histories`) show when
//! the meaning of a log changes.

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
}

static FIRST: Behaviour = Behaviour {
    retry: RetryPolicy { base_ms: 200, max_ms: 30_000 },
    unreachable_max_ms: 5_000,
    provider_patience_ms: 50_000,
    grace_ms: 10_000,
    unseen: [16_384, 50_000, 8],
};

impl Behaviour {
    /// The version with which a new run begins.
    pub(crate) const NEW: u32 = 1;

    /// The behaviour of a version. None if this program does not know it.
    pub(crate) fn of(version: u32) -> Option<&'static Self> {
        (version == Self::NEW).then_some(&FIRST)
    }
}
