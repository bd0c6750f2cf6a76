//! A garden: a run of the strategy `tree` that grows by answers which depend on their node alone.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;
use tree_agent_contract::command::Action;
use tree_agent_contract::event::RunForked;
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::role::*;
use tree_agent_contract::*;
use tree_agent_engine::{
    Audit, CallInput, CallKey, CallKind, CallOutput, Decision, Input, RoleCall, Run, start,
};

use crate::world::{Documents, aggregator_output, executor_output, notes};

/// What is random about a garden.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    seed: u64,
    depth: u32,
    parallel: u32,
}

impl Shape {
    /// One of depth 2.
    pub(super) fn of(seed: u64) -> Self {
        Self { seed, depth: 2, parallel: 2 }
    }
}

pub(super) fn shapes() -> impl Generator<Value = Shape> {
    (any::<u64>(), 1u32..4, 1u32..4).prop_map(|(seed, depth, parallel)| Shape { seed, depth, parallel })
}

pub(super) struct Garden {
    shape: Shape,
    pub(super) run: Run,
    pub(super) log: Vec<Event>,
    pub(super) now: Timestamp,
    flights: BTreeMap<CallKey, (Timestamp, RoleCall)>,
    /// Every call whose answer was used.
    pub(super) made: Vec<CallKey>,
    /// None for a fork, which finds documents of its parent.
    documents: Option<Documents>,
    commands: u32,
}

impl Garden {
    pub(super) fn new(shape: &Shape) -> Self {
        let run_id = RunId(uuid::Uuid::from_u128(11));
        let mut spec = RunSpec::new("grow");
        spec.budgets.max_depth = shape.depth;
        spec.budgets.max_parallel_steps = shape.parallel;
        spec.budgets.max_nodes = 10_000;
        spec.budgets.max_children_per_node = 64;
        let now = Timestamp::from_millis(1_000);
        let started = start(run_id, spec, now);
        let run = Run::replay(run_id, &started.events).expect("a fresh log replays");
        let mut garden = Self {
            shape: shape.clone(),
            run,
            log: started.events,
            now,
            flights: BTreeMap::new(),
            made: Vec::new(),
            documents: Some(Documents::default()),
            commands: 0,
        };
        garden.write_down(Decision { events: Vec::new(), ..started });
        garden.feed(Input::Claimed);
        garden
    }

    /// The end of what was decided at the time of the event at `at`. Part of a decision is no moment of a run.
    pub(super) fn moment(&self, at: usize) -> usize {
        let now = self.log[at].timestamp;
        at + self.log[at..].iter().take_while(|event| event.timestamp == now).count()
    }

    /// A fork at an event, taken up by its first driver.
    pub(super) fn fork(&self, at: usize, edits: Vec<Action>) -> Result<Self, Refusal> {
        let (run_id, now) = (RunId(uuid::Uuid::from_u128(12)), self.now.plus_millis(60_000));
        let source_run_id = self.log[0].run_id;
        let parent = Run::replay(source_run_id, &self.log[..at]).expect("a prefix replays");
        let (_, goes_on) = parent.fork(&edits, now)?;
        let mut log: Vec<Event> = self.log[..at].iter().map(|e| Event { run_id, ..e.clone() }).collect();
        let forked = RunForked {
            source_run_id,
            at_seq: at as u64,
            origin_run_id: Some(source_run_id),
            author: "ann".into(),
            by_administrator: false,
            request_id: "f".into(),
            display_name: String::new(),
            labels: BTreeMap::new(),
            edits,
            goes_on,
        };
        let seq = at as u64 + 1;
        log.push(Event { seq, timestamp: now, body: forked.into(), ..log[0].clone() });
        let run = Run::replay(run_id, &log).expect("a fork replays");
        let mut fork = Self {
            shape: self.shape.clone(),
            run,
            log,
            now,
            flights: BTreeMap::new(),
            made: Vec::new(),
            documents: None,
            commands: 0,
        };
        fork.feed(Input::Claimed);
        Ok(fork)
    }

