//! Budgets of subtrees, from planners and from people, counted independently of the engine.

use std::collections::BTreeMap;

use proptest::prelude::any;
use proptest::strategy::Strategy as Generator;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::graph::{GraphNode, Usage};
use tree_agent_contract::*;
use tree_agent_engine::{CallKey, Run};

use super::{World, WorldPlan};

type Amounts = [u64; 3];

/// Worlds of any strategy in which steps have budgets of their own.
pub(crate) fn leased() -> impl Generator<Value = WorldPlan> {
    let plans = proptest::prop_oneof![
        5 => super::plans(),
        1 => super::homework_worlds(),
        2 => super::trees_with_searches(),
    ];
    (plans, 30u8..220, any::<bool>()).prop_map(|(plan, leases, quiet)| WorldPlan {
        leases,
        cancel_after: 0,
        failures: if quiet { 0 } else { plan.failures },
        ..plan
    })
}

/// Worlds of any strategy in which people give subtrees budgets, too.
pub(crate) fn steered_leases() -> impl Generator<Value = WorldPlan> {
    (super::steering::steered(), 30u8..220).prop_map(|(plan, leases)| WorldPlan { leases, ..plan })
}

fn limits(budget: &SubtreeBudget) -> [Option<u64>; 3] {
    [budget.max_tokens, budget.max_cost_micros, budget.max_tool_calls]
}

fn amounts(usage: Usage) -> Amounts {
    [usage.input_tokens + usage.output_tokens, usage.cost_micros, usage.tool_calls]
}

/// The node and those above it.
fn line(run: &Run, node: NodeId) -> impl Iterator<Item = &GraphNode> {
    std::iter::successors(run.graph().node(node), |node| run.graph().node(node.parent_id?))
}

/// What the call may use fits every lease above it. `flights` is what calls in flight may still use. Roles keep to what
/// they may use, so nothing goes beyond a lease.
pub(super) fn check_fits(run: &Run, key: &CallKey, may: [Option<u64>; 3], flights: &[(NodeId, Amounts)]) {
    for leased in line(run, key.node_id) {
        let Some(lease) = leased.lease.as_ref().filter(|_| !leased.status.is_final()) else { continue };
        let before = [lease.before.tokens, lease.before.cost_micros, lease.before.tool_calls];
        let used: Amounts = std::array::from_fn(|m| amounts(leased.subtree_usage.get())[m] - before[m]);
        for (m, limit) in limits(&lease.limits).into_iter().enumerate() {
            let Some(limit) = limit else { continue };
            let may = may[m].expect("a lease gives an allowance");
            let below =
                flights.iter().filter(|(node, _)| line(run, *node).any(|above| above.id == leased.id));
            let flying: u64 = below.map(|(_, left)| left[m]).sum();
            assert!(
                used[m] + flying + may <= limit || may == 0,
                "{key:?}: budget {m} of {:?}: {} of {limit} used, {flying} in flight, {may} more",
                leased.title,
                used[m]
            );
        }
        assert!(
            lease.exhausted.is_none() || key.kind.finishes(),
            "new work below {:?}, whose lease is used up: {key:?}",
            leased.title
        );
    }
}

impl World {
    /// The budget of a new step.
    pub(super) fn step_budget(&mut self) -> Option<SubtreeBudget> {
        if self.plan.leases == 0 || self.roll() >= self.plan.leases {
            return None;
        }
        let rolls: [u8; 4] = std::array::from_fn(|_| self.roll());
        let amount = |roll: u8, unit: u64| (roll < 110).then(|| 1 + u64::from(roll) * unit);
        let budget = SubtreeBudget {
            max_tokens: amount(rolls[0], 200),
            max_cost_micros: amount(rolls[1], 12),
            max_tool_calls: amount(rolls[2], 1).map(|calls| 1 + calls / 10),
            max_wall_clock_ms: (rolls[3] < 60).then(|| 1_000 + u64::from(rolls[3]) * 50),
        };
        Some(budget).filter(|budget| !budget.is_empty())
    }

    /// What holds for leases: nobody but a lease, the run's budgets, a person or a limit cancels a node; and what is
    /// used is counted once.
    pub(crate) fn check_leases(&self) {
        let graph = self.run.graph();
        for node in graph.nodes() {
            let below = graph.nodes().iter().filter(|child| child.parent_id == Some(node.id));
            let sum = below.fold(node.usage.get(), |sum, child| sum.plus(child.subtree_usage.get()));
            assert_eq!(node.subtree_usage.get(), sum, "sums of the subtree of {}", node.title);
        }
        assert!(graph.status().is_final(), "every run that is not paused ends");
        let covered = self.log.iter().find(|event| matches!(event.body, EventBody::LeaseCovered(_)));
        assert!(!self.plan.obedient || covered.is_none(), "nobody went beyond its allowance: {covered:?}");
        let replayed = Run::replay(self.run_id, &self.log).expect("a log that was written replays");
        assert!(replayed.to_bytes() == self.run.to_bytes(), "the log replays to the same bytes");
        if self.plan.commands == 0 {
            check_cancelled(&self.log);
        }
    }
}

/// A node ends without a result only because of itself, of the run, or of a lease of its own or above it.
fn check_cancelled(log: &[Event]) {
    let (mut parents, mut used_up) = (BTreeMap::new(), Vec::new());
    for event in log {
        match &event.body {
            EventBody::NodeCreated(e) => drop(parents.insert(event.node_id, e.parent_node_id)),
            EventBody::BudgetExhausted(_) => used_up.push(event.node_id),
            EventBody::NodeStatusChanged(e) if e.status == NodeStatus::Cancelled => {
                let above = |node: &NodeId| parents.get(node).copied().flatten();
                let mut line = std::iter::successors(Some(event.node_id), above);
                let too_deep = e.message.as_deref() == Some("guard:maxDepth");
                assert!(
                    too_deep || line.any(|node| used_up.contains(&node)),
                    "event {}: nothing above the node is used up",
                    event.seq
                );
            }
            _ => {}
        }
    }
}

/// What the event says about leases.
pub(crate) fn effect(event: &Event) -> Option<&'static str> {
    match &event.body {
        EventBody::StepCreated(e) if e.budget.is_some() => Some("a lease is granted"),
        EventBody::NodeStatusChanged(e) if e.message.as_deref() == Some("guard:lease") => {
            Some("a lease is cut")
        }
        EventBody::BudgetExhausted(_) if event.parent_node_id.is_some() => Some("a lease is used up"),
        EventBody::LeaseCovered(_) => Some("a lease is covered from above"),
        _ => None,
    }
}
