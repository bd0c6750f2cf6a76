//! Runs that only a newer version can drive: their logs hold events of types that this version does not know.
//!
//! A rolling upgrade has old and new planners side by side. An old one that meets such a run releases it at once, and no
//! failure is counted. If it claims the run again, no newer planner is there yet. Then it keeps the lease for a while
//! instead of reading the log again and again, so that the run does not take the place of runs that it can drive.

use std::collections::BTreeMap;
use std::time::Duration;

use tree_agent_contract::RunId;
use tree_agent_store::{Claim, Store};

/// The longest time for which a run is kept from newer planners, which are there later.
const LONGEST: Duration = Duration::from_secs(30);
/// Runs that are remembered. A forgotten one is read again.
const REMEMBERED: usize = 10_000;

/// The runs that were met, with how often each was claimed again since.
#[derive(Debug, Default)]
pub(crate) struct NewerRuns(BTreeMap<RunId, u32>);

impl NewerRuns {
    /// Releases a run that was met for the first time.
    pub(crate) async fn leave(&mut self, store: &dyn Store, claim: Claim) {
        if self.0.len() >= REMEMBERED {
            // Ids begin with the time: this is the oldest run.
            self.0.pop_first();
        }
        self.0.insert(claim.run_id, 0);
        if let Err(error) = store.release(&[(claim.run_id, claim.epoch)]).await {
            tracing::warn!(run = %claim.run_id, error = %error, "cannot release the run; its lease will expire");
        }
    }

    /// Takes those out of `claims` that were met before, and rests them, longer each time. A log only grows, so it need
    /// not be read again.
    pub(crate) async fn rest(&mut self, store: &dyn Store, lease: Duration, claims: &mut Vec<Claim>) {
        let mut resting: BTreeMap<Duration, Vec<(RunId, u64)>> = BTreeMap::new();
        claims.retain(|claim| {
            let Some(times) = self.0.get_mut(&claim.run_id) else { return true };
            let rest = lease.saturating_mul(1 << (*times).min(16)).min(LONGEST.max(lease));
            *times += 1;
            resting.entry(rest).or_default().push((claim.run_id, claim.epoch));
            false
        });
        for (rest, held) in resting {
            // If this fails, the leases expire earlier.
            if let Err(error) = store.renew(&held, rest).await {
                tracing::warn!(runs = held.len(), error = %error, "cannot rest runs of a newer version");
            }
        }
    }
}
