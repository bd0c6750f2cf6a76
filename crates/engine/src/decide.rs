//! Deciding: one input in, the events that follow from it out.

use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::event::*;
use tree_agent_contract::limits;
use tree_agent_contract::role::{RoleError, RoleErrorKind, RoleUpdate};
use tree_agent_contract::text::{prefix, suffix};
use tree_agent_contract::{DocumentId, NodeStatus, Role, RunStatus, Timestamp};

use crate::budget::TOOL_CALLS;
use crate::call::{CallKey, CallKind, CallOutput};
use crate::run::Run;

/// Milliseconds that a run that is out of budget waits for an unreachable aggregator.
const GRACE_MS: u64 = 10_000;

/// What can happen to a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A driver has claimed the run: begin or continue.
    Claimed,
    /// A role call in flight sent an update.
    Update(CallKey, RoleUpdate),
    /// A role call ended with an output. The engine validates it: a role that breaks its contract has failed.
    Output(CallKey, CallOutput),
    /// A role call ended with an error.
    Failed(CallKey, RoleError),
    /// The user cancels the run.
    Cancel {
        /// Shown in the run's last event.
        reason: String,
    },
    /// The run cannot be driven. Ends it as failed.
    Abandon {
        /// Shown in the run's last event.
        reason: String,
    },
    /// Time has passed. Checks the wall clock and handles updates that had to wait.
    Tick,
}

/// The result of an input, to be written in one append and in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The events, already applied.
    pub events: Vec<Event>,
    /// The document writes that belong to them.
    pub documents: Vec<DocumentOp>,
}

impl Decision {
    /// True if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds the decision of another input.
    pub fn merge(&mut self, other: Decision) {
        // The decision of the first input of an append is moved, not copied.
        if self.events.is_empty() && self.documents.is_empty() {
            *self = other;
            return;
        }
        self.events.extend(other.events);
        self.documents.extend(other.documents);
    }
}

/// A run that is deciding. Every event that it emits is applied at once, so that the next decision sees it.
pub(crate) struct Decider<'a> {
    pub(crate) run: &'a mut Run,
    pub(crate) now: Timestamp,
    pub(crate) decision: Decision,
}

impl Run {
    /// Handles one input and returns its events. `now` must not go backwards by much; it is only compared with
    /// deadlines. An input that no longer matters (the run has ended, the call is not in flight) gives nothing.
    pub fn handle(&mut self, input: Input, now: Timestamp) -> Decision {
        let mut deciding = Decider { run: self, now, decision: Decision::default() };
        if !deciding.run.is_final() {
            deciding.release();
        }
        if !deciding.run.is_final() {
            deciding.dispatch(input);
            deciding.check_budgets();
        }
        deciding.decision
    }
}

