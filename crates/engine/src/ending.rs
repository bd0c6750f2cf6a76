//! How nodes and runs end: failed, cancelled, out of budget.

use tree_agent_contract::event::*;
use tree_agent_contract::{NodeStatus, Outcome, RunStatus, StepStatus};

use crate::call::CallKind;
use crate::decide::Decider;

impl Decider<'_> {
    pub(crate) fn fail_node(&mut self, at: usize, error: String, retryable: bool) {
        let error = self.run.explain_node(at, error);
        self.emit(at, NodeFailed { error, retryable });
        self.ended(at);
    }

    /// A node that was about to plan again goes back to aggregating what its children completed before, as partial, so
    /// that it is not lost. False if there is nothing to keep.
    pub(crate) fn keep_children(&mut self, at: usize, guard: &str) -> bool {
        let nodes = self.run.graph.nodes();
        if !self.run.latest_children(at).any(|c| nodes[c].status == NodeStatus::Completed) {
            return false;
        }
        self.give_up(at);
        self.run.in_flight.remove(&at);
        self.run.unreachable.remove(&at);
        self.status(at, NodeStatus::Aggregating, Some(format!("guard:{guard}")));
        true
    }

    /// Ends a node without a result because the run is out of budget.
    pub(crate) fn cancel_node(&mut self, at: usize) {
        if self.keep_children(at, "budget") {
            return;
        }
        self.give_up(at);
        let message = self.run.exhausted.as_ref().map(|b| format!("budget:{b}"));
        self.status(at, NodeStatus::Cancelled, message);
        self.ended(at);
    }

    /// The root has ended, so the run ends.
    pub(crate) fn end_run(&mut self) {
        let root = &self.run.graph.nodes()[0];
        let exhausted = self.run.exhausted.as_ref().map(|b| format!("budget {b} is used up"));
        let (status, reason, partial) = match root.status {
            NodeStatus::Completed => {
                (RunStatus::Completed, exhausted, root.outcome == Some(Outcome::Partial))
            }
            NodeStatus::Failed => (RunStatus::Failed, root.error.clone(), false),
            _ => (
                RunStatus::Failed,
                exhausted.map(|e| format!("{e} before anything was finished; raise it and run again")),
                false,
            ),
        };
        let reason = reason.map(|reason| self.run.explain_run(reason));
        self.emit(0, RunStatusChanged { status, reason, partial });
    }

    /// Ends the run as it is: children before their parents, then the run itself.
    pub(crate) fn end_all(&mut self, status: RunStatus, reason: String) {
        for at in (0..self.run.control.len()).rev() {
            if self.run.graph.nodes()[at].status.is_final() {
                continue;
            }
            self.give_up(at);
            self.status(at, NodeStatus::Cancelled, None);
            let step_id = self.run.graph.nodes()[at].step_id.clone();
            if let (Some(parent), Some(step_id)) = (self.run.control[at].parent, step_id) {
                self.emit(parent, StepStatusChanged { step_id, status: StepStatus::Cancelled });
            }
        }
        let reason = match status {
            RunStatus::Failed => self.run.explain_run(reason),
            _ => reason,
        };
        let reason = (!reason.is_empty()).then_some(reason);
        self.emit(0, RunStatusChanged { status, reason, partial: false });
    }

    /// Cancels what has not begun, and with `at_work` also leaf work in flight. Aggregators continue. The deepest nodes
    /// come first, so that every parent sees its children ended.
    pub(crate) fn stop_starting(&mut self, at_work: bool) {
        for at in (0..self.run.control.len()).rev() {
            let node = &self.run.graph.nodes()[at];
            if node.status.is_final() || self.run.is_final() {
                continue;
            }
            let control = &self.run.control[at];
            let stop = match control.needs {
                Some(CallKind::Aggregate) => false,
                Some(_) => at_work || !self.run.in_flight.contains_key(&at),
                // It waits for a place in its band, not for children.
                None => control.planned_children().children.is_empty(),
            };
            if stop {
                self.cancel_node(at);
            }
        }
    }
}
