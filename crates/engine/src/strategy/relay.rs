//! A strategy for tests only. It proves what the seam is for: this module and one line make a strategy that runs in the
//! random worlds, with failures, budgets, takeovers and all.
//!
//! A node executes some laps, one after the other, and returns a result for each. Then it hands on to one child, and
//! completes when that has ended. The child of a child grows as a `tree`.

use serde::Serialize;
use tree_agent_contract::event::{Event, EventBody, NodeCreated};
use tree_agent_contract::role::*;
use tree_agent_contract::{NodeId, NodeStatus, StepId, Strategy};

use super::rules::Rules;
use crate::briefing;
use crate::call::{CallInput, CallOutput};
use crate::decide::{Decider, Failure, Next};
use crate::state::State;

/// Calls of one node.
const LAPS: u32 = 3;

/// What the strategy keeps about a node.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Relay {
    laps: u32,
    handed_on: bool,
}

impl Relay {
    /// It borrows the name of a strategy that does not exist yet.
    pub(super) const NAME: Strategy = Strategy::Homework;
}

impl Rules for Relay {
    fn follow(&mut self, _state: &State, _at: usize, event: &Event) {
        match &event.body {
            EventBody::NodeResult(_) => self.laps += 1,
            EventBody::NodeStatusChanged(e) => self.handed_on |= e.status == NodeStatus::Waiting && e.attempt.is_none(),
            _ => {}
        }
    }

    fn begin(&self, d: &mut Decider<'_>, at: usize) {
        d.need(at, CallKind::Execute, None);
    }

    fn answered(&self, d: &mut Decider<'_>, at: usize, output: CallOutput) {
        let CallOutput::Execute(out) = output else { unreachable!("no other role is called") };
        d.append_scratchpad(at, &out.scratchpad.append_markdown);
        d.return_result(at, out.artifacts, out.result);
        if d.state.exhausted().is_some() {
            return self.wind_down(d, at);
        }
        if self.laps + 1 < LAPS {
            return d.need(at, CallKind::Execute, None);
        }
        let (parent, depth) = (d.state.node(at).id, d.state.node(at).depth + 1);
        if depth > d.state.budgets().max_depth || d.state.planned_nodes() >= d.state.budgets().max_nodes {
            return d.complete(at, None);
        }
        d.status(at, NodeStatus::Waiting, None);
        let child = NodeId::child(parent, 1, &StepId::new("next"));
        let created = NodeCreated {
            parent_node_id: Some(parent),
            depth,
            strategy: (depth > 1).then_some(Strategy::Tree),
            ..NodeCreated::new("the next one")
        };
        d.push(child, Some(parent), created.into());
        let at = d.state.nodes().len() - 1;
        d.ask(Next::Begin { at });
    }

    fn child_ended(&self, d: &mut Decider<'_>, at: usize) {
        assert!(self.handed_on && self.laps == LAPS, "the state is that of the log: {self:?}");
        d.complete(at, None);
    }

    fn failed(&self, d: &mut Decider<'_>, at: usize, failure: Failure) {
        match self.laps {
            0 => d.fail(at, failure.text(), failure.error.retryable()),
            _ => d.complete(at, Some(failure.text())),
        }
    }

    fn wind_down(&self, d: &mut Decider<'_>, at: usize) {
        match d.state.control(at).results {
            0 => d.cancel(at),
            _ => d.complete(at, None),
        }
    }

    fn brief(&self, state: &State, at: usize, _kind: CallKind, call: CallContext) -> CallInput {
        CallInput::Execute(Box::new(ExecuteInput { task: None, call, earlier: briefing::earlier_outcomes(state, at) }))
    }
}

mod tests {
    use proptest::prelude::*;
    use tree_agent_contract::Strategy as Rest;

    use super::*;
    use crate::Run;
    use crate::world::{World, WorldPlan, plans};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn a_strategy_of_one_module_keeps_the_universal_rules(plan in plans()) {
            let plan = WorldPlan { strategy: Relay::NAME, ..plan };
            let world = World::run(&plan);
            world.check_universal();
            let replayed = Run::replay(world.run_id, &world.log).expect("its log replays");
            prop_assert_eq!(replayed.to_bytes(), world.live_bytes());
        }
    }

    #[test]
    fn a_node_that_is_called_again_has_other_rounds_artifacts_and_tool_calls() {
        let plan = WorldPlan { strategy: Relay::NAME, dice: (0..=255).collect(), ..WorldPlan::quiet(4, 2) };
        let world = World::run(&plan);
        world.check_universal();
        let root = NodeId::root(world.run_id);
        let of_root = |wanted: fn(&EventBody) -> bool| {
            world.log.iter().filter(|e| e.node_id == root && wanted(&e.body)).count()
        };
        assert_eq!(of_root(|body| matches!(body, EventBody::NodeResult(_))), LAPS as usize);
        assert_eq!(of_root(|body| matches!(body, EventBody::ArtifactCreated(_))), LAPS as usize);
        assert!(of_root(|body| matches!(body, EventBody::ToolCallRequested(_))) > 1);
        // A relay below the root, and a tree below that.
        let names: Vec<_> = world.log.iter().filter_map(|e| match &e.body {
            EventBody::NodeCreated(node) => Some(node.strategy),
            _ => None,
        }).collect();
        assert_eq!(names[..3], [None, None, Some(Rest::Tree)]);
        assert!(names.len() > 3, "the tree has grown");
    }
}
