//! What every strategy must say.

use tree_agent_contract::event::Event;
use tree_agent_contract::role::{CallContext, CallKind};

use crate::call::{CallInput, CallOutput};
use crate::decide::{Decider, Failure};
use crate::state::State;

/// The rules of one strategy. A value is what the strategy keeps about one node, folded from the log up to the event
/// that is being answered. Each rule is asked about its own node, at `at`.
pub(super) trait Rules {
    /// Follows an event about the node.
    fn follow(&mut self, _event: &Event) {}

    /// The node begins its first work.
    fn begin(&self, d: &mut Decider<'_>, at: usize);

    /// A role has answered. The answer keeps the contract of its role.
    fn answered(&self, d: &mut Decider<'_>, at: usize, output: CallOutput);

    /// A child of the node has ended.
    fn child_ended(&self, d: &mut Decider<'_>, at: usize);

    /// A role has failed for good, or may not be called any more.
    fn failed(&self, d: &mut Decider<'_>, at: usize, failure: Failure);

    /// The run is out of budget: the node ends, or puts together what it has.
    fn wind_down(&self, d: &mut Decider<'_>, at: usize);

    /// The input of the call that the node needs.
    fn brief(&self, state: &State, at: usize, kind: CallKind, call: CallContext) -> CallInput;
}
