//! How nodes and runs end: failed, cancelled, out of budget.

use tree_agent_contract::event::*;
use tree_agent_contract::{NodeStatus, Outcome, RunStatus, StepStatus};

use super::{Decider, Next};

impl Decider<'_> {
    /// The guard of the node at `at`, for which nothing new may begin.
    pub(crate) fn guard(&self, at: usize) -> String {
        format!("guard:{}", self.state.ending(at).map_or("budget", |ending| ending.guard()))
    }

    /// Ends the node at `at` with an error.
    pub(crate) fn fail(&mut self, at: usize, error: String, retryable: bool) {
        let error = self.state.waiting().explain_node(at, error);
        self.emit(at, NodeFailed { error, retryable });
        self.ask(Next::Ended { at });
    }

    /// Ends the node at `at` without a result because nothing new may begin for it.
    pub(crate) fn cancel(&mut self, at: usize) {
        self.give_up(at);
        self.cancel_unbegun(at);
        self.ask(Next::Ended { at });
    }

    /// As [`cancel`](Self::cancel), for a node that has not begun, by its parent.
    pub(crate) fn cancel_unbegun(&mut self, at: usize) {
        let message = self.state.ending(at).map(|ending| ending.message());
        self.status(at, NodeStatus::Cancelled, message);
    }

    /// The root has ended, so the run ends.
    pub(crate) fn end_run(&mut self) {
        let root = self.state.node(0);
        let exhausted = self.state.exhausted().map(|b| format!("budget {b} is used up"));
        let (status, reason, partial) = match root.status {
            NodeStatus::Completed => {
                (RunStatus::Completed, exhausted, root.outcome == Some(Outcome::Partial))
            }
            NodeStatus::Failed => (RunStatus::Failed, root.error.clone(), false),
            _ if exhausted.is_none() && root.stopped => {
                (RunStatus::Cancelled, Some("stopped before anything was finished".to_owned()), false)
            }
            _ => (
                RunStatus::Failed,
                exhausted.map(|e| format!("{e} before anything was finished; raise it and run again")),
                false,
            ),
        };
        let reason = reason.map(|reason| self.state.waiting().explain_run(reason));
        self.emit(0, RunStatusChanged { status, reason, partial });
    }

    /// Ends the run as it is: children before their parents, then the run itself.
    pub(crate) fn end_all(&mut self, status: RunStatus, reason: String) {
        for at in (0..self.state.nodes().len()).rev() {
            if self.state.node(at).status.is_final() {
                continue;
            }
            self.give_up(at);
            self.status(at, NodeStatus::Cancelled, None);
            let step_id = self.state.planned_step(at);
            if let (Some(parent), Some(step_id)) = (self.state.control(at).parent, step_id) {
                self.emit(parent, StepStatusChanged { step_id, status: StepStatus::Cancelled });
            }
        }
        let reason = match status {
            RunStatus::Failed => self.state.waiting().explain_run(reason),
            _ => reason,
        };
        let reason = (!reason.is_empty()).then_some(reason);
        self.emit(0, RunStatusChanged { status, reason, partial: false });
    }
}
