//! When a role call that failed is made again.

use serde::Serialize;

/// The delays between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RetryPolicy {
    /// Milliseconds before the second attempt; doubled for each further one.
    pub(crate) base_ms: u64,
    /// Maximum of milliseconds between attempts.
    pub(crate) max_ms: u64,
}

impl RetryPolicy {
    /// The delay after failed attempt number `failed` (1 for the first). It is spread by up to half as much again by
    /// the node's position, so that siblings that failed together do not retry together. This needs no randomness.
    pub(crate) fn delay_ms(&self, failed: u32, at: usize) -> u64 {
        let base = self.base_ms.saturating_mul(1 << failed.saturating_sub(1).min(16)).min(self.max_ms);
        base + (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (base / 2 + 1)
    }
}
