//! What people have done to the run, as the log shows it: the commands that were applied, and the time that a pause has
//! stopped.
//!
//! While something is paused, the wall clock stands still whenever nothing else can go on: no node outside the pause
//! has a call due, in flight or waiting for its retry, and no node within it has a call in flight. These spans follow
//! from the log alone, so that every driver sees the same deadlines.

use std::collections::BTreeMap;

use serde::Serialize;
use tree_agent_contract::command::Action;
use tree_agent_contract::event::{Event, EventBody, RunForked};
use tree_agent_contract::role::Guidance;
use tree_agent_contract::{Command, NodeId, Refusal, RefusalKind, Timestamp};

/// What people have done to the run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Steering {
    /// The commands that were applied, by request id, with what they did.
    applied: BTreeMap<String, Vec<Effect>>,
    /// Commands that were applied.
    commands: usize,
    /// Nodes that are paused by themselves.
    pauses: u32,
    /// Nodes that are stopped by themselves.
    stops: u32,
    /// Seq of the last change of a budget.
    budget_set: u64,
    /// A person was asked to look at the plan.
    reviewed: bool,
    /// Since when the clock stands still.
    still_since: Option<Timestamp>,
    /// Milliseconds for which it stood still before.
    stood_still_ms: u64,
    /// What a fork does differently and is not carried out yet.
    edits: Vec<Command>,
    /// When that was.
    #[serde(skip)]
    stood_still: Vec<(Timestamp, Timestamp)>,
}

/// What a command did, as one of its events shows: to which node, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Effect(NodeId, Verb);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Verb {
    Pause,
    Resume,
    Stop,
    SetBudget,
    /// The node is done again.
    Retry,
    /// The node waits for its children again.
    Reopen,
    Guide,
    EditPlan,
}

impl Effect {
    /// What the command must have done, if it was applied. None if the log does not name it.
    fn of(command: &Command, root: NodeId) -> Option<Self> {
        Some(match &command.action {
            Action::Pause { node_id, .. } => Self(node_id.unwrap_or(root), Verb::Pause),
            Action::Resume { node_id } => Self(node_id.unwrap_or(root), Verb::Resume),
            Action::Stop { node_id, .. } => Self(*node_id, Verb::Stop),
            Action::SetBudget { node_id, .. } => Self(node_id.unwrap_or(root), Verb::SetBudget),
            Action::Retry { node_id, .. } => Self(*node_id, Verb::Retry),
            Action::Guide { node_id, .. } => Self(*node_id, Verb::Guide),
            Action::EditPlan { node_id, .. } => Self(*node_id, Verb::EditPlan),
            Action::Cancel { .. } | Action::SetModel { .. } => return None,
        })
    }
}

/// What people have said about one node, and what follows for it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Steered {
    /// What its calls are told, the latest last.
    pub(crate) guidance: Vec<GuidanceEntry>,
    /// The model of the node and of everything below it, if that is not the one of the node above.
    pub(crate) model: Option<String>,
}

/// One piece of guidance.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GuidanceEntry {
    pub(crate) seq: u64,
    /// Every node below is told, too.
    pub(crate) subtree: bool,
    pub(crate) guidance: Guidance,
}

/// Of a node about which nobody has said anything.
pub(crate) static NOT_STEERED: Steered = Steered { guidance: Vec::new(), model: None };

impl Steering {
    /// Follows an event.
    pub(crate) fn follow(&mut self, event: &Event) {
        let (verb, request_id) = match &event.body {
            EventBody::NodePaused(e) => {
                self.pauses += 1;
                (Verb::Pause, &e.request_id)
            }
            EventBody::NodeResumed(e) => (Verb::Resume, &e.request_id),
            EventBody::NodeStopped(e) => {
                self.stops += 1;
                (Verb::Stop, &e.request_id)
            }
            EventBody::BudgetSet(e) => {
                self.budget_set = event.seq;
                (Verb::SetBudget, &e.request_id)
            }
            EventBody::NodeReopened(e) if e.again => (Verb::Retry, &e.request_id),
            EventBody::NodeReopened(e) => (Verb::Reopen, &e.request_id),
            EventBody::GuidanceAdded(e) => (Verb::Guide, &e.request_id),
            EventBody::PlanEdited(e) => (Verb::EditPlan, &e.request_id),
            EventBody::ReviewRequested(_) => {
                self.reviewed = true;
                return;
            }
            EventBody::RunStatusChanged(e) if e.status.is_final() => {
                // Nobody carries out what is left, nor does a fork of the end.
                self.edits.clear();
                return;
            }
            _ => return,
        };
        self.edits.retain(|edit| edit.request_id != *request_id);
        // What a command reopens on its way has no request id, and is part of it.
        let is_part = matches!(&event.body, EventBody::NodeReopened(_)) && request_id.is_empty();
        if !is_part && !self.applied.contains_key(request_id) {
            self.commands += 1;
        }
        if !request_id.is_empty() {
            self.applied.entry(request_id.clone()).or_default().push(Effect(event.node_id, verb));
        }
    }

