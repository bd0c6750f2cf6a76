//! Runs that cannot be driven: how often that happened, how long each waits, and when it ends as failed.

use std::collections::BTreeMap;
use std::time::Duration;

use tree_agent_contract::RunId;

/// How often a run may be impossible to drive before it is ended as failed. With a lease of five seconds that is about
/// five minutes after the first time.
const CHANCES: u32 = 5;
/// The longest time in quarantine.
const LONGEST: Duration = Duration::from_secs(300);

/// How often each run could not be driven, and the reason of the last time.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    failures: BTreeMap<RunId, (u32, String)>,
}

impl Quarantine {
    /// Adds a run that could not be driven. Returns how long it stays, longer each time, and whether it could not even
    /// be ended as failed.
    pub(crate) fn add(&mut self, run: RunId, reason: String, lease: Duration) -> (Duration, bool) {
        let (times, last) = self.failures.entry(run).or_default();
        *times += 1;
        *last = reason;
        (lease.saturating_mul(1 << (*times).min(16)).min(LONGEST), *times > CHANCES)
    }

    /// Why the run is to be ended as failed; none if it may be driven again.
    pub(crate) fn verdict(&self, run: RunId) -> Option<String> {
        let (times, reason) = self.failures.get(&run).filter(|(times, _)| *times >= CHANCES)?;
        Some(format!("the run could not be driven {times} times; the last time: {reason}"))
    }

    /// The run has ended.
    pub(crate) fn forget(&mut self, run: RunId) {
        self.failures.remove(&run);
    }
}
