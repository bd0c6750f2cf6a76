//! Runs that cannot be driven. The store counts how often, for all drivers, and keeps them in quarantine.

use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tree_agent_store::Claim;

use crate::failure::Failure;
use crate::fleet::Fleet;

/// How often in a row, without progress, a run may be impossible to drive before it is ended as failed. With a lease of
/// five seconds that is about five minutes after the first time.
const CHANCES: u32 = 5;

impl Fleet {
    /// Puts a run that cannot be driven in quarantine. Otherwise the next driver would repeat its role calls and fail
    /// in the same way.
    pub(crate) async fn fail(&mut self, failure: Failure) {
        self.shared.stats.broken.fetch_add(1, Ordering::Relaxed);
        self.to_fail.push(failure);
        self.settle().await;
    }

    /// Counts failures in the store. What cannot be counted now is counted in the next round. A run that cannot even be
    /// ended as failed shows in health.
    pub(crate) async fn count_failures(&mut self) {
        let lease = self.config.lease;
        for failure in std::mem::take(&mut self.to_fail) {
            let (run, epoch) = (failure.claim.run_id, failure.claim.epoch);
            match self.shared.store.fail(run, epoch, &failure.reason, lease).await {
                Ok(Some(failed)) if failure.hopeless || failed.times > CHANCES => {
                    tracing::error!(%run, times = failed.times, "the run can neither be driven nor be marked as failed");
                    self.health.mark_undrivable(run, Instant::now() + failed.wait + lease * 4);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%run, error = %error, "cannot put the run in quarantine now");
                    self.to_fail.push(failure);
                }
            }
        }
    }

    /// Why a run must end as failed. None if it may be driven.
    pub(crate) async fn verdict(&self, claim: &Claim) -> Option<String> {
        let times = claim.failures;
        if times < CHANCES {
            return None;
        }
        let reason = self.shared.store.last_failure(claim.run_id).await.unwrap_or_default();
        Some(format!("the run could not be driven {times} times; the last time: {reason}"))
    }
}