    /// One that has grown to its end.
    pub(super) fn grown(shape: &Shape) -> Self {
        let mut garden = Self::new(shape);
        garden.grow();
        assert_eq!(garden.run.graph().status(), RunStatus::Completed);
        garden
    }

    /// Grows until nothing happens any more.
    pub(super) fn grow(&mut self) {
        self.grow_until(usize::MAX);
    }

    /// Grows until the log has `events` events.
    pub(super) fn grow_until(&mut self, events: usize) {
        while self.log.len() < events && self.step() {}
    }

    /// One answer. False if none is to come.
    fn step(&mut self) -> bool {
        self.flights.retain(|key, _| self.run.is_in_flight(key));
        for call in self.run.take_due(self.now, usize::MAX) {
            let delay = self.roll(call.key.node_id, "delay") % 900;
            self.flights.insert(call.key, (self.now.plus_millis(delay), call));
        }
        let next = self.flights.iter().map(|(key, (at, _))| (*at, *key)).min();
        match (next, self.run.next_wakeup()) {
            (Some((at, key)), wakeup) if wakeup.is_none_or(|wakeup| at <= wakeup) => {
                self.now = self.now.max(at);
                let (_, call) = self.flights.remove(&key).expect("it was just there");
                let output = self.answer(&call);
                self.made.push(key);
                self.feed(Input::Output(key, output));
                true
            }
            (Some(_), Some(wakeup)) => {
                self.now = self.now.max(wakeup);
                self.feed(Input::Tick);
                true
            }
            // Nothing is in flight: only the deadline may be left.
            (_, wakeup) => match wakeup.filter(|wakeup| wakeup.millis_since(self.now) < 5_000) {
                Some(wakeup) => {
                    self.now = self.now.max(wakeup);
                    self.feed(Input::Tick);
                    true
                }
                None => false,
            },
        }
    }

    fn feed(&mut self, input: Input) {
        let decision = self.run.handle(input, self.now);
        self.write_down(decision);
    }

    fn write_down(&mut self, decision: Decision) {
        self.log.extend(decision.events);
        if let Some(documents) = &mut self.documents {
            documents.write(decision.documents);
        }
    }

    /// A person gives a command.
    pub(super) fn give(&mut self, action: Action) -> Result<(), Refusal> {
        self.commands += 1;
        let request_id = format!("g{}", self.commands);
        let decision = self.run.command(&Command { request_id, ..Command::new(action) }, self.now)?;
        self.write_down(decision);
        Ok(())
    }

    /// The driver dies, and a successor takes over.
    pub(super) fn crash(&mut self) {
        self.flights.clear();
        self.run = Run::replay(self.log[0].run_id, &self.log).expect("the log replays");
        self.feed(Input::Claimed);
    }

    /// The log keeps the invariants and replays to what there is.
    pub(super) fn check(&self) {
        let mut audit = Audit::new();
        self.log.iter().for_each(|event| audit.event(event));
        assert_eq!(audit.finish(), []);
        let replayed = Run::replay(self.log[0].run_id, &self.log).expect("the log replays");
        assert!(replayed.to_bytes() == self.run.to_bytes(), "the log replays to the same bytes");
    }