    /// A pause has ended.
    pub(crate) fn unpause(&mut self) {
        self.pauses -= 1;
    }

    /// A stopped node goes on.
    pub(crate) fn unstop(&mut self) {
        self.stops -= 1;
    }

    /// True if the command was applied before, false if none with its request id was.
    ///
    /// # Errors
    /// Another command was applied with its request id: one that did something else, or something to another node.
    pub(crate) fn has_applied(&self, command: &Command, root: NodeId) -> Result<bool, Refusal> {
        let id = &command.request_id;
        let Some(deeds) = self.applied.get(id) else { return Ok(false) };
        match Effect::of(command, root) {
            Some(deed) if deeds.contains(&deed) => Ok(true),
            _ => {
                let message = format!("{id:?} was used before for another command; use a new request_id");
                Err(Refusal::of_field(RefusalKind::Reused, "request_id", message))
            }
        }
    }

    /// Commands that were applied.
    pub(crate) fn commands(&self) -> usize {
        self.commands
    }

    /// True if a node is paused.
    pub(crate) fn has_pauses(&self) -> bool {
        self.pauses > 0
    }

    /// True if a node is or was stopped.
    pub(crate) fn has_stops(&self) -> bool {
        self.stops > 0
    }

    /// Seq of the last change of a budget; 0 for none.
    pub(crate) fn budget_set(&self) -> u64 {
        self.budget_set
    }

    /// True if a person was asked to look at the plan.
    pub(crate) fn was_reviewed(&self) -> bool {
        self.reviewed
    }

    /// From `now` on the clock stands still, or goes on.
    pub(crate) fn set_clock_stopped(&mut self, is_still: bool, now: Timestamp) {
        match (self.still_since, is_still) {
            (None, true) => self.still_since = Some(now),
            (Some(since), false) => {
                self.stood_still_ms += now.millis_since(since);
                self.stood_still.push((since, now));
                self.still_since = None;
            }
            _ => {}
        }
    }

    /// A fork begins: its clock does, and request ids are those of its own commands. Each of its edits becomes a
    /// command, after those that the run before it has not carried out.
    pub(crate) fn forked(&mut self, seq: u64, e: &RunForked, now: Timestamp) {
        self.stood_still_ms = 0;
        self.still_since = self.still_since.map(|_| now);
        self.applied.clear();
        self.commands = 0;
        let edits = e.edits.iter().enumerate().filter(|(_, edit)| !matches!(edit, Action::SetModel { .. }));
        let command = |(i, edit): (usize, &Action)| Command {
            // The same in every fork that shares it.
            request_id: format!("fork:{seq}:{i}"),
            author: e.author.clone(),
            expected_seq: None,
            action: edit.clone(),
        };
        self.edits.extend(edits.map(command));
    }

    /// What a fork does differently and is not carried out yet, in order.
    pub(crate) fn edits(&self) -> &[Command] {
        &self.edits
    }

    /// Milliseconds for which the clock has stood still since `start`.
    pub(crate) fn stood_still_ms_since(&self, start: Timestamp, now: Timestamp) -> u64 {
        let spans = self.stood_still.iter().copied().chain(self.still_since.map(|since| (since, now)));
        spans.map(|(since, until)| until.millis_since(since.max(start))).sum()
    }

    /// True if the clock stands still.
    pub(crate) fn is_still(&self) -> bool {
        self.still_since.is_some()
    }

    /// Milliseconds for which the clock has stood still.
    pub(crate) fn stood_still_ms(&self, now: Timestamp) -> u64 {
        self.stood_still_ms + self.still_since.map_or(0, |since| now.millis_since(since))
    }
}
