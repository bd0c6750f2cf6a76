//! What must hold in every world, checked while the world runs and once more at its end.

mod calls;
mod commands;
mod ending;
mod forks;
mod log;
mod sums;
mod unrelated;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tree_agent_contract::RunId;
use tree_agent_driver::{CommitStats, DriverStats};
use tree_agent_engine::CallKey;

pub(crate) use calls::Calls;
pub(crate) use commands::Commands;
pub(crate) use ending::check_ending;
pub(crate) use log::Logs;
pub(crate) use view::View;

use crate::flaw::Flaw;

/// All checks of a world.
#[derive(Default)]
pub(crate) struct Checks {
    /// What was found.
    pub(crate) violations: Vec<String>,
    pub(crate) log: Logs,
    pub(crate) calls: Calls,
    pub(crate) commands: Commands,
    /// Nodes that were compared with a repetition of their run without commands.
    pub(crate) compared: u64,
    pub(crate) drivers: BTreeMap<String, Counters>,
}

/// The counters of one life of a driver, and their expected values.
pub(crate) struct Counters {
    pub(crate) driver: Arc<DriverStats>,
    pub(crate) commits: Arc<CommitStats>,
    /// How often the store told this driver that another driver owns a run.
    pub(crate) told_fenced: u64,
}

/// Violations in a flawed world after which it is stopped.
const ENOUGH: usize = 200;

impl Checks {
    /// True if the check that is meant for `flaw` has reported something, or if too many other checks have.
    pub(crate) fn shows(&self, flaw: Flaw) -> bool {
        self.violations.len() > ENOUGH || self.violations.iter().any(|text| text.contains(flaw.sign()))
    }

    /// The store has told `driver` that other drivers own this many runs of an append.
    pub(crate) fn fenced(&mut self, driver: &str, times: u64) {
        if let Some(counters) = self.drivers.get_mut(driver) {
            counters.told_fenced += times;
        }
    }

    /// How often drivers were fenced, how many answers they refused because nothing waited for them, and what they
    /// counted wrongly.
    pub(crate) fn refused(&self) -> (u64, u64, Vec<String>) {
        let (mut fenced, mut stale, mut found) = (0, 0, Vec::new());
        for (name, counters) in &self.drivers {
            let (counted, told) = (count(&counters.commits.fenced), counters.told_fenced);
            if counted != told {
                found.push(format!("{name} was fenced {told} times and counted {counted}"));
            }
            fenced += told;
            stale += count(&counters.driver.stale_answers);
        }
        (fenced, stale, found)
    }

    /// How often drivers handed a run over.
    pub(crate) fn handed_over(&self) -> u64 {
        self.drivers.values().map(|counters| count(&counters.driver.handed_over)).sum()
    }

    /// A driver makes a role call. Returns the call's number and what is wrong with it.
    pub(crate) fn role_called(&mut self, driver: &str, run: RunId, key: &CallKey) -> (u64, Vec<String>) {
        self.calls.called(driver, run, key, &self.log)
    }
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
