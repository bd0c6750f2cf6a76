//! People who give commands while a world runs.

use proptest::prelude::any;
use proptest::strategy::Strategy as Generator;
use tree_agent_contract::command::Action;
use tree_agent_contract::event::EventBody;
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::role::{BandDraft, PlanDraft, StepDraft};
use tree_agent_contract::*;
use tree_agent_engine::{Audit, CallKey, CallKind, Run};

use super::{World, WorldPlan};

/// Commands of one world.
const COMMANDS: u32 = 60;

/// Worlds of any strategy in which people give commands.
pub(crate) fn steered() -> impl Generator<Value = WorldPlan> {
    let plans = proptest::prop_oneof![
        4 => super::plans(),
        2 => super::searches(),
        2 => super::homework_worlds(),
        1 => super::trees_with_searches(),
    ];
    (plans, 1u8..120, any::<bool>()).prop_map(|(plan, commands, failures)| WorldPlan {
        commands,
        cancel_after: 0,
        failures: if failures { plan.failures } else { 0 },
        ..plan
    })
}

pub(super) fn premises() -> Premises {
    Premises { assumptions: vec!["it is so".into()], left_out: vec!["the rest".into()] }
}

impl World {
    /// Sometimes gives a command.
    pub(super) fn steer(&mut self) {
        if self.plan.commands == 0 || self.commands >= COMMANDS || self.roll() >= self.plan.commands {
            return;
        }
        let flag = self.roll() < 128;
        let kind = self.roll() % 16;
        let nodes = self.run.graph().nodes();
        let of_kind = |node: &&GraphNode| match kind {
            3..=5 => node.paused,
            9..=11 => node.status.is_final(),
            12..=14 => node.plan.is_some() && node.status == NodeStatus::Waiting,
            _ => !node.status.is_final(),
        };
        let fitting: Vec<NodeId> = nodes.iter().filter(of_kind).map(|node| node.id).collect();
        let any: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
        let from = if fitting.is_empty() || self.roll() < 20 { any } else { fitting };
        let node_id = from[usize::from(self.roll()) % from.len()];
        let is_root = node_id == NodeId::root(self.run_id);
        let action = match kind {
            0..=2 => Action::Pause { node_id: (!is_root || flag).then_some(node_id), now: self.roll() < 128 },
            3..=5 => Action::Resume { node_id: Some(node_id) },
            6 | 7 => Action::Guide {
                node_id,
                text: "look closer".into(),
                subtree: flag,
                restart: self.roll() < 128,
            },
            // Not so often the whole run.
            8 if is_root && self.roll() < 200 => return,
            8 => Action::Stop { node_id, discard: flag },
            9..=11 => Action::Retry {
                node_id,
                guidance: if flag { "again".into() } else { String::new() },
                model: if self.roll() < 60 { "other".into() } else { String::new() },
                budget: self.step_budget(),
            },
            12..=14 => match self.edited(&self.run.clone(), node_id) {
                Some(plan) => Action::EditPlan { node_id, plan },
                None => return,
            },
            _ if self.plan.leases > 0 && flag => {
                let change = BudgetChange { max_nodes: None, max_parallel_steps: None, ..self.change() };
                Action::SetBudget { node_id: Some(node_id), change }
            }
            _ => Action::SetBudget { node_id: None, change: self.change() },
        };
        let expected_seq =
            (self.roll() < 60).then(|| self.run.graph().seq() - u64::from(self.roll() % 8).min(3));
        self.give(action, expected_seq);
    }

    /// Resumes something. False if nothing is paused.
    pub(super) fn resume(&mut self) -> bool {
        let paused = self.run.graph().nodes().iter().find(|n| n.paused && !n.status.is_final()).map(|n| n.id);
        let Some(node) = paused else { return false };
        self.give(Action::Resume { node_id: Some(node) }, None);
        true
    }

    /// A command is carried out once, or changes nothing. Its preview says which.
    fn give(&mut self, action: Action, expected_seq: Option<u64>) {
        self.commands += 1;
        let request_id = format!("c{}", self.commands);
        let command = Command { request_id, author: "ann".into(), expected_seq, action };
        let before = self.run.to_bytes();
        let preview = self.run.preview(&command, self.now);
        assert_eq!(self.run.to_bytes(), before, "a preview changes nothing");
        let restarts = matches!(&command.action, Action::Stop { .. } | Action::Retry { .. });
        match self.run.command(&command, self.now) {
            Ok(decision) => {
                assert!(!decision.is_empty(), "{command:?} leaves no event");
                let preview = preview.unwrap_or_else(|e| panic!("{command:?} was not to be: {e}"));
                assert!(preview.node_count > 0, "{preview:?}");
                self.steered |= restarts;
                self.write_down(decision);
                let again = self.run.command(&command, self.now).expect("it was applied");
                assert!(again.is_empty(), "{command:?} is applied again: {again:?}");
            }
            Err(refusal) => {
                assert_eq!(self.run.to_bytes(), before, "{command:?} was refused and left something");
                assert!(preview.is_err(), "{command:?} is refused against its preview: {refusal}");
            }
        }
    }

