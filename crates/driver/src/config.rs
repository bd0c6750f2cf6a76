//! How a driver behaves, and what it counts.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::commit::CommitConfig;

/// How a driver behaves.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Identifies this driver in leases and logs; unique per process.
    pub owner: String,
    /// Length of a lease: the longest time that a run waits after its driver died. Default 5 s.
    pub lease: Duration,
    /// Maximum of runs that are driven at the same time, besides a few to which a command was sent. Default 1,000.
    pub max_runs: usize,
    /// Maximum of role calls in flight. Default 2,048, twice the number of runs, so that a run that was taken over
    /// does not wait for the calls of others.
    pub max_calls: usize,
    /// How often the driver looks for runs and commands if nothing wakes it. Default 250 ms.
    pub poll: Duration,
    /// How appends are grouped.
    pub commit: CommitConfig,
}

impl DriverConfig {
    /// The defaults for `owner`.
    pub fn new(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            lease: Duration::from_secs(5),
            max_runs: 1_000,
            max_calls: 2_048,
            poll: Duration::from_millis(250),
            commit: CommitConfig::default(),
        }
    }
}

/// Counters of a driver since it started.
#[derive(Debug, Default)]
pub struct DriverStats {
    /// Runs that it owns now.
    pub active: AtomicU64,
    /// Runs claimed.
    pub claimed: AtomicU64,
    /// Claimed runs that had been driven before.
    pub takeovers: AtomicU64,
    /// Runs driven to their end.
    pub finished: AtomicU64,
    /// Runs released because they waited for permits while other drivers had some to spare.
    pub handed_over: AtomicU64,
    /// Runs that another driver took over.
    pub lost: AtomicU64,
    /// Runs released because only a newer version can drive them.
    pub newer: AtomicU64,
    /// Runs dropped because their log could not be read, written or replayed.
    pub broken: AtomicU64,
    /// Updates and answers of role calls that nothing waited for any more.
    pub stale_answers: AtomicU64,
}