    /// A number that depends on the node alone.
    fn roll(&self, node: NodeId, what: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.shape.seed, node.0, what).hash(&mut hasher);
        hasher.finish()
    }

    fn answer(&self, call: &RoleCall) -> CallOutput {
        let (node, title) = (call.key.node_id, &call.input.context().title);
        match &call.input {
            CallInput::Plan(_) => CallOutput::Plan(self.plan(node)),
            CallInput::Execute(_) => CallOutput::Execute(executor_output(title)),
            CallInput::Aggregate(_) => CallOutput::Aggregate(aggregator_output(title)),
            CallInput::Research(_) | CallInput::Pick(_) | CallInput::Verify(_) => {
                unreachable!("a tree neither researches nor picks")
            }
        }
    }

    fn plan(&self, node: NodeId) -> PlannerOutput {
        let roll = self.roll(node, "plan");
        let is_leaf = roll.is_multiple_of(3);
        let bands = (0..1 + roll / 3 % 2).map(|b| {
            let steps = (0..1 + self.roll(node, &format!("band {b}")) % 3).map(|s| StepDraft {
                reason: "needed".into(),
                step_index: s as u32,
                ..StepDraft::new(StepId::new(format!("b{b}s{s}")), format!("step {b}.{s}"))
            });
            let parallelizable = self.roll(node, "parallel").is_multiple_of(2);
            BandDraft { index: b as u32, goal: "more".into(), parallelizable, steps: steps.collect() }
        });
        PlannerOutput {
            premises: None,
            homework: None,
            mode: if is_leaf { PlannerMode::Execute } else { PlannerMode::Plan },
            mode_reason: "because".into(),
            leaf_decision: None,
            plan: (!is_leaf).then(|| PlanDraft { summary: "a plan".into(), bands: bands.collect() }),
            scratchpad: notes(),
        }
    }

    /// The plan of a node with one more step; none if it has no plan.
    pub(super) fn with_another_step(&self, node: &GraphNode) -> Option<PlanDraft> {
        let bands = node.plan.as_ref()?.bands.iter().map(|band| {
            let steps = band.steps.iter().zip(0..).map(|(step, step_index)| StepDraft {
                reason: step.reason.clone(),
                step_index,
                ..StepDraft::new(step.step_id.clone(), step.title.clone())
            });
            let (goal, parallelizable) = (band.goal.clone(), band.parallelizable);
            BandDraft { index: band.index, goal, parallelizable, steps: steps.collect() }
        });
        let mut bands: Vec<BandDraft> = bands.collect();
        let last = bands.last_mut()?;
        let step_index = last.steps.len() as u32;
        last.steps.push(StepDraft { step_index, ..StepDraft::new(StepId::new("extra"), "an extra step") });
        Some(PlanDraft { summary: "more".into(), bands })
    }

    /// The nodes above a node.
    pub(super) fn ancestors(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let parent = |node: &NodeId| self.run.graph().node(*node).and_then(|node| node.parent_id);
        std::iter::successors(Some(node), parent).skip(1)
    }

    /// A node, those above it and those below it.
    pub(super) fn related(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let nodes = self.run.graph().nodes().iter().map(|node| node.id);
        let below = nodes.filter(move |below| self.ancestors(*below).any(|above| above == node));
        below.chain(self.ancestors(node)).chain([node])
    }

    /// The nodes above a node whose aggregator has answered.
    pub(super) fn made_of_ancestors(&self, node: NodeId) -> BTreeSet<NodeId> {
        let aggregated =
            self.made.iter().filter(|key| key.kind == CallKind::Aggregate).map(|key| key.node_id);
        let above: BTreeSet<NodeId> = self.ancestors(node).collect();
        aggregated.filter(|node| above.contains(node)).collect()
    }

    /// The calls of the nodes that are not among the `old` ones, and of those that were done `again`: each what it
    /// needs once.
    pub(super) fn expected(
        &self,
        again: &BTreeSet<NodeId>,
        old: &BTreeSet<NodeId>,
    ) -> Vec<(NodeId, CallKind)> {
        let nodes = self.run.graph().nodes().iter();
        let fresh = nodes.filter(|node| again.contains(&node.id) || !old.contains(&node.id));
        let mut expected = Vec::new();
        for node in fresh {
            let plans = node.depth < self.shape.depth;
            expected.extend(plans.then_some((node.id, CallKind::Plan)));
            expected
                .push((node.id, if node.plan.is_some() { CallKind::Aggregate } else { CallKind::Execute }));
        }
        expected
    }

    /// The ids of all nodes.
    pub(super) fn ids(&self) -> BTreeSet<NodeId> {
        self.run.graph().nodes().iter().map(|node| node.id).collect()
    }

    /// The calls that were answered, sorted.
    pub(super) fn calls(&self) -> Vec<(NodeId, CallKind)> {
        let mut calls: Vec<_> = self.made.iter().map(|key| (key.node_id, key.kind)).collect();
        calls.sort();
        calls
    }
}