impl Decider<'_> {
    fn dispatch(&mut self, input: Input) {
        match input {
            Input::Claimed => self.begin(),
            Input::Update(key, _) | Input::Output(key, _) | Input::Failed(key, _) => self.heard(key, input),
            Input::Cancel { reason } => self.end_all(RunStatus::Cancelled, reason),
            Input::Abandon { reason } => self.end_all(RunStatus::Failed, reason),
            Input::Tick => {}
        }
    }

    /// Emits an event about the node at `at`.
    pub(crate) fn emit(&mut self, at: usize, body: impl Into<EventBody>) {
        let node = &self.run.graph.nodes()[at];
        let (node_id, parent_node_id) = (node.id, node.parent_id);
        self.push(node_id, parent_node_id, body.into());
    }

    pub(crate) fn push(
        &mut self,
        node_id: tree_agent_contract::NodeId,
        parent_node_id: Option<tree_agent_contract::NodeId>,
        body: EventBody,
    ) {
        let event = Event {
            run_id: self.run.graph.run_id(),
            seq: self.run.graph.seq() + 1,
            node_id,
            parent_node_id,
            timestamp: self.now,
            body,
        };
        self.run
            .apply(&event)
            .unwrap_or_else(|e| unreachable!("the engine emits only events that apply: {e}"));
        self.decision.events.push(event);
    }

    pub(crate) fn status(&mut self, at: usize, status: NodeStatus, message: Option<String>) {
        self.status_of_attempt(at, status, message, None);
    }

    pub(crate) fn status_of_attempt(
        &mut self,
        at: usize,
        status: NodeStatus,
        message: Option<String>,
        attempt: Option<u32>,
    ) {
        let role = match status {
            NodeStatus::Planning | NodeStatus::Delegating => Role::Planner,
            NodeStatus::Executing | NodeStatus::Aggregating => Role::Executor,
            _ => self.run.graph.nodes()[at].role,
        };
        self.emit(at, NodeStatusChanged { status, role, message, progress: None, attempt });
    }

    fn begin(&mut self) {
        if self.run.graph.status() == RunStatus::Queued {
            self.emit(0, RunStatusChanged { status: RunStatus::Running, reason: None, partial: false });
            self.start_node(0);
        }
    }

    /// A role that could not be reached has answered, so the node shows its work again.
    pub(crate) fn unblock(&mut self, at: usize) {
        self.run.unreachable.remove(&at);
        if self.run.graph.nodes()[at].status == NodeStatus::Blocked {
            let control = &self.run.control[at];
            let (needs, attempt) = (control.needs, control.attempt);
            if let Some(kind) = needs {
                self.status_of_attempt(at, at_work(kind), None, (attempt > 1).then_some(attempt));
            }
        }
    }

    pub(crate) fn on_update(&mut self, at: usize, key: CallKey, update: RoleUpdate) {
        self.show_retry_at_work(at, key.kind);
        match update {
            RoleUpdate::Scratchpad(delta) => {
                // Pieces of one call follow each other without a break. Another call begins a new line.
                let begins = self.run.writing.insert(at, key) != Some(key);
                self.write_scratchpad(at, delta.append_markdown, begins);
            }
            RoleUpdate::ToolCallRequested(_) if self.tools_spent(at) => {
                let message = "asked for more tool calls than it may make; a role must keep to its allowance";
                self.on_failure(at, key, RoleError::new(RoleErrorKind::InvalidOutput, message));
            }
            RoleUpdate::ToolCallRequested(mut call) => {
                call.call_id = tool_call_id(&key, &call.call_id);
                self.emit(at, call);
            }
            RoleUpdate::ToolCallResult(mut result) => {
                result.call_id = tool_call_id(&key, &result.call_id);
                self.emit(at, result);
            }
            RoleUpdate::Usage(usage) => self.emit(at, usage),
            RoleUpdate::Heartbeat => {}
        }
    }

    /// True if the call in flight has made every tool call that it may make.
    pub(crate) fn tools_spent(&self, at: usize) -> bool {
        let flight = self.run.in_flight.get(&at);
        flight.is_some_and(|flight| flight.left(self.run.control[at].spent)[TOOL_CALLS] == 0)
    }

    /// A retried call is shown as `waiting` until its role sends something.
    fn show_retry_at_work(&mut self, at: usize, kind: CallKind) {
        if self.run.graph.nodes()[at].status == NodeStatus::Waiting {
            let attempt = self.run.control[at].attempt;
            self.status_of_attempt(at, at_work(kind), None, (attempt > 1).then_some(attempt));
        }
    }

    pub(crate) fn on_output(&mut self, at: usize, key: CallKey, output: CallOutput) {
        let valid = match &output {
            _ if output.kind() != key.kind => {
                Err(format!("a {:?} answer to a {:?} call", output.kind(), key.kind))
            }
            CallOutput::Plan(out) => out.validate(&self.run.prior_steps(at)).map_err(|e| e.to_string()),
            CallOutput::Execute(out) => out.validate().map_err(|e| e.to_string()),
            CallOutput::Aggregate(out) => out.validate().map_err(|e| e.to_string()),
        };
        if let Err(message) = valid {
            return self.on_failure(at, key, RoleError::new(RoleErrorKind::InvalidOutput, message));
        }
        self.show_retry_at_work(at, key.kind);
        self.run.in_flight.remove(&at);
        match output {
            CallOutput::Plan(out) => self.on_planned(at, out),
            CallOutput::Execute(out) => self.on_executed(at, out),
            CallOutput::Aggregate(out) => self.on_aggregated(at, out),
        }
    }

    pub(crate) fn on_failure(&mut self, at: usize, key: CallKey, error: RoleError) {
        self.run.in_flight.remove(&at);
        if self.run.exhausted.is_some() && key.kind != CallKind::Aggregate {
            return self.cancel_node(at);
        }
        let is_provider = error.kind == RoleErrorKind::ProviderUnreachable;
        let gives_up = is_provider && self.run.gives_up_on_provider(self.now);
        if (is_provider || error.kind == RoleErrorKind::Unreachable) && !gives_up {
            let out_of_budget = self.run.exhausted_at.is_some_and(|t| self.now.millis_since(t) >= GRACE_MS);
            if out_of_budget {
                self.run.unreachable.remove(&at);
                return self.settle_without_aggregator(at, &error);
            }
            return self.on_unreachable(at, error);
        }
        self.run.unreachable.remove(&at);
        let attempts = self.run.spec.budgets.max_attempts;
        if error.retryable() && key.attempt < attempts && !gives_up {
            let next = key.attempt + 1;
            let message =
                prefix(&format!("retry:{next}/{attempts} after {error}"), limits::TEXT_BYTES).to_owned();
            return self.status_of_attempt(at, NodeStatus::Waiting, Some(message), Some(next));
        }
        if key.kind == CallKind::Aggregate {
            return self.settle_without_aggregator(at, &error);
        }
        if self.keep_children(at, "replanFailed") {
            return;
        }
        let text = match gives_up {
            true => format!("no language model has answered in this run: {}", error.message),
            false => error.to_string(),
        };
        self.fail_node(at, prefix(&text, limits::TEXT_BYTES).to_owned(), error.retryable());
    }

    /// Appends a note of whole lines to the node's scratchpad.
    pub(crate) fn append_scratchpad(&mut self, at: usize, markdown: &str) {
        let mut text = markdown.to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        self.write_scratchpad(at, text, true);
    }

    /// Adds `text` to the end of the node's scratchpad, on a new line if it `begins` one. The event carries the new
    /// end.
    fn write_scratchpad(&mut self, at: usize, mut text: String, begins: bool) {
        if text.is_empty() {
            return;
        }
        let node = &self.run.graph.nodes()[at];
        let id = node.scratchpad_doc_id.unwrap_or_else(|| DocumentId::scratchpad(node.id));
        let before = node.scratchpad_tail.as_deref().unwrap_or_default();
        if begins && !before.is_empty() && !before.ends_with('\n') {
            text.insert(0, '\n');
        }
        let tail_preview = if text.len() >= limits::TAIL_PREVIEW_BYTES {
            suffix(&text, limits::TAIL_PREVIEW_BYTES).to_owned()
        } else {
            suffix(&format!("{before}{text}"), limits::TAIL_PREVIEW_BYTES).to_owned()
        };
        self.emit(at, ScratchpadUpdated { scratchpad_doc_id: id, tail_preview, updated_at: self.now });
        self.decision.documents.push(DocumentOp::Append { id, text, at: self.now });
    }
}

/// The status of a node during a role call.
pub(crate) fn at_work(kind: CallKind) -> NodeStatus {
    match kind {
        CallKind::Plan => NodeStatus::Planning,
        CallKind::Execute => NodeStatus::Executing,
        CallKind::Aggregate => NodeStatus::Aggregating,
    }
}

/// A role's id of a tool call is unique within its role call. In the log it must be unique within the node.
fn tool_call_id(key: &CallKey, id: &str) -> String {
    let phase = match key.kind {
        CallKind::Plan => "plan",
        CallKind::Execute => "execute",
        CallKind::Aggregate => "aggregate",
    };
    format!("{phase}.{}.{}.{id}", key.round, key.attempt)
}

#[cfg(test)]
mod tests;
