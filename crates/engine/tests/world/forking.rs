//! Worlds that fork another one.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::command::Action;
use tree_agent_contract::event::{Event, EventBody, RunForked};
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::*;
use tree_agent_engine::{CallKind, Decision, Input, Run};

use super::{Documents, Meters, World};

impl World {
    /// The last event of what was decided with the event `at`: the whole of it was written at once.
    pub(crate) fn moment(&self, at: usize) -> usize {
        let time = self.log[at - 1].timestamp;
        at + self.log[at..].iter().take_while(|event| event.timestamp == time).count()
    }

    /// The world as it was after the event `at`.
    pub(crate) fn at(&self, at: usize) -> Run {
        Run::replay(self.run_id, &self.log[..at]).expect("a prefix replays")
    }

    /// A fork at the event `at`, driven to its end.
    pub(crate) fn fork(&self, at: usize, edits: Vec<Action>) -> World {
        let now = self.log[at - 1].timestamp.plus_millis(3_600_000);
        let (_, goes_on) = self.at(at).fork(&edits, now).expect("the edits were checked");
        let run_id = RunId(uuid::Uuid::from_u128(43));
        let mut log: Vec<Event> = self.log[..at].iter().map(|e| Event { run_id, ..e.clone() }).collect();
        let body = RunForked {
            source_run_id: self.run_id,
            at_seq: at as u64,
            origin_run_id: Some(self.at(at).origin()),
            author: "ann".into(),
            by_administrator: false,
            request_id: "fork".into(),
            display_name: String::new(),
            labels: BTreeMap::new(),
            edits,
            goes_on,
        };
        log.push(Event { seq: at as u64 + 1, timestamp: now, body: body.into(), ..log[0].clone() });
        let mut documents = Documents::default();
        let written: Vec<_> = self.written.iter().take_while(|(end, _)| *end <= at).cloned().collect();
        written.iter().for_each(|(_, ops)| documents.write(ops.clone()));
        let mut fork = World {
            run_id,
            run: Run::replay(run_id, &log).expect("the log of a fork replays"),
            log,
            plan: self.plan.clone(),
            now,
            dice_at: 0,
            calls: BTreeMap::new(),
            accepted: BTreeSet::new(),
            made: BTreeSet::new(),
            replans_asked: BTreeMap::new(),
            ending: BTreeMap::new(),
            said: Vec::new(),
            documents,
            written,
            cancelled: false,
            commands: 0,
            steered: true,
            meters: Meters::of_fork(&self.plan),
        };
        fork.plan.cancel_after = 0;
        if !fork.run.is_final() {
            fork.feed(Input::Claimed);
        }
        fork.drive_to_its_end();
        fork
    }

    /// Calls that were made, by node.
    pub(crate) fn calls_of(&self) -> BTreeMap<NodeId, Vec<CallKind>> {
        let mut calls: BTreeMap<NodeId, Vec<CallKind>> = BTreeMap::new();
        self.made.iter().for_each(|(node, kind, _)| calls.entry(*node).or_default().push(*kind));
        calls
    }

    /// Something that a fork at the event `at` may do differently.
    pub(crate) fn edits_at(&mut self, at: usize) -> Vec<Action> {
        let run = self.at(at);
        let (kind, flag) = (self.roll() % 8, self.roll() < 128);
        let nodes: Vec<_> = run.graph().nodes().iter().map(|node| (node.id, node.status)).collect();
        // Budgets can be raised at any time.
        let of_kind = |(_, status): &&(NodeId, NodeStatus)| kind >= 6 || (kind < 4) == status.is_final();
        let fitting: Vec<NodeId> = nodes.iter().filter(of_kind).map(|(id, _)| *id).collect();
        let Some(&node_id) = fitting.get(usize::from(self.roll()) % fitting.len().max(1)) else {
            return Vec::new();
        };
        let raise = BudgetChange {
            max_tokens: Some(0),
            max_cost_micros: Some(0),
            max_tool_calls: Some(0),
            ..BudgetChange::default()
        };
        let guidance = if flag { "again".into() } else { String::new() };
        let edit = match kind {
            0..=2 => Action::Retry { node_id, guidance, model: String::new(), budget: None },
            3 | 4 => match self.edited(&run, node_id) {
                Some(plan) => Action::EditPlan { node_id, plan },
                None => return Vec::new(),
            },
            5 => Action::Guide { node_id, text: "look closer".into(), subtree: flag, restart: false },
            6 => Action::SetBudget { node_id: None, change: raise },
            _ => {
                // What a lease cancelled goes on, if one was used up.
                let used_up = |node: &&GraphNode| node.lease.as_ref().is_some_and(|l| l.exhausted.is_some());
                let node_id = run.graph().nodes().iter().find(used_up).map_or(node_id, |node| node.id);
                let max_tokens = Some(1 + u64::from(self.roll()) * 200);
                let change = BudgetChange { max_tokens, ..BudgetChange::default() };
                Action::SetBudget { node_id: Some(node_id), change }
            }
        };
        let mut edits = vec![edit];
        if flag {
            edits.push(Action::SetModel { model: "other".into() });
        }
        match run.fork(&edits, self.now) {
            Ok(_) => edits,
            Err(_) => Vec::new(),
        }
    }

    /// Each edit of the fork at the event `at` was carried out once, whatever driver died, and also if this is a fork
    /// of that fork.
    pub(crate) fn check_forked(&self, at: usize) {
        self.check_steered();
        let is_live = !self.at(at + 1).is_final();
        let EventBody::RunForked(forked) = &self.log[at].body else { panic!("no fork") };
        let own = &self.log[at + 1..];
        for (i, edit) in forked.edits.iter().enumerate() {
            let id = format!("fork:{}:{i}", at + 1);
            let done = own.iter().filter(|event| match (&event.body, edit) {
                (EventBody::GuidanceAdded(e), Action::Guide { .. }) => e.request_id == id,
                (EventBody::NodeReopened(e), Action::Retry { .. }) => e.request_id == id && e.again,
                (EventBody::PlanEdited(e), Action::EditPlan { .. }) => e.request_id == id,
                (EventBody::BudgetSet(e), Action::SetBudget { .. }) => e.request_id == id,
                _ => false,
            });
            let is_due = is_live && !matches!(edit, Action::SetModel { .. });
            let expected = usize::from(is_due);
            assert_eq!(done.count(), expected, "{edit:?}");
        }
    }
}

/// A decision's documents, with the length of the log after it.
pub(super) fn note(written: &mut Vec<(usize, Vec<DocumentOp>)>, end: usize, decision: &Decision) {
    if !decision.documents.is_empty() {
        written.push((end, decision.documents.clone()));
    }
}
