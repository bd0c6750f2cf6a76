//! Runs that only a newer version can drive: their logs hold events of types that this version does not know.
//!
//! A rolling upgrade has old and new planners side by side. An old one that meets such a run releases it at once, and
//! no failure is counted. If it claims the run again, no newer planner is there yet. Then the run goes into quarantine
//! for a while, so that its log is not read again and again and it does not take the place of other runs.

use std::collections::BTreeMap;
use std::time::Duration;

use tree_agent_contract::RunId;
use tree_agent_store::Claim;

/// The longest time that a run stays in quarantine before newer planners can claim it.
const LONGEST: Duration = Duration::from_secs(30);
/// Runs that are remembered. A forgotten one is read again.
const REMEMBERED: usize = 10_000;

/// The runs that were met, with how often each was claimed again since.
#[derive(Debug, Default)]
pub(crate) struct NewerRuns(BTreeMap<RunId, u32>);

impl NewerRuns {
    /// Remembers a run that was met for the first time.
    pub(crate) fn met(&mut self, run: RunId) {
        if self.0.len() >= REMEMBERED {
            // Ids begin with the time: this is the oldest run.
            self.0.pop_first();
        }
        self.0.insert(run, 0);
    }

    /// Takes those out of `claims` that were met before. Returns them with the time for which nobody is to claim them,
    /// longer each time. A log only grows, so it need not be read again.
    pub(crate) fn rest(&mut self, lease: Duration, claims: &mut Vec<Claim>) -> Vec<(RunId, u64, Duration)> {
        let mut resting = Vec::new();
        claims.retain(|claim| {
            let Some(times) = self.0.get_mut(&claim.run_id) else { return true };
            let rest = lease.saturating_mul(1 << (*times).min(16)).min(LONGEST.max(lease));
            *times += 1;
            resting.push((claim.run_id, claim.epoch, rest));
            false
        });
        resting
    }
}
