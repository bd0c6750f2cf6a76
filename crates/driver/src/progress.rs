//! When the task of a run last made progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A handle on a run's progress: when its task last went round its loop, read a page of its log, or heard from the
/// store that an append failed.
#[derive(Clone, Debug)]
pub(crate) struct TaskProgress(Arc<AtomicU64>, Instant);

impl TaskProgress {
    pub(crate) fn new(epoch: Instant) -> Self {
        let progress = Self(Arc::default(), epoch);
        progress.beat();
        progress
    }

    pub(crate) fn beat(&self) {
        self.0.store(self.1.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Time since the last progress.
    pub(crate) fn age(&self) -> Duration {
        let last = Duration::from_millis(self.0.load(Ordering::Relaxed));
        self.1.elapsed().saturating_sub(last)
    }
}
