//! What every strategy must say.

use tree_agent_contract::event::Event;
use tree_agent_contract::role::{CallContext, CallKind, ResearchOutput};

use crate::call::{CallInput, CallOutput};
use crate::decide::{Decider, Failure};
use crate::state::State;

/// The rules of one strategy. A value is what the strategy keeps about one node, folded from the log up to the event
/// that is being answered. Each rule is asked about the node at `at`: its own, or one below that it spans.
pub(super) trait Rules {
    /// True if the value is also about the nodes below, as long as they grow in the same way.
    fn spans_children(&self) -> bool {
        false
    }

    /// Follows an event about the node at `at`, which was applied to `state`.
    fn follow(&mut self, _state: &State, _at: usize, _event: &Event) {}

    /// The node begins its first work.
    fn begin(&self, d: &mut Decider<'_>, at: usize);

    /// A role has answered, other than the verifier. The answer keeps the contract of its role.
    fn answered(&self, d: &mut Decider<'_>, at: usize, output: CallOutput);

    /// A child of the node has ended.
    fn child_ended(&self, d: &mut Decider<'_>, at: usize);

    /// A role has failed for good, or may not be called any more; other than the verifier.
    fn failed(&self, d: &mut Decider<'_>, at: usize, failure: Failure);

    /// The run is out of budget: the node ends, or puts together what it has.
    fn wind_down(&self, d: &mut Decider<'_>, at: usize);

    /// The node has returned its answer, and nobody verifies it any more: it ends.
    fn complete(&self, d: &mut Decider<'_>, at: usize);

    /// True if the node may plan again once its answer is doubted.
    fn may_replan(&self, _state: &State, _at: usize) -> bool {
        false
    }

    /// Something that the strategy asked to look at ([`Next::Advance`](crate::decide::Next::Advance)).
    fn advance(&self, _d: &mut Decider<'_>, _at: usize) {}

    /// An earlier run has found this about the node that `path` names, below a root that has not begun.
    fn adopted(&self, _d: &mut Decider<'_>, _path: &str, _output: ResearchOutput) {}

    /// The input of the call that the node needs, if that is not the verifier's.
    fn brief(&self, state: &State, at: usize, kind: CallKind, call: CallContext) -> CallInput;
}