    /// The plan of a node, changed at random.
    pub(super) fn edited(&mut self, run: &Run, node: NodeId) -> Option<PlanDraft> {
        let plan = run.graph().node(node)?.plan.clone()?;
        let mut bands: Vec<Vec<StepDraft>> = Vec::new();
        for band in &plan.bands {
            let mut steps = Vec::new();
            for step in &band.steps {
                let roll = self.roll();
                if roll < 50 && step.status == StepStatus::Pending {
                    continue;
                }
                let reason = match roll {
                    50..90 if step.status == StepStatus::Pending => "changed".to_owned(),
                    _ => step.reason.clone(),
                };
                steps.push(StepDraft {
                    reason,
                    success_criteria: step.success_criteria.clone(),
                    strategy: step.strategy,
                    search: step.search,
                    branch_id: step.branch_id.clone(),
                    budget: step.budget,
                    ..StepDraft::new(step.step_id.clone(), step.title.clone())
                });
            }
            bands.push(steps);
        }
        if self.roll() < 160 && !bands.is_empty() {
            let band = usize::from(self.roll()) % (bands.len() + 1);
            let n = self.commands;
            let branch_id = plan.iteration.map(|_| format!("new-{n}"));
            let budget = self.step_budget();
            let step = StepDraft {
                branch_id,
                budget,
                ..StepDraft::new(StepId::new(format!("e{n}")), format!("extra {n}"))
            };
            match bands.get_mut(band) {
                Some(steps) => steps.push(step),
                None => bands.push(vec![step]),
            }
        }
        bands.retain(|steps| !steps.is_empty());
        let bands = (0..).zip(bands).map(|(index, mut steps)| {
            (0..).zip(&mut steps).for_each(|(n, step)| step.step_index = n);
            BandDraft { index, goal: "changed".into(), parallelizable: self.roll() < 128, steps }
        });
        Some(PlanDraft { summary: "changed".into(), bands: bands.collect() })
    }

    fn change(&mut self) -> BudgetChange {
        let amount = |roll: u8| (roll < 128).then(|| u64::from(roll) * 1_000);
        let rolls: [u8; 5] = std::array::from_fn(|_| self.roll());
        BudgetChange {
            max_tokens: amount(rolls[0]),
            max_cost_micros: amount(rolls[1]).map(|cost| cost / 20),
            max_tool_calls: amount(rolls[2]).map(|calls| calls / 1_000),
            max_wall_clock_ms: (rolls[3] < 60).then(|| 2_000 + u64::from(rolls[3]) * 200),
            max_nodes: (rolls[4] < 60).then(|| 1 + u32::from(rolls[4])),
            max_parallel_steps: (rolls[4] > 200).then_some(2),
        }
    }

    /// No role call is made for a node that is paused, or that is below one. Before a person was asked to look at the
    /// plan, nothing is done but to make it.
    pub(super) fn assert_may_begin(&self, key: &CallKey) {
        let graph = self.run.graph();
        let mut next = Some(key.node_id);
        while let Some(node) = next.and_then(|id| graph.node(id)) {
            assert!(!node.paused, "a call is made for {} below the paused {}", node.title, node.id);
            next = node.parent_id;
        }
        let plans =
            key.node_id == self.log[0].node_id && matches!(key.kind, CallKind::Plan | CallKind::Research);
        let is_asked = || self.log.iter().any(|event| matches!(event.body, EventBody::ReviewRequested(_)));
        assert!(self.plan.review.is_none() || plans || is_asked(), "{key:?} comes before its review");
    }

    /// The log, for people who look for the cause of a failure.
    pub(super) fn story(&self) -> String {
        let line = |event: &Event| {
            let title = self.run.graph().node(event.node_id).map_or("", |node| node.title.as_str());
            let payload: String =
                serde_json::to_string(&event.body).expect("json").chars().take(160).collect();
            format!("{} {title:?} {} {payload}\n", event.seq, event.body.event_type())
        };
        self.log.iter().map(line).collect()
    }

    /// What holds whatever people did.
    pub(crate) fn check_steered(&self) {
        let mut audit = Audit::new();
        self.log.iter().for_each(|event| audit.event(event));
        let found = audit.finish();
        assert!(found.is_empty(), "the invariants of a log: {found:#?}\n{}", self.story());
        self.check_ids();
        self.documents.check();
        assert!(self.run.graph().status().is_final(), "every run that is not paused ends");
        let root = &self.run.graph().nodes()[0];
        if root.status == NodeStatus::Completed {
            assert!(root.result.is_some(), "a completed root holds its result");
        }
        let replayed = Run::replay(self.run_id, &self.log).expect("a log that was written replays");
        assert!(replayed.to_bytes() == self.run.to_bytes(), "the log replays to the same bytes");
    }
}
