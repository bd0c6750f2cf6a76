//! What must hold in every world, checked while it happens and once more at its end.

mod calls;
mod ending;
mod log;
mod view;

use tree_agent_contract::RunId;
use tree_agent_engine::CallKey;

pub(crate) use calls::Calls;
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
}

/// So much may go wrong in a flawed world before it is given up.
const ENOUGH: usize = 200;

impl Checks {
    /// True when the check that is meant for `flaw` has spoken, or too many others have.
    pub(crate) fn shows(&self, flaw: Flaw) -> bool {
        self.violations.len() > ENOUGH || self.violations.iter().any(|text| text.contains(flaw.sign()))
    }

    /// A driver makes a role call: its number, and what is wrong with it.
    pub(crate) fn role_called(&mut self, driver: &str, run: RunId, key: &CallKey) -> (u64, Vec<String>) {
        self.calls.called(driver, run, key, &self.log)
    }
}
