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

/// All checks of a world.
#[derive(Default)]
pub(crate) struct Checks {
    /// What was found.
    pub(crate) violations: Vec<String>,
    pub(crate) log: Logs,
    pub(crate) calls: Calls,
}

impl Checks {
    /// A driver makes a role call: its number, and what is wrong with it.
    pub(crate) fn role_called(&mut self, driver: &str, run: RunId, key: &CallKey) -> (u64, Vec<String>) {
        self.calls.called(driver, run, key, &self.log)
    }
}
